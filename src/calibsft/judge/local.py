"""A judge that is loaded here, in batches on CPU or GPU, with the engine that samples rollouts.

The prompt goes through the tokenizer's own chat template, told not to think; a template without a system role gets
one user turn, a tokenizer without a template plain text. Loads nothing before there is something to ask.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calibsft.judge.rubric import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from calibsft.engines import Engine

BATCH = 32


class LocalJudge:
    """Asks a Hugging Face checkpoint; see `JudgeModel`.

    Parameters
    ----------
    model
        A checkpoint folder or Hub id.
    device, dtype
        As in a recipe; "auto" is the first GPU, else the CPU.
    """

    def __init__(self, model: str, device: str = "auto", dtype: str = "auto") -> None:
        self.name = model
        self._device, self._dtype = device, dtype

    def ask(
        self, prompts: Sequence[Prompt], tokens: int, on_reply: Callable[[int, str | None], None]
    ) -> None:
        engine = self._engine
        ids = [prompt_ids(engine.tokenizer, prompt) for prompt in prompts]
        # Batches of like length need little padding.
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
    """The token ids that put `prompt` to a model and open its turn."""
    plain = f"{prompt.system}\n\n{prompt.user}"
    text = _render(tokenizer, prompt, plain) if tokenizer.chat_template else f"{plain}\n\nVerdict:"
    # A chat template writes its own special tokens; plain text gets the tokenizer's.
    ids: Any = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tuple(ids)


def _render(tokenizer: "PreTrainedTokenizerBase", prompt: Prompt, plain: str) -> str:
    from jinja2.exceptions import TemplateError

    options = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    try:
        return str(tokenizer.apply_chat_template(prompt.messages, **options))
    except TemplateError:
        return str(tokenizer.apply_chat_template([{"role": "user", "content": plain}], **options))
