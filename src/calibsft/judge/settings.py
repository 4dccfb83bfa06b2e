"""Who judges."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from calibsft.settings import Flag, Mark, Settings, require_plain_address


class JudgeSettings(Settings):
    """The model that judges answers of kind `judge`; without one they are matched against their aliases."""

    model: Annotated[
        str | None,
        Flag("--judge", always=True),
        Field(
            min_length=1,
            description="model that judges answers of kind `judge`: a checkpoint, or its name at the judge's URL; without one"
            " they are matched against aliases; in a recipe also run:STAGE, the model that a stage of the same run makes",
        ),
    ] = None
    url: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Field(
            description="OpenAI-compatible endpoint of the judge, e.g. http://localhost:8000/v1; without one the judge is"
            " loaded here. The key comes from CALIBSFT_JUDGE_API_KEY or OPENAI_API_KEY."
        ),
    ] = None
    concurrency: Annotated[
        int, Mark.ADJUSTABLE, Field(ge=1, description="requests under way at the same time")
    ] = 8
    timeout: Annotated[
        float, Mark.ADJUSTABLE, Field(gt=0, description="seconds that one request may take")
    ] = 60

    @model_validator(mode="after")
    def _address_is_plain_and_of_a_model(self) -> Self:
        if self.url is None:
            return self
        if self.model is None:
            raise ValueError("judge.url needs judge.model, the name of the model to ask there")
        require_plain_address(self.url, "judge.url", "CALIBSFT_JUDGE_API_KEY")
        return self
