"""The objective and its optimiser."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from calibsft.settings import Mark, Settings
from calibsft.training.settings import LoraSettings, Watchers


class SftSettings(Settings):
    """The CalibSFT objective and its optimiser; the defaults are the paper's."""

    title: ClassVar[str] = "Training"

    loss: Literal["calibsft", "confidence-only", "full-ce", "full-balanced", "correct-only"] = Field(
        "calibsft",
        description="objective: calibsft, or one of the paper's variants confidence-only, full-ce, full-balanced, correct-only",
    )
    beta: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weight of the confidence tokens; reasoning and answer have weight 1 - beta",
    )
    steps: int = Field(180, ge=1, description="optimiser updates")
    batch_size: int = Field(256, ge=1, description="responses per update, over all GPUs")
    micro_batch_size: int = Field(
        8,
        ge=1,
        description="responses in one forward pass of a GPU; lower it when out of memory",
    )
    learning_rate: float = Field(2e-6, gt=0, description="learning rate of AdamW, constant after warm-up")
    warmup_steps: int = Field(10, ge=0, description="steps until the learning rate is reached")
    max_tokens: int = Field(
        8192, ge=2, description="leave out longer rows, in tokens, and balance the others again"
    )
    save_every: Annotated[int, Mark.ADJUSTABLE, Field(ge=1, description="steps between checkpoints")] = 50
    report_to: Watchers = ()
    gradient_checkpointing: bool = Field(False, description="compute activations twice to save memory")
    lora: LoraSettings | None = None

    @model_validator(mode="after")
    def _batch_is_cut_evenly(self) -> Self:
        if self.batch_size % min(self.micro_batch_size, self.batch_size):
            raise ValueError(
                f"sft.batch_size {self.batch_size} is not a multiple of micro_batch_size {self.micro_batch_size}"
            )
        return self

    @model_validator(mode="after")
    def _beta_weighs_two_terms(self) -> Self:
        default = SftSettings.model_fields["beta"].default
        if self.loss in ("confidence-only", "full-ce") and self.beta != default:
            raise ValueError(
                f"sft.beta means nothing for the loss {self.loss}, which does not weigh two terms"
            )
        return self
