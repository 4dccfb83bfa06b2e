"""The objective and its optimiser."""

from typing import Literal, Self

from pydantic import Field, model_validator

from calibsft.settings import Settings
from calibsft.training.settings import LoraSettings, Watchers


class SftSettings(Settings):
    """The CalibSFT objective and its optimiser; the defaults are the paper's."""

    loss: Literal["calibsft", "confidence-only", "full-ce", "full-balanced", "correct-only"] = "calibsft"
    beta: float = Field(0.5, ge=0, le=1)
    steps: int = Field(180, ge=1)
    batch_size: int = Field(256, ge=1)
    micro_batch_size: int = Field(8, ge=1)
    learning_rate: float = Field(2e-6, gt=0)
    warmup_steps: int = Field(10, ge=0)
    max_tokens: int = Field(8192, ge=2)
    save_every: int = Field(50, ge=1)
    report_to: Watchers = ()
    gradient_checkpointing: bool = Field(False, description="trade time for memory with long responses")
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
        if (
            self.loss in ("confidence-only", "full-ce")
            and self.beta != SftSettings.model_fields["beta"].default
        ):
            raise ValueError(
                f"sft.beta means nothing for the loss {self.loss}, which does not weigh two terms"
            )
        return self
