"""The settings of an evaluation: which benchmarks, and how they are sampled."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from calibsft.estimators import ESTIMATORS, get_estimator
from calibsft.estimators.verbalized import VERBALIZED
from calibsft.questions import require_known
from calibsft.rollouts.settings import SampledSettings
from calibsft.settings import DataDir, Flag, Mark, require_plain_address

EvaluatedName = Annotated[str, AfterValidator(require_known)]
EstimatorName = Annotated[str, AfterValidator(lambda name: get_estimator(name).name)]


class EvalSettings(SampledSettings):
    """Which benchmarks, and how they are sampled; `samples` overrides each benchmark's own number."""

    benchmarks: Annotated[
        tuple[EvaluatedName, ...],
        Flag("--benchmarks", help="comma-separated names; `calibsft ls benchmarks` lists them", always=True),
        Flag(
            "--questions",
            help="a test set of your own, besides or instead of benchmarks: CSV, JSONL or Parquet with question_id, question,"
            " gold (and optionally kind, tolerance)",
        ),
    ] = ()
    data_dir: DataDir = None
    samples: Annotated[
        int | None,
        Flag("--samples", "-n"),
        Field(ge=1, description="responses per question; default: each benchmark's own"),
    ] = None
    limit: int | None = Field(None, ge=1, description="only the first so many questions of each")
    temperature: float = Field(0.6, ge=0, description="0 takes the most likely token")
    max_new_tokens: int = Field(16384, ge=1, description="length limit of a response")
    budgets: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (),
        description="tokens after which a response is cut and its answer and confidence are forced, e.g. 1000,2000",
    )
    estimators: tuple[EstimatorName, ...] = Field(
        (VERBALIZED.name,),
        description="where confidence is taken from, side by side; the verbalized one always is,"
        " `calibsft ls estimators` lists all",
    )
    estimator_url: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Field(
            description="an OpenAI-compatible endpoint of the same model, asked for token probabilities; default: the loaded"
            " model gives them. The key comes from CALIBSFT_ESTIMATOR_API_KEY or OPENAI_API_KEY."
        ),
    ] = None
    estimator_model: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Field(min_length=1, description="the model's name at the estimator's URL; default: the model's own"),
    ] = None

    @model_validator(mode="after")
    def _estimators_go_together(self) -> Self:
        if len(set(self.estimators)) < len(self.estimators):
            raise ValueError("eval.estimators names an estimator twice")
        if self.estimator_model and not self.estimator_url:
            raise ValueError("eval.estimator_model means nothing without eval.estimator_url")
        if self.estimator_url is not None:
            asking = [name for name, estimator in ESTIMATORS.items() if estimator.asks_model]
            if not set(asking) & set(self.estimators):
                raise ValueError(
                    f"eval.estimator_url means nothing without the estimator {' or '.join(asking)}"
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
