"""The Python reference: a page for every function of `import calibsft`, and one for every room with functions of its own.

Signatures and texts come from the source by mkdocstrings, the options of a stage from its settings.
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from cells import cell
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from calibsft import FUNCTIONS as LAZY
from calibsft import ROOMS as CALLABLE
from calibsft import api
from calibsft.settings.options import Option
from calibsft.stages import STAGES

FOLDER = "reference/python"
FUNCTIONS = [name for name in vars(api) if name in (*LAZY, *CALLABLE)]
STAGE_OF = {
    "sample": "rollout",
    "verify": "verify",
    "measure": "evidence",
    "build": "build",
    "fine_tune": "sft",
    "train": "rl",
    "evaluate": "eval",
}
# These take the options of the function of the same name in `calibsft.decisions`.
DECISIONS = ("certify", "select", "route")
# Packages whose `__all__` is for users.
ROOMS = ("responses", "verify", "metrics", "prior", "rl", "decisions", "monitoring")
# What the files in docs/extending.md import besides those packages, and what plug-ins and errors are called.
EXTENSIONS = {
    "Benchmarks and questions": (
        "calibsft.benchmarks.benchmark.Benchmark",
        "calibsft.benchmarks.row.Row",
        "calibsft.schema.Question",
        "calibsft.schema.QUESTION_KEYS",
    ),
    "Graders": (
        "calibsft.verify.grader.Grader",
        "calibsft.verify.grader.any_alias",
    ),
    "Evidence": ("calibsft.evidence.evidence.Evidence", "calibsft.evidence.context.Context"),
    "Targets": (
        "calibsft.targets.target.Target",
        "calibsft.targets.settings.TargetSettings",
        "calibsft.targets.labels.once_per",
    ),
    "Methods of RL": (
        "calibsft.rl.method.Method",
        "calibsft.rl.method.Group",
        "calibsft.rl.method.SegmentRewards",
        "calibsft.rl.method.TokenSet",
        "calibsft.rl.options.AnswerIsRewarded",
        "calibsft.rl.options.DividesByDeviation",
        "calibsft.rl.options.RewardsConfidence",
    ),
    "Engines": (
        "calibsft.engines.engine.Engine",
        "calibsft.engines.engine.EngineKind",
        "calibsft.engines.engine.Request",
        "calibsft.engines.settings.EngineSettings",
        "calibsft.engines.text_engine.TextEngine",
        "calibsft.models.load_tokenizer",
    ),
    "Metrics and estimators": (
        "calibsft.metrics.metric.HEADLINE",
        "calibsft.estimators.estimator.Estimator",
        "calibsft.estimators.estimator.Evaluated",
    ),
    "Figures": (
        "calibsft.report.figures.plot.Plot",
        "calibsft.report.figures.panels.counted",
        "calibsft.report.figures.panels.model_panels",
        "calibsft.report.figures.style.short",
        "calibsft.report.summary.ModelResult",
        "calibsft.report.summary.RunSummary",
    ),
    "Policies, plug-ins and errors": (
        "calibsft.decisions.policy.abstaining_policy",
        "calibsft.integrations.inspect_ai.ask_confidence",
        "calibsft.integrations.inspect_ai.stated_confidence",
        "calibsft.errors.InputError",
    ),
}
EXTENSIONS_HEAD = "# For extensions\n\nWhat the files in [Adding things](../../extending.md) are made of.\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages in the navigation, below their index."""
    look_up = next(group["Look up"] for group in config.nav or [] if "Look up" in group)
    listed = next(entry["Python"] for entry in look_up if "Python" in entry)
    names = {name: name for name in FUNCTIONS} | {f"calibsft.{room}": f"calibsft.{room}" for room in ROOMS}
    names["For extensions"] = "extensions"
    listed += [{title: f"{FOLDER}/{name}.md"} for title, name in names.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference."""
    for name, text in pages():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    return files


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text of each page."""
    yield "index", index()
    for name in FUNCTIONS:
        yield name, function_page(name)
    for room in ROOMS:
        yield f"calibsft.{room}", room_page(room)
    yield "extensions", extensions()


def index() -> str:
    """The page that lists the others."""
    functions = [f"| [`{name}`]({name}.md) | {first_line(getattr(api, name))} |" for name in FUNCTIONS]
    rooms = [f"| [`calibsft.{room}`](calibsft.{room}.md) | {first_line(package(room))} |" for room in ROOMS]
    return "\n".join(
        ["# Python", "", "## import calibsft", "", inspect.getdoc(api) or "", ""]
        + ["| function | |", "|---|---|", *functions, ""]
        + [entry("calibsft.api.StageResult", "calibsft.api.StageResult")]
        + ["## Packages", "", "Smaller functions, for numbers and texts in memory.", ""]
        + ["| package | |", "|---|---|", *rooms, ""]
        + ["[For extensions](extensions.md) has what [an extension](../../extending.md) is made of."]
    )


def function_page(name: str) -> str:
    """A function of `import calibsft`; of a stage, also its options."""
    text = entry(f"calibsft.{name}", f"calibsft.api.{name}", level=1)
    if name in DECISIONS:
        within = f"calibsft.decisions.{name}"
        return f"{text}\nOptions and result: [`{within}`](calibsft.decisions.md#{within}).\n"
    if name not in STAGE_OF:
        return text
    kind = STAGE_OF[name]
    rows = [option_row(option) for option in STAGES[kind].options()]
    return "\n".join(
        [
            text,
            "## Options",
            "",
            f"Those of [`calibsft {kind}`](../commands.md#calibsft-{kind}), by keyword; the",
            "result is a [`StageResult`](index.md#calibsft.api.StageResult).",
            "",
        ]
        + ["| keyword | | default |", "|---|---|---|", *rows, ""]
    )


def option_row(option: Option) -> str:
    default = "" if option.required or option.default in ("", "none") else f"`{option.default}`"
    return f"| `{option.name}` | {cell(option.help)} | {default} |"


def room_page(room: str) -> str:
    """Everything in the `__all__` of a package: functions and classes, then names and lists with their values."""
    things = {name: getattr(package(room), name) for name in sorted(package(room).__all__, key=str.lower)}
    documented = {name: thing for name, thing in things.items() if is_documented(thing)}
    entries = [entry(f"calibsft.{room}.{name}", place(thing)) for name, thing in documented.items()]
    values = [value_row(room, name, things[name]) for name in things if name not in documented]
    table = ["## Values", "", "| name | |", "|---|---|", *values] if values else []
    return "\n".join([f"# calibsft.{room}", "", inspect.getdoc(package(room)) or "", "", *entries, *table])


def extensions() -> str:
    """What extensions are made of."""
    parts = [EXTENSIONS_HEAD]
    for title, names in EXTENSIONS.items():
        parts += [f"## {title}", "", *(entry(name, name, level=3) for name in names)]
    return "\n".join(parts)


def package(room: str) -> Any:
    return import_module(f"calibsft.{room}")


def is_documented(thing: object) -> bool:
    """Whether a thing has a signature or fields to show; the others have a value."""
    return (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__.startswith("calibsft.")


def place(thing: Any) -> str:
    """Where the code of a function or class is."""
    return f"{thing.__module__}.{thing.__qualname__}"


def entry(name: str, where: str, level: int = 2) -> str:
    """The documentation of the code at `where`, which is imported as `name`."""
    return (
        f"[](){{#{name}}}\n\n::: {where}\n    options:\n      heading: {name}\n      heading_level: {level}\n"
    )


def value_row(room: str, name: str, value: object) -> str:
    """A name for a value; of a dictionary, its keys."""
    shown = ", ".join(f"`{key}`" for key in value) if isinstance(value, Mapping) else f"`{value!r}`"
    return f'| <code id="calibsft.{room}.{name}">{name}</code> | {cell(shown)} |'


def first_line(thing: object) -> str:
    return cell((inspect.getdoc(thing) or "").split("\n")[0])
