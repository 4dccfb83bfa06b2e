"""The verdict on a prior: is CalibSFT worth it before RL, and why?

It is worth it for any of three reasons, which RL from this prior would not repair:

1. Confidence does not tell right from wrong answers. Below an AUROC of 0.55, even perfectly rescaled confidences
   have a Brier score less than one per cent below that of a constant (with normal scores, d' = 0.18), and RL's reward
   hardly prefers one response's value over another's.
2. Confidence is concentrated and off. Concentrated means that it effectively fills less than half of the ten bands
   [0, 0.1), … [0.9, 1], or of those with values of its format. RL learns only from what it samples, and then it does not
   sample most of the range. Off means an ECE of 0.1 or more. A concentrated prior that is right needs no repair, and a
   broad prior that is off can be repaired by RL.
3. Confidence is concentrated and misses the questions' success rates: even the best value of a group of G misses them by
   0.1 or more (root mean square), and the Brier score is 0.01 or more above p(1 − p). Needs 8 responses per question.

Nothing is decided from fewer than 50 right or 50 wrong responses: the AUROC of random confidences can then be off by
0.06 or more. These limits are conventions, and the figures are given with the verdict.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibsft.prior.floor import NEAR, RELIABLE_RESPONSES
from calibsft.prior.gradient import RARE

if TYPE_CHECKING:
    from calibsft.prior.diagnosis import Diagnosis

UNINFORMATIVE_AUROC = 0.55
FEW_BANDS = 0.5
OFF = 0.1
ENOUGH = 50
# From this share on, responses without a reward matter to RL.
MANY_UNREWARDED = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether CalibSFT is worth it before RL.

    Attributes
    ----------
    worth_it : None if the right or the wrong responses are too few.
    reasons : why, in whole sentences.
    notes : what could not be measured, and what to know when reading the figures.
    """

    worth_it: bool | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def verdict(found: "Diagnosis") -> Verdict:
    """Weigh what is known about a prior; see the top of this file for the reasons and their limits."""
    notes = _notes(found)
    if too_few := _too_few(found):
        return Verdict(None, (too_few,), notes)
    against = [_knows_nothing(found), _few_and_off(found), _out_of_reach(found)]
    reasons = tuple(reason for reason in against if reason)
    return Verdict(True, reasons, notes) if reasons else Verdict(False, _strengths(found), notes)


def is_concentrated(found: "Diagnosis") -> bool:
    """Whether confidence fills less than half of the bands that it could fill."""
    return found.everything.effective_bands < FEW_BANDS * found.gradient.format_bands


def _too_few(found: "Diagnosis") -> str | None:
    right, wrong = (part.n if part else 0 for part in (found.correct, found.incorrect))
    if right == 0:
        return (
            "every response is wrong: nothing shows whether confidence tells right from wrong answers, and"
            " neither CalibSFT nor RL can learn from questions that are never solved; ask easier ones"
        )
    if wrong == 0:
        return (
            "every response is right: nothing shows whether confidence tells right from wrong answers; ask"
            " harder questions"
        )
    if min(right, wrong) < ENOUGH:
        return f"{right:,} right and {wrong:,} wrong responses are too few to tell; sample until there are {ENOUGH} of each"
    return None


def _knows_nothing(found: "Diagnosis") -> str | None:
    if found.auroc is None or found.auroc >= UNINFORMATIVE_AUROC:
        return None
    return (
        f"confidence does not tell right from wrong answers: AUROC {found.auroc:.2f}, where 0.5 is chance; RL on such"
        " values can at best shift them all alike"
    )


def _few_and_off(found: "Diagnosis") -> str | None:
    if found.ece < OFF or not is_concentrated(found):
        return None
    everything, gradient = found.everything, found.gradient
    rare = (
        f"; {gradient.rare} of {gradient.format_values} values are stated less than once in {1 / RARE:,.0f} responses"
        f" and get {percent(gradient.rare_share or 0)} of the gradient together"
        if gradient.format
        else ""
    )
    return (
        f"the responses state {everything.mean_confidence:.2f} on average while {percent(everything.accuracy)} are right"
        f" (ECE {found.ece:.2f}), and RL learns only from values that it samples: {_extent(found)}{rare}"
    )


def _out_of_reach(found: "Diagnosis") -> str | None:
    floor = found.floor
    if floor is None or not floor.reliable or not is_concentrated(found):
        return None
    lost = min(floor.best_of_group.less_noise, floor.excess)
    if lost < NEAR**2:
        return None
    return (
        f"even the best of {floor.group_size} responses misses a question's success rate by"
        f" {floor.best_of_group.less_noise**0.5:.2f} or more (root mean square), and only"
        f" {percent(floor.reach)} of such groups contain a value within {NEAR} of it"
    )


def _strengths(found: "Diagnosis") -> tuple[str, ...]:
    knows = f"confidence tells right from wrong answers: AUROC {found.auroc:.2f}, where 0.5 is chance"
    if is_concentrated(found):
        return knows, f"few values, but they are right (ECE {found.ece:.2f}): {_extent(found)}"
    off = f"; that they are off (ECE {found.ece:.2f}) is what RL corrects" if found.ece >= OFF else ""
    return knows, f"RL has values to choose from: {_extent(found)}{off}"


def _extent(found: "Diagnosis") -> str:
    everything, bands = found.everything, found.gradient.format_bands
    return f"{everything.effective_support:.1f} in effect, which fill {everything.effective_bands:.1f} of {bands} bands of 0.1"


def _notes(found: "Diagnosis") -> tuple[str, ...]:
    notes = []
    if found.unreadable >= MANY_UNREWARDED:
        notes.append(
            f"{percent(found.unreadable)} of the responses state no readable confidence and are left out here; they"
            " get no reward in RL, and CalibSFT teaches the format"
        )
    if (found.malformed or 0) - found.unreadable >= MANY_UNREWARDED:
        notes.append(
            f"{percent(found.malformed or 0)} of the responses are malformed, though the confidence of most can be read; they"
            " get no reward in RL, and CalibSFT teaches the format"
        )
    floor = found.floor
    if floor is None:
        notes.append(
            "no question has two responses or more, so there is no floor to tell; sample each question 8 times"
        )
    elif not floor.reliable:
        notes.append(
            f"the floor is not reliable and not weighed: {floor.responses:.1f} responses per question, and it"
            f" takes {RELIABLE_RESPONSES}"
        )
    elif floor.excess < floor.floor.less_noise - NEAR**2:
        notes.append(
            "the floor does not bind: confidence differs between right and wrong answers to the same question, and"
            " loses less than a model could that knows the question alone"
        )
    return tuple(notes)


def percent(share: float) -> str:
    """A share as a percentage, with one decimal if it is small."""
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
