"""The model card of a fine-tuned checkpoint: its base, its training, and what its confidence means."""

from calibsft import __version__
from calibsft.cards import model_card
from calibsft.responses.formats import Format
from calibsft.sft.settings import SftSettings


def sft_card(
    base: str, settings: SftSettings, confidence_format: Format, rows: int, final_loss: float
) -> str:
    story = f"""Made by calibsft {__version__} from `{base}`: supervised fine-tuning on {rows:,} responses of that model whose stated
confidence was replaced by a target built from how often the model is right.

**Training.** Loss `{settings.loss}`, final value {final_loss:.4f}, {settings.steps} steps of {settings.batch_size} responses."""
    return model_card(
        base, (), "Fine-tuned to state calibrated confidence", story, settings, confidence_format
    )
