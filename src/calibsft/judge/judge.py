"""Ask a judge model about items by one rubric, each distinct question to it once.

Does not know how a model is reached: that is `endpoint` and `local`.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol

from calibsft.judge.cache import VerdictCache
from calibsft.judge.rubric import JudgeItem, Prompt, Rubric, V
from calibsft.judge.yes_no import YES_NO
from calibsft.progress import warn

if TYPE_CHECKING:
    from calibsft.judge.settings import JudgeSettings

MAX_REPLY = 100


class JudgeModel(Protocol):
    """A model that can be asked; `name` is what artifacts record."""

    @property
    def name(self) -> str: ...

    def ask(
        self, prompts: Sequence[Prompt], tokens: int, on_reply: Callable[[int, str | None], None]
    ) -> None:
        """Ask every prompt, in any order, for replies of at most `tokens` tokens.

        `on_reply(i, reply)` is called in the caller's thread once for `prompts[i]`, as soon as its reply is there;
        None for a prompt that the model cannot take. Where the model itself fails, `InputError` is raised after
        the replies that did come were passed on.
        """
        ...


class Judge(Generic[V]):
    """Asks `model` by `rubric`, and never asks the same twice.

    An unreadable reply is no verdict, and is kept like one: at temperature 0 the model would say it again.

    Parameters
    ----------
    model
        Who is asked.
    rubric
        What is asked, and how replies are read.
    cache
        File of replies to read and extend, filed under a hash of the rubric's name and version, the model's name and
        the whole prompt; None to keep them in memory. Judges may share it.
    """

    def __init__(self, model: JudgeModel, rubric: Rubric[V], cache: Path | None = None) -> None:
        self.model, self.rubric = model, rubric
        self._path, self._cache = cache, VerdictCache(cache)

    @property
    def name(self) -> str:
        return f"{self.rubric.name}-{self.rubric.version} {self.model.name}"

    def judge_all(
        self,
        items: Sequence[JudgeItem],
        on_progress: Callable[[int], None] | None = None,
        total: int | None = None,
    ) -> list[V | None]:
        """The verdicts on `items`, in order; None where the model gave none, of which one warning tells.

        Parameters
        ----------
        items
            What to judge.
        on_progress
            Called with the number of items settled so far, whenever it grows.
        total
            Of how many items the warning speaks; default: these.
        """
        run = _Run(items, self.rubric, on_progress)
        unknown: list[Prompt] = []
        for prompt in run.copies:
            reply = self._cache.get(self._key(prompt))
            if reply is None:
                unknown.append(prompt)
            else:
                run.settle(prompt, reply)

        def keep(i: int, reply: str | None) -> None:
            if reply is not None:
                reply = " ".join(reply.split())[:MAX_REPLY]
                self._cache.add(self._key(unknown[i]), reply)
            run.settle(unknown[i], reply)

        if unknown:
            self.model.ask(unknown, self.rubric.tokens, keep)
        if run.unreadable:
            self._warn_of_unreadable(run, len(items) if total is None else total)
        return [run.verdicts[prompt] for prompt in run.prompts]

    def _key(self, prompt: Prompt) -> str:
        rubric = self.rubric
        # Replies to the first rubric are filed under its version alone.
        asked_by = rubric.version if rubric.name == YES_NO.name else f"{rubric.name}-{rubric.version}"
        asked = json.dumps([asked_by, self.model.name, prompt.system, prompt.user])
        return sha256(asked.encode()).hexdigest()

    def _warn_of_unreadable(self, run: "_Run[V]", total: int) -> None:
        said = f"it said {run.example!r}" if run.example else "it said nothing"
        again = f"; to ask again, delete {self._path}" if self._path else ""
        warn(
            f"{self.model.name} gave no verdict on {run.unreadable:,} of {total:,} {self.rubric.judges}, which stay"
            f" unscored ({said}, not {self.rubric.replies}): a judge must answer at once, without thinking{again}"
        )


class _Run(Generic[V]):
    """One call of `judge_all`: the prompts of its items, and what is settled.

    `unreadable` counts the items without a verdict, and `example` is a reply that was none.
    """

    def __init__(
        self, items: Sequence[JudgeItem], rubric: Rubric[V], on_progress: Callable[[int], None] | None
    ) -> None:
        self.prompts = [rubric.prompt(item) for item in items]
        self.copies = Counter(self.prompts)
        self.verdicts: dict[Prompt, V | None] = {}
        self.unreadable, self.example = 0, ""
        self._rubric, self._settled, self._on_progress = rubric, 0, on_progress

    def settle(self, prompt: Prompt, reply: str | None) -> None:
        verdict = None if reply is None else self._rubric.read(reply)
        self.verdicts[prompt] = verdict
        if verdict is None:
            self.unreadable += self.copies[prompt]
            self.example = self.example or reply or ""
        self._settled += self.copies[prompt]
        if self._on_progress:
            self._on_progress(self._settled)


def load_judge(
    settings: "JudgeSettings",
    rubric: Rubric[V],
    cache: Path | None,
    device: str = "auto",
    dtype: str = "auto",
) -> Judge[V] | None:
    """The judge that the settings name, None where they name no model.

    Nothing is loaded or reached before there is something to ask. `device` and `dtype` are for a model that is
    loaded here; behind `settings.url` they mean nothing.
    """
    if settings.model is None:
        return None
    model: JudgeModel
    if settings.url is None:
        from calibsft.judge.local import LocalJudge

        model = LocalJudge(settings.model, device, dtype)
    else:
        from calibsft.judge.endpoint import EndpointJudge

        model = EndpointJudge(settings.url, settings.model, settings.concurrency, settings.timeout)
    return Judge(model, rubric, cache)
