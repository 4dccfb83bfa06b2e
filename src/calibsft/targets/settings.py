"""Which target, and how the training set is balanced."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from calibsft.settings import Flag, Settings


class TargetSettings(Settings):
    """What each response should have said, and how the targets are balanced."""

    name: Annotated[
        str, Flag("--target"), Field(description="calibsft (mixed) or csft (success rate alone)")
    ] = "calibsft"
    # Six decimals keep exact targets within 64-bit integers.
    mix: Annotated[
        float,
        Flag("--mix", "--lambda"),
        Field(
            ge=0,
            le=1,
            multiple_of=1e-6,
            description="weight of the question's success rate against the response's correctness",
        ),
    ] = 0.5
    samples: Annotated[
        int | None,
        Flag("--samples", "-n"),
        Field(ge=2, description="use the first so many responses of every question; default: all"),
    ] = None
    balance: bool = Field(True, description="draw the same number of responses for every target")
    min_group: int = Field(1, ge=1, description="drop target groups with fewer responses than this")
    redraws: int = Field(1, ge=1, description="balanced draws, one per epoch of training in turn")

    @model_validator(mode="after")
    def _balancing_needs_balance(self) -> Self:
        if not self.balance and (self.min_group > 1 or self.redraws > 1):
            raise ValueError("targets.min_group and redraws mean nothing without balance")
        return self

    @model_validator(mode="after")
    def _mix_needs_two_parts(self) -> Self:
        if self.name == "csft" and self.mix != TargetSettings.model_fields["mix"].default:
            raise ValueError("targets.mix means nothing for the target csft, which is the success rate alone")
        return self
