"""Ask a judge model about items by one rubric; each distinct prompt is asked once.

Does not know how a model is reached: that is `endpoint` and `local`.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol

from calibsft.judge.cache import VerdictCache
from calibsft.judge.rubric import JudgeItem, OnReply, Prompt, Rubric, V
from calibsft.judge.yes_no import YES_NO
from calibsft.progress import warn

if TYPE_CHECKING:
    from calibsft.judge.settings import JudgeSettings

MAX_REPLY = 100


class JudgeModel(Protocol):
    """A model that can be asked; `name` is what artifacts record."""

    @property
    def name(self) -> str: ...

    def ask(self, prompts: Sequence[Prompt], tokens: int, on_reply: OnReply) -> None:
        """Ask every prompt, in any order, for replies of at most `tokens` tokens.

        `on_reply` is called once for each, in the caller's thread, as soon as its reply is there. If the model itself
        fails, `InputError` is raised after all replies that came were passed on.
        """
        ...


class Judge(Generic[V]):
    """Asks `model` by `rubric`, and never asks the same twice.

    An unreadable reply is no verdict, but it is kept too: at temperature 0 the model would reply the same again.

    Parameters
    ----------
    cache
        File of replies to read and extend. The key is a hash of the rubric's name and version, the model's name and the
        whole prompt. None keeps replies in memory. Judges may share a file.
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
        """The verdicts on `items`, in order; None where the model gave none, with one warning for all of them.

        Parameters
        ----------
        on_progress
            Called with the number of items settled so far, whenever it grows.
        total
            The number of items that the warning names; default: these.
        """
        prompts = [self.rubric.prompt(item) for item in items]
        copies = Counter(prompts)
        replies = self._replies(copies, on_progress)
        verdicts = {p: None if reply is None else self.rubric.read(reply) for p, reply in replies.items()}
        unreadable = [prompt for prompt, verdict in verdicts.items() if verdict is None]
        if unreadable:
            example = next((reply for prompt in unreadable if (reply := replies[prompt])), "")
            count = sum(copies[prompt] for prompt in unreadable)
            self._warn_of_unreadable(example, count, len(items) if total is None else total)
        return [verdicts[prompt] for prompt in prompts]

    def _replies(
        self, copies: Counter[Prompt], on_progress: Callable[[int], None] | None
    ) -> dict[Prompt, str | None]:
        """The reply to each distinct prompt, from the cache or the model; None if the model cannot take the prompt."""
        replies: dict[Prompt, str | None] = {}
        settled = 0

        def settle(prompt: Prompt, reply: str | None) -> None:
            nonlocal settled
            replies[prompt] = reply
            settled += copies[prompt]
            if on_progress:
                on_progress(settled)

        for prompt in copies:
            if (known := self._cache.get(self._key(prompt))) is not None:
                settle(prompt, known)
        unknown = [prompt for prompt in copies if prompt not in replies]

        def keep(i: int, reply: str | None) -> None:
            if reply is not None:
                reply = " ".join(reply.split())[:MAX_REPLY]
                self._cache.add(self._key(unknown[i]), reply)
            settle(unknown[i], reply)

        if unknown:
            self.model.ask(unknown, self.rubric.tokens, keep)
        return replies

    def _key(self, prompt: Prompt) -> str:
        rubric = self.rubric
        # The key of the first rubric has its version alone.
        asked_by = rubric.version if rubric.name == YES_NO.name else f"{rubric.name}-{rubric.version}"
        asked = json.dumps([asked_by, self.model.name, prompt.system, prompt.user])
        return sha256(asked.encode()).hexdigest()

    def _warn_of_unreadable(self, example: str, count: int, total: int) -> None:
        instead = f"it said {example!r}" if example else "it said nothing"
        again = f"; to ask again, delete {self._path}" if self._path else ""
        warn(
            f"{self.model.name} gave no verdict on {count:,} of {total:,} {self.rubric.judges}, which stay"
            f" unscored ({instead}, not {self.rubric.replies}): a judge must answer at once, without thinking{again}"
        )


def load_judge(
    settings: "JudgeSettings",
    rubric: Rubric[V],
    cache: Path | None,
    device: str = "auto",
    dtype: str = "auto",
) -> Judge[V] | None:
    """The judge that the settings name, None if they name no model.

    No model is loaded or reached before the first question. `device` and `dtype` are for a model that is loaded here.
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
