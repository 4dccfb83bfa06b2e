"""The model card of a fine-tuned checkpoint: its base, its training, and what its confidence means."""

from calibsft import __version__
from calibsft.artifacts.lineage import CALIBSFT, WARMUP
from calibsft.cards import UNCALIBRATED, model_card
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings

# What the training of each step was on, and what the model is then called.
TRAINED_ON = {
    CALIBSFT: "responses of that model whose stated\nconfidence was replaced by a target built from how often the model is right",
    WARMUP: "well-formed responses of that\nmodel, right and wrong ones, each with the confidence that it states",
}
TITLES = {
    CALIBSFT: "Fine-tuned to state calibrated confidence",
    WARMUP: "Warmed up to keep to the response format",
}


def sft_card(
    base: str, settings: SftSettings, prompting: Prompting, rows: int, final_loss: float, step: str = CALIBSFT
) -> str:
    story = f"""Made by calibsft {__version__} from `{base}`: supervised fine-tuning on {rows:,} {TRAINED_ON[step]}.

**Training.** Loss `{settings.loss}`, final value {final_loss:.4f}, {settings.steps} steps of {settings.batch_size} responses."""
    tags, limits = ((WARMUP,), UNCALIBRATED) if step == WARMUP else ((), "")
    return model_card(base, tags, TITLES[step], story, settings, prompting, limits)
