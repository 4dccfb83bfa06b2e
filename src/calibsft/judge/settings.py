"""Who judges."""

from typing import Self

from pydantic import Field, model_validator

from calibsft.settings import Settings, require_plain_address


class JudgeSettings(Settings):
    """The model that judges answers of kind `judge`; without one they are matched against their aliases."""

    model: str | None = Field(
        None, min_length=1, description="a checkpoint, or the model's name at judge.url"
    )
    url: str | None = Field(None, description="an OpenAI-compatible endpoint; default: load the model here")
    concurrency: int = Field(8, ge=1, description="requests under way at the same time")
    timeout: float = Field(60, gt=0, description="seconds that one request may take")

    @model_validator(mode="after")
    def _address_is_plain_and_of_a_model(self) -> Self:
        if self.url is None:
            return self
        if self.model is None:
            raise ValueError("judge.url needs judge.model, the name of the model to ask there")
        require_plain_address(self.url, "judge.url", "CALIBSFT_JUDGE_API_KEY")
        return self
