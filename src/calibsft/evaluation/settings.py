"""Which benchmarks are asked, and how."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from calibsft.estimators.token_probability import TOKEN_PROBABILITY
from calibsft.estimators.verbalized import VERBALIZED
from calibsft.settings import Settings, StopString, require_plain_address


class EvalSettings(Settings):
    """Which benchmarks, and how they are sampled; `samples` overrides each benchmark's own number."""

    benchmarks: tuple[str, ...] = ()
    data_dir: str | None = Field(None, description="folder with the benchmarks' files, instead of the Hub")
    samples: int | None = Field(None, ge=1)
    limit: int | None = Field(None, ge=1)
    temperature: float = Field(0.6, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_new_tokens: int = Field(16384, ge=1)
    stop: tuple[StopString, ...] = ()
    shard_questions: int = Field(100, ge=1)
    budgets: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="tokens after which a response is cut and its answer and confidence are forced"
    )
    estimators: tuple[str, ...] = Field(
        (VERBALIZED.name,),
        description="where confidence is taken from, side by side; the verbalized one always is",
    )
    estimator_url: str | None = Field(
        None,
        description="an OpenAI-compatible endpoint of the same model, asked for token probabilities; default: the loaded"
        " model gives them",
    )
    estimator_model: str | None = Field(
        None, min_length=1, description="the model's name at eval.estimator_url; default: the model's own"
    )

    @model_validator(mode="after")
    def _estimators_go_together(self) -> Self:
        if len(set(self.estimators)) < len(self.estimators):
            raise ValueError("eval.estimators names an estimator twice")
        if self.estimator_model and not self.estimator_url:
            raise ValueError("eval.estimator_model means nothing without eval.estimator_url")
        if self.estimator_url is not None:
            if TOKEN_PROBABILITY.name not in self.estimators:
                raise ValueError(
                    f"eval.estimator_url means nothing without the estimator {TOKEN_PROBABILITY.name}"
                )
            require_plain_address(self.estimator_url, "eval.estimator_url", "CALIBSFT_ESTIMATOR_API_KEY")
        return self

    @model_validator(mode="after")
    def _budgets_lie_within(self) -> Self:
        if len(set(self.budgets)) < len(self.budgets):
            raise ValueError("eval.budgets names a budget twice")
        if self.budgets and max(self.budgets) > self.max_new_tokens:
            raise ValueError(
                f"the budget {max(self.budgets)} exceeds eval.max_new_tokens {self.max_new_tokens}: responses of"
                " that length are never sampled"
            )
        return self
