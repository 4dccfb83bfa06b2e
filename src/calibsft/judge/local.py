"""A judge model that is loaded here and asked in batches, with the engine that samples rollouts.

The chat template's own switch for thinking is off. Loads nothing before the first question.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from calibsft.judge.rubric import OnReply, Prompt
from calibsft.responses.prompts import chat_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from calibsft.engines import Engine

BATCH = 32


class LocalJudge:
    """Asks the Hugging Face checkpoint `model`, a folder or Hub id; see `JudgeModel`."""

    def __init__(self, model: str, device: str = "auto", dtype: str = "auto") -> None:
        self.name = model
        self._device, self._dtype = device, dtype

    def ask(self, prompts: Sequence[Prompt], tokens: int, on_reply: OnReply) -> None:
        engine = self._engine
        ids = [prompt_ids(engine.tokenizer, prompt) for prompt in prompts]
        # Prompts of similar length need little padding.
        order = sorted(range(len(prompts)), key=lambda i: len(ids[i]))
        fitting = [i for i in order if engine.context is None or len(ids[i]) + tokens <= engine.context]
        for i in order[len(fitting) :]:
            on_reply(i, None)
        for start in range(0, len(fitting), BATCH):
            batch = fitting[start : start + BATCH]
            for i, reply in zip(batch, self._replies([ids[i] for i in batch], tokens), strict=True):
                on_reply(i, reply)

    @cached_property
    def _engine(self) -> "Engine":
        from calibsft.engines import default_engine, load_engine

        return load_engine(default_engine(max_rows=BATCH), self.name, self._device, self._dtype)

    def _replies(self, prompts: list[tuple[int, ...]], tokens: int) -> list[str]:
        from calibsft.engines.engine import Request, Sampling

        greedy = Sampling(temperature=0, max_new_tokens=tokens)
        found = self._engine.generate([Request(prompt, seeds=(0,)) for prompt in prompts], greedy)
        decode = self._engine.tokenizer.decode
        return [str(decode(list(reply.token_ids), skip_special_tokens=True)) for (reply,) in found]


def prompt_ids(tokenizer: "PreTrainedTokenizerBase", prompt: Prompt) -> tuple[int, ...]:
    """The token ids that ask `prompt` and open the model's turn."""
    plain = f"{prompt.system}\n\n{prompt.user}"
    return chat_ids(
        tokenizer, prompt.messages, plain, ending="\n\nVerdict:", options={"enable_thinking": False}
    )
