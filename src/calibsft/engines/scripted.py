"""The engine `scripted`: replays the responses of a file, for responses that exist already and for tests.

It recognises a prompt by the tokens of its question, in any confidence format. Cannot continue a response that was cut,
and knows no probabilities.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from calibsft.artifacts import file_hash
from calibsft.engines.engine import Engine, EngineKind, Request
from calibsft.engines.settings import EngineSettings
from calibsft.engines.text_engine import TextEngine
from calibsft.errors import InputError
from calibsft.files.cells import shown, text_column
from calibsft.files.reading import read_table
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import prompt_ids
from calibsft.responses.spans import decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompts = dict[tuple[int, ...], str]


class ScriptedSettings(EngineSettings):
    """The file of responses; only the tokenizer of the model is used."""

    name: Literal["scripted"] = "scripted"
    responses: Path = Field(
        description="CSV, JSONL or Parquet with question and response; rows of one question are its samples, in order"
    )

    def inputs(self) -> dict[str, str]:
        return {"engine.responses": file_hash(self.responses)}


class ScriptedEngine(TextEngine):
    """Replays the texts in `responses`: sample i of a question is always its i-th text."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", responses: Mapping[str, Sequence[str]]) -> None:
        super().__init__(tokenizer)
        self._responses = responses
        self._prompts: dict[str, Prompts] = {}

    def texts(self, request: Request) -> Sequence[str]:
        question, wanted = self._question(request.prompt_ids), len(request.seeds)
        texts = self._responses[question]
        if len(texts) < wanted:
            raise InputError(
                f"the script has {len(texts)} responses to the question {shown(question)} and {wanted} are asked for; add"
                " some, or ask for fewer samples"
            )
        return texts[:wanted]

    def _question(self, prompt: tuple[int, ...]) -> str:
        for name in FORMATS:
            if (question := self._prompts_in(name).get(prompt)) is not None:
                return question
        raise InputError(
            f"the script has no response to the prompt that ends with {decode(self.tokenizer, prompt)[-200:]!r}; add some"
            " for its question, worded as it is asked; a response that was cut cannot go on"
        )

    def _prompts_in(self, format_name: str) -> Prompts:
        """The questions by their prompts in one confidence format."""
        if format_name not in self._prompts:
            found: Prompts = {}
            for question in self._responses:
                prompt = prompt_ids(self.tokenizer, question, FORMATS[format_name])
                if (other := found.setdefault(prompt, question)) != question:
                    raise InputError(
                        f"the questions {shown(other)} and {shown(question)} are the same for this model's tokenizer; remove one"
                        " from the script, or take another model"
                    )
            self._prompts[format_name] = found
        return self._prompts[format_name]


def read_script(path: Path) -> dict[str, list[str]]:
    """The responses to each question in a file, in its order; a response may be empty."""
    frame = read_table(path, ("question", "response"), filled=("question",))
    found: dict[str, list[str]] = {}
    responses = text_column(path, frame, "response").fill_null("")
    for question, response in zip(text_column(path, frame, "question"), responses, strict=True):
        found.setdefault(question, []).append(response)
    return found


def load(settings: ScriptedSettings, model: str, device: str, dtype: str) -> Engine:
    """The responses of the file, in the tokens of `model`."""
    responses = read_script(settings.responses)
    from calibsft.models import load_tokenizer

    return ScriptedEngine(load_tokenizer(model), responses)


SCRIPTED = EngineKind(ScriptedSettings, load)
