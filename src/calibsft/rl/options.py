"""Settings that only some methods have: the settings of a method inherit the classes that it needs."""

from typing import Self

from pydantic import Field, model_validator

from calibsft.rl.settings import MethodSettings


class AnswerIsRewarded(MethodSettings):
    """For methods that reward the answer: a penalty can lower that reward."""

    overlong_buffer: int | None = Field(
        None,
        ge=1,
        description="penalise the answer in this many last tokens before the length limit; default: no penalty",
    )

    @model_validator(mode="after")
    def _buffer_fits(self) -> Self:
        if self.overlong_buffer is not None and self.overlong_buffer > self.max_new_tokens:
            raise ValueError("rl.overlong_buffer is larger than rl.max_new_tokens")
        return self


class DividesByDeviation(MethodSettings):
    """For methods whose advantages are divided by the group's standard deviation."""

    mean_only: bool = Field(
        False,
        description="subtract the group's mean from rewards, but do not divide by its standard deviation",
    )


class LooksAtGroup(MethodSettings):
    """For methods whose rewards depend on the success rate of the group."""

    leave_one_out: bool = Field(
        False, description="leave a response out of the success rate that it is compared with"
    )


class SamplesDynamically(MethodSettings):
    """For methods that train only on groups with right and wrong responses."""

    all_groups: bool = Field(
        False,
        description="also train on groups that are all right or all wrong, and on questions that the starting model always solves",
    )


class RewardsConfidence(SamplesDynamically):
    """For methods with a separate reward for confidence, beside dynamic sampling."""

    segment_loss: bool = Field(
        False, description="average the loss over answer tokens and over confidence tokens separately"
    )
    keep_unanimous: bool = Field(
        False, description="also train confidence, not the answer, on groups that are all right or all wrong"
    )

    @model_validator(mode="after")
    def _all_groups_are_kept_once(self) -> Self:
        if self.all_groups and self.keep_unanimous:
            raise ValueError(
                "rl.keep_unanimous means nothing with rl.all_groups, which keeps all groups for all tokens"
            )
        return self
