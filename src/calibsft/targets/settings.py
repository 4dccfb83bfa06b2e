"""Settings that every target has: its name, and how its training set is balanced.

A target with more settings has its own class, in the target's file.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from calibsft.settings import Flag, Settings


class TargetSettings(Settings):
    """Which confidence each response is taught to state, and how the training set is balanced."""

    title: ClassVar[str] = "Targets"

    name: str
    samples: Annotated[
        int | None,
        Flag("--samples", "-n"),
        Field(ge=2, description="use only the first so many responses per question; default: all"),
    ] = None
    balance: bool = Field(True, description="draw the same number of responses for every target confidence")
    min_group: int = Field(1, ge=1, description="leave out target confidences with fewer responses than this")
    redraws: int = Field(
        1, ge=1, description="draw several balanced training sets, one for each epoch in turn"
    )

    pairs: int | None = Field(
        None,
        ge=1,
        description="instead of balancing: take so many questions of every success rate between 0 and 1, and one right and one"
        " wrong response to each; needs --no-balance",
    )

    @model_validator(mode="after")
    def _balancing_goes_together(self) -> Self:
        if not self.balance and (self.min_group > 1 or self.redraws > 1):
            raise ValueError("targets.min_group and redraws mean nothing without balance")
        if self.balance and self.pairs is not None:
            raise ValueError("targets.pairs replaces balancing, so it needs balance false (--no-balance)")
        return self
