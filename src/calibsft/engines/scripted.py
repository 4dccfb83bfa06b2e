"""The engine `scripted`: replays the responses of a file, for responses that exist already and for tests.

It recognises a prompt by its question, whatever else the prompt says. Cannot continue a response that was cut, and knows
no probabilities.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from calibsft.artifacts import file_hash
from calibsft.engines.engine import Engine, EngineKind, Request, Tokenizer
from calibsft.engines.settings import EngineSettings
from calibsft.engines.text_engine import TextEngine
from calibsft.errors import InputError
from calibsft.files.cells import shown, text_column
from calibsft.files.reading import read_table
from calibsft.responses.formats import FORMATS, messages
from calibsft.responses.settings import DEFAULT_FORMAT
from calibsft.responses.spans import decode


class ScriptedSettings(EngineSettings):
    """The file of responses; only the tokenizer of the model is used."""

    name: Literal["scripted"] = "scripted"
    responses: Path = Field(
        description="responses to replay: CSV, JSONL or Parquet with question and response; a question's rows are its samples"
    )

    def inputs(self) -> dict[str, str]:
        return {"engine.responses": file_hash(self.responses)}


class ScriptedEngine(TextEngine):
    """Replays the texts in `responses`: sample i of a question is always its i-th text."""

    def __init__(self, tokenizer: Tokenizer, responses: Mapping[str, Sequence[str]]) -> None:
        super().__init__(tokenizer)
        # By the user's turn, which is the same in all formats.
        self._found = {
            messages(question, FORMATS[DEFAULT_FORMAT])[-1]["content"]: (question, texts)
            for question, texts in responses.items()
        }

    def texts(self, request: Request) -> Sequence[str]:
        found = self._found.get(request.turns[-1]["content"]) if request.turns else None
        if found is None:
            end = decode(self.tokenizer, request.prompt_ids)[-200:]
            raise InputError(
                f"the script has no response to the prompt that ends with {end!r}; add some"
                " for its question, worded as it is asked; a response that was cut cannot go on"
            )
        (question, texts), wanted = found, len(request.seeds)
        if len(texts) < wanted:
            raise InputError(
                f"the script has {len(texts)} responses to the question {shown(question)} and {wanted} are asked for; add"
                " some, or ask for fewer samples"
            )
        return texts[:wanted]


def read_script(path: Path) -> dict[str, list[str]]:
    """The responses to each question in a file, in its order; a response may be empty."""
    frame = read_table(path, ("question", "response"), filled=("question",))
    rows = frame.select(
        text_column(path, frame, "question"), text_column(path, frame, "response").fill_null("")
    )
    return dict(rows.group_by("question", maintain_order=True).agg("response").iter_rows())


def load(settings: ScriptedSettings, model: str, device: str, dtype: str) -> Engine:
    """The responses of the file, in the tokens of `model`."""
    responses = read_script(settings.responses)
    from calibsft.models import load_tokenizer

    return ScriptedEngine(load_tokenizer(model), responses)


SCRIPTED = EngineKind(ScriptedSettings, load)
