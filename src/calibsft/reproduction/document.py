"""Writes a study: REPRODUCTION.md, an offline page, and every table and figure as files of their own."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from calibsft.artifacts import write_bytes, write_text
from calibsft.errors import InputError
from calibsft.report.figures import Shown
from calibsft.report.markup import Cell, Table, markdown_code, markdown_table, markdown_text
from calibsft.report.page import FOLD_ROWS, PROSE_FROM, render_page
from calibsft.reproduction.overview import overview
from calibsft.reproduction.results import Result
from calibsft.reproduction.tables import csv_text, latex_text
from calibsft.reproduction.verdict_tables import VerdictPart, checks_text, verdict_parts
from calibsft.reproduction.verdicts import Outcome, Verdict
from calibsft.yaml_text import YamlProblem, parse_yaml

DOCUMENT, PAGE, REASONS, CHECKS = "REPRODUCTION.md", "reproduction.html", "reasons.yaml", "checks.csv"
TITLE = "The paper's claims at playground scale"
LEAD = (
    "This study makes every table and figure of the paper again, on a small world that you can inspect completely. Each"
    " claim of the paper is compared with our results. It holds if the whole interval over training seeds and questions"
    " lies on the claimed side, does not hold if it lies on the other side, and is undecided otherwise. What has no value"
    " here is not testable. No verdict is written by hand."
)
ONE_SEED = "one: no interval here covers other trainings"
PACKAGES = ("torch", "transformers", "trl", "numpy", "polars")


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the page about one experiment."""

    name: str
    title: str
    tables: list[Table]
    figures: list[Shown]


@dataclass(frozen=True, slots=True)
class Content:
    """What the document and the page show: how it was made, the verdicts, and every experiment."""

    command: str
    facts: Table
    counts: Table
    overview: Shown | None
    verdicts: list[VerdictPart]
    results: Sequence[Result]


def write_study(
    results: Sequence[Result], verdicts: Sequence[Verdict], command: str, seeds: Sequence[int], folder: Path
) -> Path:
    """Write everything into `folder`, the document last; returns its path.

    `folder` may hold a file with reasons for claims that do not hold, by claim, which are shown with them.
    """
    experiments = [result.experiment for result in results]
    parts = list(verdict_parts(verdicts, experiments, read_reasons(folder)))
    shown = overview(verdicts, experiments)
    content = Content(command, _facts(seeds), _counts(verdicts), shown, parts, results)
    for result in results:
        _write_tables(result, folder / "tables")
    for figure in [*([shown] if shown else []), *(figure for result in results for figure in result.figures)]:
        for name, picture in figure.files():
            write_bytes(folder / "figures" / name, picture)
    write_text(folder / CHECKS, checks_text(verdicts))
    write_text(folder / PAGE, _page(content))
    write_text(folder / DOCUMENT, _markdown(content))
    return folder / DOCUMENT


def read_reasons(folder: Path) -> Mapping[str, str]:
    """Why claims do not hold, by claim; empty without a file."""
    path = folder / REASONS
    if not path.is_file():
        return {}
    try:
        found = parse_yaml(path.read_text(encoding="utf-8"))
    except YamlProblem as error:
        raise InputError(f"{path}: not valid YAML ({error}); fix the file") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: it maps names of claims to reasons; write it as CLAIM: REASON")
    return {str(name): str(reason) for name, reason in found.items()}


def _write_tables(result: Result, folder: Path) -> None:
    name = result.experiment.name
    write_text(folder / f"{name}.md", "\n\n".join(map(markdown_table, result.tables)) + "\n")
    write_text(folder / f"{name}.csv", csv_text(result.cells, result.paper))
    write_text(folder / f"{name}.tex", latex_text(result.tables))


def _facts(seeds: Sequence[int]) -> Table:
    """With what the study was made."""
    rows = {
        "calibsft": version("calibsft"),
        "Python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "processor": _processor(),
        "training seeds": ", ".join(map(str, seeds)) if len(seeds) > 1 else f"{seeds[0]} ({ONE_SEED})",
    }
    return Table("Made with", ("What", "Which"), tuple((Cell(a), Cell(b)) for a, b in rows.items()), labels=2)


def _processor() -> str:
    """The kind of processor: trainings end otherwise on another kind."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _counts(verdicts: Sequence[Verdict]) -> Table:
    counts = [(outcome.value, sum(one.outcome is outcome for one in verdicts)) for outcome in Outcome]
    rows = tuple((Cell(name), Cell(str(count))) for name, count in counts)
    return Table(f"{len(verdicts)} claims", ("Verdict", "Claims"), rows)


def unexplained(verdicts: Sequence[Verdict], reasons: Mapping[str, str]) -> list[str]:
    """The claims that do not hold and have no reason yet."""
    return [one.claim.id for one in verdicts if one.outcome is Outcome.FAILS and one.claim.id not in reasons]


def _page(content: Content) -> str:
    results = content.results
    return render_page(
        "study.html.j2",
        ("report.css",),
        title=TITLE,
        lead=LEAD,
        parts=[Part(r.experiment.name, r.experiment.title, r.tables, r.figures) for r in results],
        content=content,
        fold_rows=FOLD_ROWS,
        prose_from=PROSE_FROM,
    )


def _markdown(content: Content) -> str:
    blocks = [
        f"# {TITLE}",
        LEAD,
        markdown_code(content.command, "sh"),
        markdown_table(content.facts),
        markdown_table(content.counts),
        *([_picture(content.overview)] if content.overview else []),
        f"[The page]({PAGE}) has everything in one file; [{CHECKS}]({CHECKS}) has every comparison with its numbers.",
        "## Verdicts",
    ]
    for part in content.verdicts:
        blocks.append(markdown_table(part.claims))
        blocks += [f"- **{markdown_text(claim)}** {markdown_text(why)}" for claim, why in part.reasons]
    for result in content.results:
        blocks.append(f"## {markdown_text(result.experiment.title)}")
        if result.experiment.paper:
            blocks.append(f"In the paper: {markdown_text(result.experiment.paper)}.")
        blocks += [markdown_table(table) for table in result.tables]
        blocks += [_picture(figure) for figure in result.figures]
    return "\n\n".join(blocks) + "\n"


def _picture(figure: Shown) -> str:
    return f"![{figure.title}](figures/{figure.name}.svg)\n\n{figure.caption}"
