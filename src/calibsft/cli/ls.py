"""`calibsft ls`: what can be named in recipes and options."""

import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, Any, TypeVar

from typer import Argument

from calibsft.artifacts.lineage import FINE_TUNINGS
from calibsft.benchmarks import BENCHMARKS
from calibsft.cli.options import AsJson, print_lines
from calibsft.engines import ENGINES
from calibsft.errors import unknown_name
from calibsft.estimators import ESTIMATORS
from calibsft.evidence import EVIDENCE
from calibsft.metrics import METRICS
from calibsft.responses.formats import FORMATS
from calibsft.rl.methods import METHODS
from calibsft.targets import TARGETS
from calibsft.text_table import table_lines
from calibsft.verify import GRADERS

Rows = list[dict[str, Any]]
Thing = TypeVar("Thing")


def ls(
    what: Annotated[
        str,
        Argument(help="What to list, e.g. benchmarks or methods; default: the words that can stand here."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the names that recipes and options take: benchmarks, engines, targets, RL methods and more.

    ```sh
    calibsft ls
    calibsft ls benchmarks
    ```
    """
    if what and what not in THINGS:
        unknown_name("thing to list", what, list(THINGS))
    rows = THINGS[what][1]() if what else _described(THINGS, lambda thing: thing[0])
    print_lines(benchmark_lines(rows) if what == "benchmarks" else record_lines(rows), rows, as_json)


def benchmarks() -> Rows:
    return [
        {
            "name": b.name,
            "description": b.description,
            "domain": b.domain,
            "training": b.training,
            "questions": len(b.load()) if b.embedded else b.size,
            "samples": b.samples,
            "grader": b.grader,
            "hub": b.hub or None,
            "config": b.config,
            "split": b.hub_split if b.hub else None,
            "revision": b.revision,
            "version": b.version,
        }
        for b in BENCHMARKS.values()
    ]


def benchmark_lines(rows: Rows) -> list[str]:
    """Benchmarks as a table of at most 100 columns: one part per domain, the Hub's names in one column."""
    parts: dict[str, Rows] = {}
    for row in rows:
        use = ", for training and not for evaluation" if row["training"] else ""
        title = f"-- domain {row['domain']}{use}{'' if row['hub'] else ', embedded'}"
        hub = f"{row['hub']}@{row['revision']}" if row["revision"] else row["hub"]
        place = " ".join(part for part in (hub, row["config"], row["split"]) if part)
        cells = {"name": row["name"], "size": row["questions"], "samples": row["samples"]}
        cells |= {"grader": row["grader"], "v": row["version"], "Hub id, config, split": place or "-"}
        parts.setdefault(title, []).append(cells)
    head, *drawn = record_lines([row for part in parts.values() for row in part])
    lines = iter(drawn)
    return [head, *(line for title, part in parts.items() for line in (title, *islice(lines, len(part))))]


def graders() -> Rows:
    used = {
        kind: [b.name for b in BENCHMARKS.values() if kind in (b.grader, *b.row_graders)] for kind in GRADERS
    }
    return [
        {"name": kind, "version": grader.version, "benchmarks": _short(used[kind])}
        for kind, grader in GRADERS.items()
    ]


def _short(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more or "-"


def formats() -> Rows:
    return [
        {"name": name, "from": f.words[0], "to": f.words[-1], "values": len(f.words)}
        for name, f in FORMATS.items()
    ]


def methods() -> Rows:
    return _described(METHODS, lambda method: _first_line(method.rewards))


def metrics() -> Rows:
    return [
        {"name": name, "title": metric.title, "better": metric.better, "says": metric.description}
        for name, metric in METRICS.items()
    ]


def figures() -> Rows:
    from calibsft.report.figures import FIGURES

    return _described(FIGURES, lambda plot: _first_line(plot.draw))


def recipes() -> Rows:
    from calibsft.recipe import shipped_recipes

    heads = {
        name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in shipped_recipes().items()
    }
    return _described(heads, lambda head: head.lstrip("# ").rstrip(":,"))


def _described(things: Mapping[str, Thing], says: Callable[[Thing], str]) -> Rows:
    return [{"name": name, "says": says(thing)} for name, thing in things.items()]


def _first_line(function: Callable[..., Any]) -> str:
    """The first line of the docstring of the module that a function is from."""
    return (sys.modules[function.__module__].__doc__ or "").partition("\n")[0].rstrip(".")


THINGS: dict[str, tuple[str, Callable[[], Rows]]] = {
    "benchmarks": ("what can be asked, with where it comes from and how it is graded", benchmarks),
    "engines": ("who samples responses", lambda: _described(ENGINES, lambda kind: _first_line(kind.load))),
    "graders": ("how an answer is compared with the gold", graders),
    "formats": ("how a confidence is written", formats),
    "evidence": ("what can be measured of a response", lambda: _described(EVIDENCE, lambda e: e.description)),
    "targets": (
        "what a response's confidence should have been",
        lambda: _described(TARGETS, lambda target: target.description),
    ),
    "steps": ("what a pipeline of a recipe is made of", lambda: [*_described(FINE_TUNINGS, str), *methods()]),
    "methods": ("RL methods", methods),
    "estimators": (
        "where a confidence is taken from",
        lambda: _described(ESTIMATORS, lambda estimator: _first_line(estimator.estimate)),
    ),
    "metrics": ("what responses are scored by", metrics),
    "figures": ("what can be drawn of a run or of files", figures),
    "recipes": ("recipes that come with calibsft", recipes),
}


def record_lines(rows: Rows) -> list[str]:
    """Rows with the same keys as an aligned table; numbers are right-aligned, None is a dash."""
    columns = list(rows[0])
    left = [i for i, name in enumerate(columns) if not any(isinstance(row[name], int) for row in rows)]
    return table_lines([columns, *([_cell(row[name]) for name in columns] for row in rows)], left)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
