"""Put an engine and the sampling settings together into a collector."""

from calibsft.engines import EngineSettings, load_engine
from calibsft.engines.engine import Engine, Sampling
from calibsft.responses.formats import Format
from calibsft.rollouts.collect import Collector
from calibsft.rollouts.settings import RolloutSettings, SampledSettings


def load_collector(
    model_name: str,
    engine: EngineSettings,
    confidence_format: Format,
    settings: SampledSettings,
    seed: int,
    device: str,
    dtype: str,
) -> Collector:
    """A collector that samples from the checkpoint `model_name`."""
    loaded = load_engine(engine, model_name, device, dtype)
    return make_collector(loaded, confidence_format, settings, seed)


def make_collector(
    engine: Engine, confidence_format: Format, settings: SampledSettings, seed: int
) -> Collector:
    """A collector for an engine that is there already."""
    sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.stop)
    force_answer = isinstance(settings, RolloutSettings) and settings.force_answer
    return Collector(engine, confidence_format, sampling, seed, force_answer)
