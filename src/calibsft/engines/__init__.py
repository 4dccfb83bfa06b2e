"""The engines, which sample responses, and how to load one.

An engine is one file, listed in `ENGINES`. Importing this loads neither torch nor an engine's libraries; `load_engine`
does.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from calibsft.engines.engine import Engine, EngineKind, Model, Tokenizer, TrainableEngine
from calibsft.engines.openai import OPENAI
from calibsft.engines.scripted import SCRIPTED
from calibsft.engines.settings import EngineSettings
from calibsft.engines.transformers import TRANSFORMERS
from calibsft.engines.vllm import VLLM
from calibsft.errors import InputError
from calibsft.settings import OneOf, validated

__all__ = [
    "ENGINES",
    "Engine",
    "EngineSection",
    "EngineSettings",
    "TrainableEngine",
    "default_engine",
    "engine_for_training",
    "load_engine",
    "require_trainable",
    "served_engine",
]

ENGINES: dict[str, EngineKind[Any]] = {
    "transformers": TRANSFORMERS,
    "vllm": VLLM,
    "openai": OPENAI,
    "scripted": SCRIPTED,
}
DEFAULT, SERVED = "transformers", "openai"

if TYPE_CHECKING:
    EngineSection: TypeAlias = EngineSettings
else:
    EngineSection = OneOf("engine", ENGINES, DEFAULT).section()


def default_engine(**given: Any) -> EngineSettings:
    """The settings of the default engine."""
    settings: EngineSettings = validated(ENGINES[DEFAULT].settings, given, "engine")
    return settings


def served_engine(**given: Any) -> EngineSettings:
    """The settings of the engine for servers."""
    settings: EngineSettings = validated(ENGINES[SERVED].settings, given, "engine")
    return settings


def load_engine(settings: EngineSettings, model: str, device: str = "auto", dtype: str = "auto") -> Engine:
    """The engine that `settings` name, ready to sample from `model`, a checkpoint folder or Hub id."""
    return ENGINES[settings.name].load(settings, model, device, dtype)


def engine_for_training(settings: EngineSettings, model: Model, tokenizer: Tokenizer) -> TrainableEngine:
    """The engine that `settings` name, for a model in memory whose weights change between samplings."""
    require_trainable(settings)
    make = ENGINES[settings.name].for_training
    assert make is not None
    return make(settings, model, tokenizer)


def require_trainable(settings: EngineSettings) -> None:
    """Refuse an engine that cannot sample from a model in training."""
    if ENGINES[settings.name].for_training is None:
        able = [name for name, kind in ENGINES.items() if kind.for_training]
        raise InputError(
            f"the engine '{settings.name}' cannot sample from a model in training, and RL needs one that can; set engine.name"
            f" to {' or '.join(able)}"
        )
