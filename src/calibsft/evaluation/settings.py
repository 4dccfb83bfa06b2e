"""The settings of an evaluation: which benchmarks, and how they are sampled."""

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from calibsft.benchmarks import BENCHMARKS
from calibsft.errors import InputError, unknown_name
from calibsft.estimators import ESTIMATORS, get_estimator
from calibsft.estimators.verbalized import VERBALIZED
from calibsft.questions import REVISION, SUBSET_SEED, require_hub, require_known, shown_name
from calibsft.rollouts.settings import SampledSettings
from calibsft.settings import DataDir, Flag, Mark, Metavar, Seed, Settings, require_plain_address

EvaluatedName = Annotated[str, AfterValidator(require_known)]
EstimatorName = Annotated[str, AfterValidator(lambda name: get_estimator(name).name)]


class BenchmarkSettings(Settings):
    """How one benchmark is asked; what is None here is as for all benchmarks."""

    samples: int | None = Field(None, ge=1, description="responses per question")
    limit: int | None = Field(None, ge=1, description="only the first so many questions")
    subset: int | None = Field(None, ge=1, description="only so many questions, drawn at random")
    revision: str | None = Field(None, min_length=1, description=REVISION)


class EvalSettings(SampledSettings):
    """Which benchmarks, and how they are sampled; `samples` overrides each benchmark's own number."""

    title: ClassVar[str] = "Evaluation"

    benchmarks: Annotated[
        tuple[EvaluatedName, ...],
        Flag(
            "--benchmarks",
            help="names, comma-separated, e.g. math-500,gsm8k; `calibsft ls benchmarks` lists them",
            always=True,
        ),
        Flag(
            "--questions",
            help="a test set of your own: CSV, JSONL or Parquet with question_id, question, gold (and optionally kind,"
            " tolerance); alone or with --benchmarks",
            metavar="FILE",
        ),
    ] = ()
    data_dir: DataDir = None
    samples: Annotated[
        int | None,
        Flag("--samples", "-n"),
        Field(ge=1, description="responses per question; default: each benchmark's own"),
    ] = None
    limit: int | None = Field(
        None, ge=1, description="ask only the first so many questions of each benchmark"
    )
    subset: int | None = Field(
        None,
        ge=1,
        description="ask so many questions of each benchmark, drawn at random; a limit then counts among these",
    )
    subset_seed: Seed = Field(0, description=SUBSET_SEED)
    per_benchmark: dict[str, BenchmarkSettings] = Field(
        {},
        description="samples, limit, subset or revision (on the Hub) of one benchmark, if they differ, e.g. hotpotqa.subset=1000;"
        " repeatable",
        examples=["hotpotqa.subset=1000"],
    )
    temperature: float = Field(0.6, ge=0, description="sampling temperature; 0 is greedy")
    max_new_tokens: int = Field(16384, ge=1, description="longest response, in tokens")
    budgets: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (),
        description="also cut every response after so many tokens and force its answer and confidence, e.g. 1000,2000",
    )
    estimators: tuple[EstimatorName, ...] = Field(
        (VERBALIZED.name,),
        description="where confidence is taken from: one or several, compared side by side; `calibsft ls estimators` lists them;"
        " verbalized is always among them",
    )
    estimator_url: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Metavar("URL"),
        Field(
            description="OpenAI-compatible server of the same model, asked for token probabilities; default: load the model here."
            " The API key is read from CALIBSFT_ESTIMATOR_API_KEY or OPENAI_API_KEY."
        ),
    ] = None
    estimator_model: Annotated[
        str | None,
        Mark.ADJUSTABLE,
        Metavar("MODEL"),
        Field(min_length=1, description="the model's name on that server; default: the name in --model"),
    ] = None

    def asked(self, name: str) -> BenchmarkSettings:
        """How the benchmark that results call `name` is asked."""
        own = self.per_benchmark.get(name, BenchmarkSettings())
        shared = ("samples", "limit", "subset")
        return own.model_copy(update={key: getattr(own, key) or getattr(self, key) for key in shared})

    @model_validator(mode="after")
    def _only_evaluated_benchmarks_have_settings(self) -> Self:
        evaluated = {shown_name(name): name for name in self.benchmarks}
        for name, own in self.per_benchmark.items():
            if name in BENCHMARKS and name not in evaluated:
                raise InputError(
                    f"eval.per_benchmark has settings of '{name}', which is not evaluated; add it to eval.benchmarks, or leave"
                    " them out"
                )
            if name not in evaluated:
                unknown_name("benchmark in eval.per_benchmark", name, list(evaluated or BENCHMARKS))
            if own.revision:
                require_hub(f"eval.per_benchmark.{name}.revision", evaluated[name], self.data_dir)
        return self

    @model_validator(mode="after")
    def _seed_has_a_subset(self) -> Self:
        subsets = (self.subset, *(own.subset for own in self.per_benchmark.values()))
        if self.subset_seed and not any(subsets):
            raise InputError("eval.subset_seed means nothing without a subset; give both, or leave it out")
        return self

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
