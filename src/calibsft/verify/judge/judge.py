"""Grade answers by asking a judge model, each distinct question to it once.

Three kinds of answers are settled without asking: one that shows nothing, one whose golds show nothing, and one
that is an alias after normalisation (`alias`), to which any judge says yes. Does not know how a model is reached:
that is `endpoint` and `local`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from calibsft.progress import warn
from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.judge.alias import JUDGE
from calibsft.verify.judge.cache import VerdictCache
from calibsft.verify.judge.prompt import VERSION, Prompt, prediction, prompt_for, read_reply

if TYPE_CHECKING:
    from calibsft.verify.judge.settings import JudgeSettings

MAX_REPLY = 100


class JudgeModel(Protocol):
    """A model that can be asked; `name` is what artifacts record."""

    @property
    def name(self) -> str: ...

    def ask(self, prompts: Sequence[Prompt], on_reply: Callable[[int, str | None], None]) -> None:
        """Ask every prompt, in any order.

        `on_reply(i, reply)` is called in the caller's thread once for `prompts[i]`, as soon as its reply is there;
        None for a prompt that the model cannot take. Where the model itself fails, `InputError` is raised after
        the replies that did come were passed on.
        """
        ...


class Judge:
    """Grades by asking `model`, and never asks the same twice.

    An answer that equals an alias after TriviaQA's normalisation is correct without being asked about; `name` says
    so. A reply other than yes or no leaves the answer `UNJUDGED`, which is unscored, and is kept like a verdict: at
    temperature 0 the model would say it again.

    Parameters
    ----------
    model
        Who is asked.
    cache
        File of replies to read and extend, filed under a hash of this judge's version, the model's name and the whole
        prompt; None to keep them in memory.
    """

    def __init__(self, model: JudgeModel, cache: Path | None = None) -> None:
        self._model, self._path, self._cache = model, cache, VerdictCache(cache)
        self.name = f"judge-{VERSION} {model.name} (exact aliases unasked)"

    def grade_all(
        self, items: Sequence[GradeItem], on_progress: Callable[[int, int], None] | None = None
    ) -> list[Grade]:
        """The grades of `items`, in order.

        Parameters
        ----------
        items
            What to grade; `kind` and `tolerance` are not looked at.
        on_progress
            Called with (items settled so far, all items) whenever that number grows.
        """
        run = _Run(items, on_progress)
        unknown: list[Prompt] = []
        for prompt in run.waiting:
            reply = self._cache.get(self._key(prompt))
            if reply is None:
                unknown.append(prompt)
            else:
                run.settle_prompt(prompt, reply)

        def keep(i: int, reply: str | None) -> None:
            if reply is not None:
                reply = " ".join(reply.split())[:MAX_REPLY]
                self._cache.add(self._key(unknown[i]), reply)
            run.settle_prompt(unknown[i], reply)

        if unknown:
            self._model.ask(unknown, keep)
        self._warn_of_unreadable(run)
        return [run.grades[item] for item in items]

    def _key(self, prompt: Prompt) -> str:
        asked = json.dumps([VERSION, self._model.name, prompt.system, prompt.user])
        return sha256(asked.encode()).hexdigest()

    def _warn_of_unreadable(self, run: "_Run") -> None:
        if run.unjudged:
            said = f"it said {run.unreadable!r}" if run.unreadable else "it said nothing"
            again = f"; to ask again, delete {self._path}" if self._path else ""
            warn(
                f"{self._model.name} gave no verdict on {run.unjudged:,} of {run.total:,} answers, which stay unscored"
                f" ({said}, not yes or no): a judge must answer at once, without thinking{again}"
            )


class _Run:
    """One call of `grade_all`: what is settled, and which items wait for which prompt."""

    def __init__(self, items: Sequence[GradeItem], on_progress: Callable[[int, int], None] | None) -> None:
        self.grades: dict[GradeItem, Grade] = {}
        self.waiting: dict[Prompt, list[GradeItem]] = defaultdict(list)
        self.total, self.unjudged, self.unreadable = len(items), 0, ""
        self._copies, self._settled, self._on_progress = Counter(items), 0, on_progress
        for item in self._copies:
            if (grade := grade_unasked(item)) is None:
                self.waiting[prompt_for(item)].append(item)
            else:
                self._settle(item, grade)

    def settle_prompt(self, prompt: Prompt, reply: str | None) -> None:
        grade = read_reply(reply)
        for item in self.waiting[prompt]:
            self._settle(item, grade)
            if grade is Grade.UNJUDGED:
                self.unjudged += self._copies[item]
                self.unreadable = self.unreadable or reply or ""

    def _settle(self, item: GradeItem, grade: Grade) -> None:
        self.grades[item] = grade
        self._settled += self._copies[item]
        if self._on_progress:
            self._on_progress(self._settled, self.total)


def grade_unasked(item: GradeItem) -> Grade | None:
    """The grade that needs no judge: nothing to compare, or an exact alias; None for everything else."""
    grade = JUDGE.grade(replace(item, answer=prediction(item.answer)))
    return None if grade in (Grade.INCORRECT, Grade.TOO_LARGE) else grade


def load_judge(
    settings: "JudgeSettings", cache: Path | None, device: str = "auto", dtype: str = "auto"
) -> Judge | None:
    """The judge of a recipe, None where it names no model.

    Nothing is loaded or reached before there is something to ask. `device` and `dtype` are for a model that is
    loaded here; behind `settings.url` they mean nothing.
    """
    if settings.model is None:
        return None
    model: JudgeModel
    if settings.url is None:
        from calibsft.verify.judge.local import LocalJudge

        model = LocalJudge(settings.model, device, dtype)
    else:
        from calibsft.verify.judge.endpoint import EndpointJudge

        model = EndpointJudge(settings.url, settings.model, settings.concurrency, settings.timeout)
    return Judge(model, cache)
