"""The engine `transformers`: any Hugging Face causal model, loaded here. Does not import its libraries before loading."""

from typing import Annotated, Literal

from pydantic import Field

from calibsft.engines.engine import Engine, EngineKind, Model, Tokenizer, TrainableEngine
from calibsft.engines.settings import EngineSettings, Occupied
from calibsft.settings import Flag

MAX_ROWS = 64


class TransformersSettings(EngineSettings):
    """How many responses are sampled at the same time."""

    name: Literal["transformers"] = "transformers"
    max_rows: Annotated[
        int,
        Flag("--max-rows", always=True),
        Field(
            ge=1, description="responses sampled at the same time: more are faster, fewer need less memory"
        ),
    ] = MAX_ROWS

    def occupied(self) -> Occupied:
        return Occupied(1, None, self.max_rows)


def load(settings: TransformersSettings, model: str, device: str, dtype: str) -> Engine:
    """An engine with the checkpoint `model` and its tokenizer."""
    from calibsft.models import load_model, load_tokenizer

    tokenizer = load_tokenizer(model)
    return for_training(settings, load_model(model, device, dtype), tokenizer)


def for_training(settings: TransformersSettings, model: Model, tokenizer: Tokenizer) -> TrainableEngine:
    """An engine with a model that is already in memory."""
    from calibsft.engines.transformers.engine import TransformersEngine

    return TransformersEngine(model, tokenizer, settings.max_rows)


TRANSFORMERS = EngineKind(TransformersSettings, load, for_training, needs=("torch", "transformers"))
