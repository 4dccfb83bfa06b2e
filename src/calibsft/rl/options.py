"""Settings that mean something for some methods alone: a method's settings inherit those that it has a use for."""

from typing import Self

from pydantic import Field, model_validator

from calibsft.rl.settings import MethodSettings


class AnswerIsRewarded(MethodSettings):
    """For methods that reward the answer, so that there is a reward to take something from."""

    overlong_buffer: int | None = Field(
        None, ge=1, description="tokens before the limit where a penalty begins"
    )

    @model_validator(mode="after")
    def _buffer_fits(self) -> Self:
        if self.overlong_buffer is not None and self.overlong_buffer > self.max_new_tokens:
            raise ValueError("rl.overlong_buffer is larger than rl.max_new_tokens")
        return self


class DividesByDeviation(MethodSettings):
    """For methods whose advantages are divided by the group's deviation."""

    mean_only: bool = Field(False, description="centre advantages without dividing by the group's deviation")


class LooksAtGroup(MethodSettings):
    """For methods whose rewards look at the success rate of the group."""

    leave_one_out: bool = Field(False, description="compare a response with the success rate of the others")


class RewardsConfidence(MethodSettings):
    """For methods with a reward of its own for confidence."""

    segment_loss: bool = Field(False, description="a mean of its own for answer and for confidence tokens")
    keep_unanimous: bool = Field(False, description="train confidence on all-right and all-wrong groups too")
