"""The settings of a judge."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from calibsft.settings import Flag, Mark, Metavar, Settings, require_plain_address


class JudgeSettings(Settings):
    """The model that judges answers of kind `judge`; without one they are matched against their aliases."""

    title: ClassVar[str] = "Judge of answers"

    model: Annotated[
        str | None,
        Flag("--judge", always=True, metavar="MODEL"),
        Field(
            min_length=1,
            description="model that grades questions of kind `judge`: a checkpoint folder or Hub id, or its name at --judge-url; in a"
            " recipe also run:STAGE, the model that this stage of the run makes; default: match answers against the golds",
        ),
    ] = None
    url: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Metavar("URL"),
        Field(
            description="OpenAI-compatible server of the judge, e.g. http://localhost:8000/v1; default: load the judge here. The"
            " API key is read from CALIBSFT_JUDGE_API_KEY or OPENAI_API_KEY."
        ),
    ] = None
    concurrency: Annotated[
        int, Mark.ADJUSTABLE, Field(ge=1, description="simultaneous requests to the server")
    ] = 8
    timeout: Annotated[
        float, Mark.ADJUSTABLE, Field(gt=0, description="seconds until a request counts as failed")
    ] = 60

    @model_validator(mode="after")
    def _address_is_plain_and_of_a_model(self) -> Self:
        if self.url is None:
            return self
        if self.model is None:
            raise ValueError("judge.url needs judge.model, the name of the model to ask there")
        require_plain_address(self.url, "judge.url", "CALIBSFT_JUDGE_API_KEY")
        return self
