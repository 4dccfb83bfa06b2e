"""Typed recipes: everything a run does, in one YAML file.

A recipe composes the sections of settings that rooms own. It is complete (`--dry-run` shows every default) and strict.
It may extend another one (`extends: qwen3-8b/calibsft`) and then holds what differs. Files of settings can be laid over it,
such as those of a machine. Variants are named settings for single steps: `calibsft@unbalanced`. Overrides are dotted keys, `rollout.samples=8`. Holds settings only; `pipeline` turns them into
stages.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from calibsft.artifacts.lineage import BASE, CALIBSFT, FINE_TUNINGS, WARMUP, split_step
from calibsft.engines import EngineSection, default_engine
from calibsft.errors import InputError, did_you_mean, unknown_name
from calibsft.evaluation.settings import EvalSettings
from calibsft.evidence.settings import EvidenceSettings
from calibsft.files.reading import is_table
from calibsft.judge.settings import JudgeSettings
from calibsft.launchers import LaunchSettings
from calibsft.playground.settings import PLAYGROUND, BaseSettings
from calibsft.prior.settings import PriorSettings
from calibsft.questions import QuestionSettings
from calibsft.responses.settings import DEFAULT_FORMAT, FormatName, Template
from calibsft.rl.methods import CHOICE, METHODS, method_settings
from calibsft.rl.settings import MethodSettings, RlSettings
from calibsft.rollouts.settings import RolloutSettings
from calibsft.settings import CommonTo, Device, Dtype, Seed, Settings, apply_override, merged, validated
from calibsft.settings.choice import choice_of
from calibsft.sft.settings import SftSettings
from calibsft.shipped import MACHINES, RECIPES, shipped_folders
from calibsft.targets import TargetSection
from calibsft.targets.calibsft import CalibSftSettings
from calibsft.warmup import WarmupSettings, completed
from calibsft.yaml_text import YamlProblem, parse_yaml

# The key under which a recipe names the one that it extends.
EXTENDS = "extends"
# In bytes. With the seed's digits, the folder's name stays below the limit of file systems.
LONGEST_NAME = 200
# A variant shapes one step; these keys are about the whole run.
NOT_VARIED = ("name", "seed", "training_seeds", "pipelines", "variants", "jobs", "launch")
# What the variant of a base model may change.
BASE_KEYS = ("base", "model")


VariantName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=40)]


def _folder_name(name: str) -> str:
    # The run's folder is runs/NAME-seed0: a name with slashes could lead out of runs/.
    if not name.isprintable() or set(name) & {"/", "\\"} or not 1 <= len(name.encode()) <= LONGEST_NAME:
        rule = "is one short word without slashes"
    elif name.startswith("."):
        rule = "does not begin with a dot"
    else:
        return name
    raise PydanticCustomError("folder_name", f"it names a folder in runs/, so it {rule}")


class Recipe(Settings):
    """A whole run, from questions to report."""

    name: Annotated[str, AfterValidator(_folder_name)]
    seed: Seed = 0
    training_seeds: tuple[Seed, ...] = Field(
        (),
        description="seeds of the trainings, one model each from the same data; default: the recipe's seed",
    )
    format: FormatName = DEFAULT_FORMAT
    template: Template = Field({})
    model: str = PLAYGROUND
    device: Device = "auto"
    dtype: Dtype = "auto"
    engine: EngineSection = default_engine()
    base: BaseSettings = BaseSettings()
    questions: QuestionSettings = QuestionSettings(source=PLAYGROUND)
    rollout: RolloutSettings = RolloutSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    targets: TargetSection = CalibSftSettings()
    sft: SftSettings = SftSettings()
    # After the sections whose values it takes where it has none.
    warmup: WarmupSettings | None = None
    prior: PriorSettings = PriorSettings()
    rl: Annotated[RlSettings, CommonTo(CHOICE, "rl_methods")] = RlSettings()
    eval: EvalSettings = EvalSettings()
    judge: JudgeSettings = JudgeSettings()
    # By the name of a method: its own settings, and settings of `rl` that differ for it.
    rl_methods: dict[str, dict[str, Any]] = Field({})
    # By name: settings that differ for a step of a pipeline with that name behind it, as in `calibsft@unbalanced`.
    variants: dict[VariantName, dict[str, Any]] = Field({})
    # What is done to the base model, in order; models with the same first steps share the stages of these steps.
    pipelines: tuple[tuple[str, ...], ...] = Field(((CALIBSFT,),), min_length=1)
    jobs: int = Field(1, ge=1, description="stages that run side by side where none waits for the other")
    launch: LaunchSettings = LaunchSettings()

    @field_validator("warmup", mode="before")
    @classmethod
    def _warmup_is_like_the_rest(cls, given: Any, info: ValidationInfo) -> Any:
        return completed(given, info.data) if isinstance(given, dict) else given

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

    @model_validator(mode="after")
    def _methods_exist(self) -> Self:
        for method in self.rl_methods:
            if method not in METHODS:
                unknown_name("RL method in rl_methods", method, list(METHODS))
            self.rl_of(method)
        for pipeline in self.pipelines:
            for place, step in enumerate(pipeline):
                self._require_step(step, first=place == 0)
        return self

    def _require_step(self, step: str, first: bool) -> None:
        name, variant = split_step(step)
        if name == BASE:
            if not first or not variant:
                raise InputError(
                    f"a pipeline has the step {step}: every pipeline begins with the base model, and only its variant is named,"
                    f" as the first step ({BASE}@NAME)"
                )
        elif name not in (*FINE_TUNINGS, *METHODS):
            unknown_name("step of a pipeline", step, [*FINE_TUNINGS, *METHODS])
        if variant and not self.variants:
            raise InputError(
                f"the step {step} names the variant '{variant}', and the recipe has none; add it under variants"
            )
        if variant and variant not in self.variants:
            unknown_name("variant of a step", variant, list(self.variants))
        if name == BASE and (other := sorted(self.variants[variant].keys() - set(BASE_KEYS))):
            raise InputError(
                f"variants.{variant}.{other[0]}: the variant of a base model changes {' or '.join(BASE_KEYS)} alone;"
                " leave it out"
            )

    @model_validator(mode="after")
    def _variants_fit(self) -> Self:
        for name in self.variants:
            self.varied(name)
        return self

    @model_validator(mode="after")
    def _launched_servers_are_asked(self) -> Self:
        if self.launch.servers is not None and self.rl.policy != "served":
            raise InputError(
                "launch.servers means nothing unless rl.policy is served; set that, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _warmup_has_examples(self) -> Self:
        missing = self.warmup is None or self.warmup.rollout.shots is None
        if missing and any(split_step(step)[0] == WARMUP for pipeline in self.pipelines for step in pipeline):
            raise InputError(
                f"a pipeline has the step {WARMUP}, which learns from worked examples; give a file of them in"
                " warmup.rollout.shots"
            )
        return self

    @model_validator(mode="after")
    def _every_model_has_its_name(self) -> Self:
        if self.eval.estimator_model and any(self.pipelines):
            raise InputError(
                "eval.estimator_model is the name of one model and the run evaluates several; leave it out, so that the server"
                " is asked for each by its own name, or evaluate them one by one with calibsft eval"
            )
        return self

    @property
    def trains_base(self) -> bool:
        """Whether the run makes its base model itself, instead of loading one."""
        return self.model == PLAYGROUND

    @property
    def run_name(self) -> str:
        """The name of its run's folder in runs/."""
        if self.training_seeds in ((), (self.seed,)):
            return f"{self.name}-seed{self.seed}"
        return f"{self.name}-seeds{'-'.join(map(str, self.training_seeds))}"

    def training_seed(self, chosen: int | None) -> int:
        """The seed of a training: the chosen one of several, or the only one."""
        return (*self.training_seeds, self.seed)[0] if chosen is None else chosen

    def rl_of(self, method: str) -> MethodSettings:
        """The settings of one method; a value that the recipe leaves open is the method's default."""
        common = {key: value for key, value in self.rl.model_dump().items() if value is not None}
        if self.launch.servers is not None:
            common["servers"] = merged(common.get("servers") or {}, {"urls": self.launch.servers.urls})
        return method_settings(
            method, merged(common, self.rl_methods.get(method, {})), f"rl_methods.{method}"
        )

    def varied(self, variant: str) -> "Recipe":
        """This recipe with the settings of a variant; without a name, itself."""
        if not variant:
            return self
        differing = self.variants[variant]
        for key in NOT_VARIED:
            if key in differing:
                raise InputError(
                    f"variants.{variant}.{key}: this key is about the whole run; leave it out of variants"
                )
        data = self.model_dump(exclude_unset=True, exclude={"variants", "pipelines"})
        for key, given in differing.items():
            if isinstance(given, dict) and "name" in given and isinstance(data.get(key), dict):
                data[key] = _shared_keys(key, data[key], given)
        return validated(Recipe, merged(data, differing), f"variants.{variant}")

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _shared_keys(section: str, values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The values of a section that mean something for what `given` names instead, such as another target."""
    choice = choice_of(Recipe.model_fields[section]) if section in Recipe.model_fields else None
    if choice is None:
        return values
    return {key: value for key, value in values.items() if key in choice.class_of(given).model_fields}


def shipped_recipes() -> dict[str, Path]:
    """The files of named recipes, by name."""
    return _shipped(RECIPES)


def shipped_machines() -> dict[str, Path]:
    """The files of settings for kinds of machines, by name."""
    return _shipped(MACHINES)


def _shipped(folder: str) -> dict[str, Path]:
    files = {
        str(f.relative_to(d).with_suffix("")): f for d in shipped_folders(folder) for f in d.rglob("*.yaml")
    }
    return dict(sorted(files.items()))


def find_recipe(name_or_path: str) -> Path:
    """The file of a recipe given by path or by name."""
    return _found(name_or_path, shipped_recipes(), "recipe")


def find_machine(name_or_path: str) -> Path:
    """The file of settings to lay over a recipe, given by path or by name."""
    return _found(name_or_path, shipped_machines(), "machine")


def _found(name_or_path: str, shipped: dict[str, Path], kind: str) -> Path:
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise InputError(
                f"{path}: no such {kind} file; give a path to a .yaml file or the name of a shipped {kind}"
            )
        return path
    if name_or_path not in shipped:
        hint = did_you_mean(name_or_path, shipped)
        raise InputError(f"no {kind} is called '{name_or_path}'{hint} (shipped: {', '.join(shipped)})")
    return shipped[name_or_path]


def load_recipe(
    name_or_path: str, overrides: Sequence[str] | None = None, layers: Sequence[str] | None = None
) -> Recipe:
    """Read a recipe, lay the files `layers` over it, apply dotted overrides, and check every key and value."""
    path = find_recipe(name_or_path)
    data = _extended(path)
    data.setdefault("name", path.stem)
    for layer in layers or []:
        data = merged(data, _read(find_machine(layer)))
    for override in overrides or []:
        apply_override(data, override)
    return validated(Recipe, data, " with ".join([str(path), *(layers or [])]))


def _extended(path: Path) -> dict[str, Any]:
    """The data of a recipe, over that of the one that it extends."""
    data = _read(path)
    seen = [path.resolve()]
    while (base := data.pop(EXTENDS, None)) is not None:
        path = _base(path, base)
        if path.resolve() in seen:
            raise InputError(f"{path}: this recipe extends itself; remove {EXTENDS} in one of the files")
        seen.append(path.resolve())
        data = merged(_read(path), data)
    return data


def _base(path: Path, base: Any) -> Path:
    """The recipe that the one at `path` extends: a file beside it, or one of a shipped name."""
    if not isinstance(base, str):
        raise InputError(f"{path}: {EXTENDS} names one recipe; write it as {EXTENDS}: qwen3-8b/calibsft")
    beside = path.parent / base
    try:
        return beside if beside.suffix and beside.is_file() else find_recipe(base)
    except InputError as error:
        raise InputError(f"{path}, {EXTENDS}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    """The data of a file of settings."""
    try:
        data = parse_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8; give a recipe in YAML") from error
    except YamlProblem as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise InputError(f"{where}: not valid YAML ({error}); fix the file there") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: a recipe is a mapping of keys to values; see recipes/tiny.yaml for one")
    found: dict[str, Any] = _found_beside(path.parent, data)
    return found


def _found_beside(folder: Path, value: Any) -> Any:
    """`value` of a recipe in `folder`, where tables that are not found from here are those beside the recipe."""
    if isinstance(value, dict):
        return {key: _found_beside(folder, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_found_beside(folder, inner) for inner in value]
    if isinstance(value, str) and is_table(value) and not Path(value).exists() and (folder / value).is_file():
        return str(folder / value)
    return value
