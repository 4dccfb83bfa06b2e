"""Typed recipes: everything a run does, in one YAML file.

A recipe is complete - every default is visible in `--dry-run` - and strict: an unknown key is an error that
names the nearest right one. Overrides come as dotted keys, `rollout.samples=8`. Holds settings only; which
stages they need is `pipeline`.
"""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from calibsft.errors import InputError, unknown_name
from calibsft.text import shortened
from calibsft.yaml_text import YamlProblem, parse_yaml

PLAYGROUND = "playground"
CALIBSFT = "calibsft"
VERBALIZED, TOKEN_PROBABILITY = "verbalized", "token-probability"
# numpy takes no larger one.
LARGEST_SEED = 2**32 - 1
# Bytes; with the seed's digits it stays below what a file system takes.
LONGEST_NAME = 200

S = TypeVar("S", bound="Settings")
StopString = Annotated[str, Field(min_length=1)]
Watchers = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
    Field(description="where to watch it: tensorboard, wandb, trackio, …; metrics.jsonl is always written"),
]


class Settings(BaseModel):
    """One section of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BaseSettings(Settings):
    """The playground's pre-training; unused for any other model."""

    steps: int = Field(1800, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(5e-3, gt=0)
    warmup_steps: int = Field(50, ge=1)


class QuestionSettings(Settings):
    """What to train on: the playground's own questions, a benchmark, or a file with question_id, question, gold."""

    source: str = PLAYGROUND
    data_dir: str | None = Field(None, description="folder with the benchmark's files, instead of the Hub")
    limit: int | None = Field(None, ge=1)


class RolloutSettings(Settings):
    """How responses for training are sampled; the defaults are the paper's."""

    samples: int = Field(50, ge=1)
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(0.95, gt=0, le=1)
    max_new_tokens: int = Field(8192, ge=1)
    stop: tuple[StopString, ...] = ()
    max_rows: int = Field(
        1024, ge=1, description="sequences decoded side by side; lower it when memory is short"
    )
    shard_questions: int = Field(100, ge=1, description="questions per Parquet shard, the unit of resuming")
    force_answer: bool = Field(
        False, description="ask for the answer of a truncated response and count it in the success rate"
    )


class TargetSettings(Settings):
    """What each response should have said, and how the targets are balanced."""

    name: str = "calibsft"
    # Six decimals keep exact targets within 64-bit integers.
    mix: float = Field(
        0.5, ge=0, le=1, multiple_of=1e-6, description="lambda: weight of the question's success rate"
    )
    samples: int | None = Field(
        None, ge=2, description="use the first so many responses of every question; default: all"
    )
    balance: bool = True
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


class LoraSettings(Settings):
    """Train low-rank adapters and merge them into the saved checkpoint."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    target_modules: str | tuple[str, ...] = "all-linear"


class SftSettings(Settings):
    """The CalibSFT objective and its optimiser; the defaults are the paper's."""

    loss: Literal["calibsft", "confidence-only", "full-ce", "full-balanced", "correct-only"] = "calibsft"
    beta: float = Field(0.5, ge=0, le=1)
    steps: int = Field(180, ge=1)
    batch_size: int = Field(256, ge=1)
    micro_batch_size: int = Field(8, ge=1)
    learning_rate: float = Field(2e-6, gt=0)
    warmup_steps: int = Field(10, ge=0)
    max_tokens: int = Field(8192, ge=2)
    save_every: int = Field(50, ge=1)
    report_to: Watchers = ()
    gradient_checkpointing: bool = Field(False, description="trade time for memory with long responses")
    lora: LoraSettings | None = None

    @model_validator(mode="after")
    def _batch_is_cut_evenly(self) -> Self:
        if self.batch_size % min(self.micro_batch_size, self.batch_size):
            raise ValueError(
                f"sft.batch_size {self.batch_size} is not a multiple of micro_batch_size {self.micro_batch_size}"
            )
        return self

    @model_validator(mode="after")
    def _beta_weighs_two_terms(self) -> Self:
        if (
            self.loss in ("confidence-only", "full-ce")
            and self.beta != SftSettings.model_fields["beta"].default
        ):
            raise ValueError(
                f"sft.beta means nothing for the loss {self.loss}, which does not weigh two terms"
            )
        return self


class RlSettings(Settings):
    """How RL samples and learns; the defaults are the paper's. A step is a rollout step, of several updates."""

    steps: int | None = Field(None, ge=1, description="rollout steps; default: the method's own")
    questions: int = Field(64, ge=1, description="questions per rollout step")
    group_size: int = Field(8, ge=2, description="responses per question")
    updates: int = Field(2, ge=1, description="optimiser updates per rollout step")
    micro_batch_size: int = Field(8, ge=1)
    learning_rate: float = Field(2e-6, gt=0)
    warmup_steps: int = Field(10, ge=0)
    final_rate: float = Field(0.5, ge=0, le=1, description="the cosine ends at this share of learning_rate")
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.28, gt=0)
    dual_clip: float | None = Field(
        None, gt=1, description="bound on the ratio where the advantage is negative"
    )
    kl: float | None = Field(
        None, ge=0, description="weight of the divergence from the start; default: the method's"
    )
    max_prompt_tokens: int = Field(2048, ge=1)
    max_new_tokens: int = Field(8192, ge=1)
    stop: tuple[StopString, ...] = ()
    max_rows: int = Field(1024, ge=1)
    max_batches: int = Field(
        20, ge=1, description="generated batches for one step before it trains on fewer groups"
    )
    overlong_buffer: int | None = Field(
        None, ge=1, description="tokens before the limit where a penalty begins"
    )
    leave_one_out: bool = Field(False, description="compare a response with the success rate of the others")
    mean_only: bool = Field(False, description="centre advantages without dividing by the group's deviation")
    segment_loss: bool = Field(False, description="a mean of its own for answer and for confidence tokens")
    keep_unanimous: bool = Field(False, description="train confidence on all-right and all-wrong groups too")
    save_every: int = Field(10, ge=1)
    eval_every: int | None = Field(
        None, ge=1, description="evaluate on held-out questions every so many steps"
    )
    eval_questions: int = Field(100, ge=1, description="questions of each benchmark in those evaluations")
    report_to: Watchers = ()
    gradient_checkpointing: bool = False
    lora: LoraSettings | None = None

    @model_validator(mode="after")
    def _numbers_go_together(self) -> Self:
        if self.questions % self.updates:
            raise ValueError(f"rl.questions {self.questions} is not a multiple of rl.updates {self.updates}")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError(
                f"rl.dual_clip {self.dual_clip} must exceed 1 + rl.clip_high, or it would bound good responses too"
            )
        if self.overlong_buffer is not None and self.overlong_buffer > self.max_new_tokens:
            raise ValueError("rl.overlong_buffer is larger than rl.max_new_tokens")
        rows = self.questions // self.updates * self.group_size
        if rows % min(self.micro_batch_size, rows):
            raise ValueError(
                f"the {rows} responses of an update (rl.questions x group_size / updates) are not a multiple of"
                f" rl.micro_batch_size {self.micro_batch_size}"
            )
        return self


class PriorSettings(Settings):
    """What is measured of the models that RL starts from."""

    contexts: int | None = Field(
        None, ge=1, description="responses on which the gradient of each confidence value is measured"
    )


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
    max_rows: int = Field(1024, ge=1)
    shard_questions: int = Field(100, ge=1)
    budgets: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="tokens after which a response is cut and its answer and confidence are forced"
    )
    estimators: tuple[str, ...] = Field(
        (VERBALIZED,),
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
            if TOKEN_PROBABILITY not in self.estimators:
                raise ValueError(
                    f"eval.estimator_url means nothing without the estimator {TOKEN_PROBABILITY}"
                )
            _require_plain_address(self.estimator_url, "eval.estimator_url", "CALIBSFT_ESTIMATOR_API_KEY")
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
        _require_plain_address(self.url, "judge.url", "CALIBSFT_JUDGE_API_KEY")
        return self


def _require_plain_address(url: str, key: str, variable: str) -> None:
    # The recipe is copied into every run folder, so it must not hold a key.
    if not re.fullmatch(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?", url):
        raise ValueError(
            f"{key} must be a plain address such as http://localhost:8000/v1, and a key must be in the"
            f" environment as {variable}"
        )


def _folder_name(name: str) -> str:
    # The run's folder is runs/NAME-seed0: a name with a way in it would lead out of runs/.
    if not name.isprintable() or set(name) & {"/", "\\"} or not 1 <= len(name.encode()) <= LONGEST_NAME:
        raise PydanticCustomError(
            "folder_name", "it names a folder in runs/, so it is one short word without slashes"
        )
    if name.startswith("."):
        raise PydanticCustomError(
            "folder_name", "it names a folder in runs/, so it does not begin with a dot"
        )
    return name


class Recipe(Settings):
    """A whole run, from questions to report."""

    name: Annotated[str, AfterValidator(_folder_name)]
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    training_seeds: tuple[Annotated[int, Field(ge=0, le=LARGEST_SEED)], ...] = Field(
        (),
        description="seeds of the trainings, one model each from the same data; default: the recipe's seed",
    )
    format: str = "probability"
    model: str = PLAYGROUND
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    base: BaseSettings = BaseSettings()
    questions: QuestionSettings = QuestionSettings()
    rollout: RolloutSettings = RolloutSettings()
    targets: TargetSettings = TargetSettings()
    sft: SftSettings = SftSettings()
    prior: PriorSettings = PriorSettings()
    rl: RlSettings = RlSettings()
    eval: EvalSettings = EvalSettings()
    judge: JudgeSettings = JudgeSettings()
    # Settings of `rl` that differ for a method, by its name.
    rl_methods: dict[str, dict[str, Any]] = {}
    # What is done to the base model, in order; models that share a beginning share its stages.
    pipelines: tuple[tuple[str, ...], ...] = Field(((CALIBSFT,),), min_length=1)
    jobs: int = Field(1, ge=1, description="stages that run side by side where none waits for the other")

    @model_validator(mode="after")
    def _targets_find_their_samples(self) -> Self:
        if self.targets.samples is not None and self.targets.samples > self.rollout.samples:
            raise ValueError(
                f"targets.samples {self.targets.samples} exceeds rollout.samples {self.rollout.samples}"
            )
        return self

    @model_validator(mode="after")
    def _training_seeds_differ(self) -> Self:
        if len(set(self.training_seeds)) < len(self.training_seeds):
            raise ValueError("training_seeds names a seed twice")
        return self

    def rl_of(self, method: str) -> RlSettings:
        """The RL settings of one method."""
        differing = self.rl_methods.get(method, {})
        return validated(RlSettings, _merged(self.rl.model_dump(), differing), f"rl_methods.{method}")

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def recipe_folders() -> list[Path]:
    """Where named recipes live: inside an installed package, or beside `src` in a checkout."""
    here = Path(__file__).resolve().parent
    return [folder for folder in (here / "recipes", here.parents[1] / "recipes") if folder.is_dir()]


def find_recipe(name_or_path: str) -> Path:
    """The file of a recipe given by path or by name."""
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise InputError(
                f"{path}: no such recipe file; give a path to a .yaml file or the name of a shipped recipe"
            )
        return path
    shipped = {str(f.relative_to(d).with_suffix("")): f for d in recipe_folders() for f in d.rglob("*.yaml")}
    if name_or_path not in shipped:
        near = get_close_matches(name_or_path, shipped, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"no recipe is called '{name_or_path}'{hint} (shipped: {', '.join(sorted(shipped))})"
        )
    return shipped[name_or_path]


def load_recipe(name_or_path: str, overrides: list[str] | None = None) -> Recipe:
    """Read a recipe, apply dotted overrides, and check every key and value."""
    path = find_recipe(name_or_path)
    try:
        data = parse_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8; give a recipe in YAML") from error
    except YamlProblem as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise InputError(f"{where}: not valid YAML ({error}); mend the file there") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: a recipe is a mapping of keys to values; see recipes/tiny.yaml for one")
    data.setdefault("name", path.stem)
    for override in overrides or []:
        _apply(data, override)
    recipe = validated(Recipe, data, str(path))
    try:
        _refuse_unknown_names(recipe)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return recipe


def _refuse_unknown_names(recipe: Recipe) -> None:
    """Refuse a format, target, benchmark, method or estimator that does not exist now, not hours into the run."""
    from calibsft.benchmarks import get_benchmark
    from calibsft.responses.formats import get_format
    from calibsft.rl.fitting import require_fitting
    from calibsft.rl.methods import METHODS
    from calibsft.targets import TARGETS
    from calibsft.training.watchers import require_watchers

    get_format(recipe.format)
    require_watchers(recipe.sft.report_to, "sft.report_to")
    if recipe.targets.name not in TARGETS:
        unknown_name("target", recipe.targets.name, list(TARGETS))
    for name in recipe.eval.benchmarks:
        get_benchmark(name)
    for method in recipe.rl_methods:
        if method not in METHODS:
            unknown_name("RL method in rl_methods", method, list(METHODS))
        recipe.rl_of(method)
    for step in (step for pipeline in recipe.pipelines for step in pipeline):
        if step not in (CALIBSFT, *METHODS):
            unknown_name("step of a pipeline", step, [CALIBSFT, *METHODS])
        if step in METHODS:
            require_fitting(METHODS[step], recipe.rl_of(step))
        if step in METHODS and recipe.rl_of(step).eval_every and not recipe.eval.benchmarks:
            raise InputError("rl.eval_every needs benchmarks to evaluate on; name some in eval.benchmarks")
    _refuse_unfit_estimators(recipe)


def _refuse_unfit_estimators(recipe: Recipe) -> None:
    """Refuse estimators that do not exist, or not for the format that a pipeline writes its confidence in."""
    from calibsft.estimators import choose_estimators
    from calibsft.pipeline.chain import other_format
    from calibsft.responses.formats import get_format

    for pipeline in recipe.pipelines:
        written = get_format(other_format(recipe, pipeline) or recipe.format)
        choose_estimators(recipe.eval.estimators, written)
    if recipe.eval.estimator_model and any(recipe.pipelines):
        raise InputError(
            "eval.estimator_model is the name of one model and the run evaluates several; leave it out, so that the server"
            " is asked for each by its own name, or evaluate them one by one with calibsft eval"
        )


def _merged(settings: dict[str, Any], differing: dict[str, Any]) -> dict[str, Any]:
    """`settings` with what differs, section by section."""
    found = dict(settings)
    for key, value in differing.items():
        below = found.get(key)
        found[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return found


def parse_overrides(overrides: list[str]) -> dict[str, Any]:
    """Dotted overrides alone, as nested data."""
    data: dict[str, Any] = {}
    for override in overrides:
        _apply(data, override)
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: write it as key=value, for example --set rollout.samples=8")
    *sections, last = key.split(".")
    for section in sections:
        if data.get(section) is None:  # absent, or a section whose keys are all left out
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise InputError(
                f"--set {override}: '{section}' is a value, not a section; leave out what follows it"
            )
    try:
        data[last] = parse_yaml(text)
    except YamlProblem as error:
        raise InputError(f"--set {key}={shortened(text)}: not a valid value ({error}); correct it") from error


def validated(kind: type[S], data: dict[str, Any], source: str) -> S:
    """`data` as settings, or an error that names the key, the value and the way out."""
    _refuse_unknown_keys(kind, data, source, "")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "value_error":  # a rule about several keys, in our own words
            raise InputError(f"{source}: {first['ctx']['error']}; change either") from error
        if first["type"] == "missing":
            raise InputError(f"{source}: {key} is missing; add it") from error
        raise InputError(
            f"{source}: {key} = {shortened(repr(first['input']))}: {first['msg'].lower()}; correct that key"
        ) from error


def _refuse_unknown_keys(kind: type[Settings], data: dict[str, Any], source: str, prefix: str) -> None:
    for key, value in data.items():
        if key not in kind.model_fields:
            near = get_close_matches(str(key), kind.model_fields, n=1)
            hint = (
                f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(kind.model_fields)}"
            )
            raise InputError(f"{source}: unknown key '{prefix}{key}'{hint}")
        annotation = kind.model_fields[key].annotation
        for section in (annotation, *get_args(annotation)):
            if isinstance(section, type) and issubclass(section, Settings) and isinstance(value, dict):
                _refuse_unknown_keys(section, value, source, f"{prefix}{key}.")
