"""Methods with one reward per response as reward functions for TRL: GRPOTrainer(reward_funcs=trl_reward("rlcr")).

Uses the parser, the verifier and the rewards of the rest of this package. A reward function cannot drop groups whose
responses are all right or all wrong, nor reward answer and confidence tokens differently; `calibsft rl` does both. Needs
neither torch nor TRL.
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from calibsft.errors import InputError
from calibsft.judge.settings import JudgeSettings
from calibsft.responses.formats import get_format
from calibsft.responses.parse import Parsed, parse
from calibsft.rl.method import Group, Method
from calibsft.rl.methods import get_method, method_settings
from calibsft.rl.settings import MethodSettings
from calibsft.schema import Grade
from calibsft.verify import GradeItem
from calibsft.verify.alias import JUDGE
from calibsft.verify.files import DEFAULT_KIND
from calibsft.verify.judged import load_answer_judge
from calibsft.verify.verifier import Verifier, grade_item

Completion: TypeAlias = str | list[dict[str, Any]]

# Keys under which chat parsers put the reasoning that they remove from the content.
REASONING_KEYS = ("reasoning_content", "thinking")


def trl_reward(
    method: str,
    confidence_format: str = "probability",
    judge: JudgeSettings | None = None,
    **settings: Any,
) -> Callable[..., list[float | None]]:
    """A reward function for `GRPOTrainer`, named "rlcr_reward" and the like in TRL's logs.

    It reads these columns of the dataset: `gold`, a text or a list of aliases; optionally `kind`, the grader (default
    "math"); `question` if there is a judge; and for c3rl `success_rate`, the question's success rate before RL. The reward
    is None, which TRL leaves out, if the gold is missing or unreadable or the judge gives no verdict. An answer that cannot
    be graded in time is wrong.
    TRL drops special tokens from completions, so `<think>`, `<answer>` and `<confidence>` must be ordinary tokens.

    Parameters
    ----------
    method
        rlvr, rlcr or c3rl. The others reward answer and confidence tokens differently.
    confidence_format
        The format that the prompts ask for, a name from `calibsft.responses.FORMATS`.
    judge
        The model that judges answers of kind `judge`, as in a recipe; without one they are matched against their aliases.
    settings
        The method's settings, as in a recipe.

    Raises
    ------
    InputError
        At once for an unsuitable method, setting or format; later, when called, for a missing column or a bad value.
    """
    chosen, written = get_method(method), get_format(confidence_format)
    if not chosen.is_scalar:
        raise InputError(
            f"{method} rewards answer and confidence tokens differently, which one number per response cannot say;"
            " train with calibsft rl, or use calibsft.rl.segment_advantages in a trainer of your own"
        )
    chosen.require_format(written)
    given = method_settings(method, settings, "trl_reward")
    asked = load_answer_judge(judge, cache=None) if judge else None
    verifier = Verifier(asked)  # starts processes when an answer first needs them, and keeps them

    def reward(
        prompts: Sequence[Any], completions: Sequence[Completion], completion_ids: Any = None, **columns: Any
    ) -> list[float | None]:
        parsed = [parse(completion_text(completion), written) for completion in completions]
        rates = _success_rates(chosen, columns, len(parsed))
        grades = verifier.grade_all(_items(parsed, columns, judged=asked is not None))
        return [reward_of(chosen, given, *row) for row in zip(parsed, grades, rates, strict=True)]

    reward.__name__ = reward.__qualname__ = f"{chosen.name}_reward"
    return reward


def completion_text(completion: Completion) -> str:
    """What the model wrote; of a conversation, its last turn."""
    if isinstance(completion, str):
        return completion
    turn = completion[-1]
    content = turn.get("content") or ""
    reasoning = next((turn[key] for key in REASONING_KEYS if turn.get(key)), None)
    return str(content) if reasoning is None else f"<think>{reasoning}</think>{content}"


def _items(parsed: Sequence[Parsed], columns: dict[str, Any], judged: bool) -> list[GradeItem]:
    golds = _column("gold", columns, len(parsed), "the reference answer or a list of aliases")
    given = columns.get("kind") is not None
    kinds = _column("kind", columns, len(parsed), "the grader") if given else [DEFAULT_KIND] * len(parsed)
    questions: Sequence[Any] = [""] * len(parsed)
    if judged and JUDGE.name in kinds:
        questions = _column("question", columns, len(parsed), "the question that the judge sees")
    return [
        grade_item(str(kind or DEFAULT_KIND), _aliases(gold), p.answer, question=str(question))
        for p, gold, kind, question in zip(parsed, golds, kinds, questions, strict=True)
    ]


def _aliases(gold: Any) -> tuple[str, ...]:
    if gold is None:
        return ()
    return tuple(map(str, gold)) if isinstance(gold, list | tuple) else (str(gold),)


def _success_rates(method: Method, columns: dict[str, Any], size: int) -> Sequence[float | None]:
    if not method.needs_success_rate:
        return [None] * size
    rates = _column("success_rate", columns, size, "the question's success rate before RL, in [0, 1]")
    for row, rate in enumerate(rates):
        if not (isinstance(rate, Real) and 0 <= float(rate) <= 1):
            raise InputError(f"success_rate[{row}] = {rate!r} is not a success rate; give a number in [0, 1]")
    return rates


def _column(name: str, columns: dict[str, Any], size: int, meaning: str) -> Sequence[Any]:
    values = columns.get(name)
    if values is None:
        raise InputError(f"the dataset has no column '{name}'; add it to every row: {meaning}")
    if len(values) != size:
        raise InputError(
            f"column '{name}' has {len(values)} entries for {size} completions; give one for each"
        )
    return list(values)


def reward_of(
    method: Method, settings: MethodSettings, parsed: Parsed, grade: Grade, success_rate: float | None
) -> float | None:
    """The reward of one response; for these methods it does not depend on the rest of the group."""
    if not grade.scored:
        return None
    correct, confidence = grade is Grade.CORRECT, np.array([parsed.confidence], dtype=float)
    group = Group(np.array([correct]), confidence, np.array([parsed.ok]), success_rate)
    reward_G = method.rewards(group, settings).answer_G
    assert reward_G is not None, "a method with one reward rewards the answer"
    return float(reward_G[0])
