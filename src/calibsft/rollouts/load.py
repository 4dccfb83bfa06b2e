"""Put a model, its tokenizer and the sampling settings together into a collector."""

from calibsft.evaluation.settings import EvalSettings
from calibsft.models import load_model, load_tokenizer
from calibsft.responses.formats import Format
from calibsft.rollouts.collect import Collector
from calibsft.rollouts.engine import Sampling
from calibsft.rollouts.engine_transformers import TransformersEngine
from calibsft.rollouts.settings import RolloutSettings


def load_collector(
    model_name: str,
    confidence_format: Format,
    settings: RolloutSettings | EvalSettings,
    seed: int,
    device: str,
    dtype: str,
) -> Collector:
    """A collector that samples from the checkpoint `model_name` with the transformers engine."""
    tokenizer = load_tokenizer(model_name)
    model = load_model(model_name, device, dtype)
    engine = TransformersEngine(model, tokenizer, settings.max_rows)
    return make_collector(engine, confidence_format, settings, seed)


def make_collector(
    engine: TransformersEngine,
    confidence_format: Format,
    settings: RolloutSettings | EvalSettings,
    seed: int,
) -> Collector:
    """A collector for an engine that is there already."""
    sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.stop)
    device = str(engine.model.device)
    force_answer = isinstance(settings, RolloutSettings) and settings.force_answer
    return Collector(
        engine, engine.tokenizer, confidence_format, sampling, seed, engine.context, device, force_answer
    )
