"""Writes a study: REPRODUCTION.md, an offline page, and every table and figure as files of their own."""

import csv
import io
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from calibsft.artifacts import write_bytes, write_text
from calibsft.errors import InputError
from calibsft.report.figures import Shown
from calibsft.report.markup import Cell, Table, markdown_code, markdown_table, markdown_text
from calibsft.report.page import FOLD_ROWS, PROSE_FROM, render_page
from calibsft.reproduction.claims import Check, paper_numbers
from calibsft.reproduction.results import Result
from calibsft.reproduction.tables import MISSING, csv_text, latex_text
from calibsft.reproduction.verdicts import Outcome, Verdict, deciding
from calibsft.yaml_text import YamlProblem, parse_yaml

DOCUMENT, PAGE, REASONS, CHECKS = "REPRODUCTION.md", "reproduction.html", "reasons.yaml", "checks.csv"
TITLE = "The paper's claims at playground scale"
LEAD = (
    "This study makes every table and figure of the paper again, on a small world that you can inspect completely. Each"
    " claim of the paper is compared with our results. It holds if the whole interval over training seeds and questions"
    " lies on the claimed side, does not hold if it lies on the other side, and is undecided otherwise. No verdict is"
    " written by hand."
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


def write_study(
    results: Sequence[Result], verdicts: Sequence[Verdict], command: str, seeds: Sequence[int], folder: Path
) -> Path:
    """Write everything into `folder`, the document last; returns its path.

    `folder` may hold a file with reasons for claims that do not hold, by claim, which are shown with them.
    """
    reasons = read_reasons(folder)
    for result in results:
        _write_result(result, folder)
    write_text(folder / CHECKS, checks_text(verdicts))
    facts = _facts(seeds)
    parts = [Part(r.experiment.name, r.experiment.title, r.tables, r.figures) for r in results]
    write_text(
        folder / PAGE,
        render_page(
            "study.html.j2",
            ("report.css",),
            title=TITLE,
            lead=LEAD,
            parts=parts,
            counts=_counts(verdicts),
            verdicts=list(_verdict_tables(verdicts, results, reasons)),
            command=command,
            facts=facts,
            fold_rows=FOLD_ROWS,
            prose_from=PROSE_FROM,
        ),
    )
    write_text(folder / DOCUMENT, _markdown(results, verdicts, reasons, command, facts))
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


def _write_result(result: Result, folder: Path) -> None:
    name = result.experiment.name
    write_text(folder / "tables" / f"{name}.md", "\n\n".join(map(markdown_table, result.tables)) + "\n")
    write_text(folder / "tables" / f"{name}.csv", csv_text(result.cells, result.paper))
    write_text(folder / "tables" / f"{name}.tex", latex_text(result.tables))
    for figure in result.figures:
        for file, picture in figure.files():
            write_bytes(folder / "figures" / file, picture)


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


def _verdict_tables(
    verdicts: Sequence[Verdict], results: Sequence[Result], reasons: Mapping[str, str]
) -> Iterator[Table]:
    """The verdicts by experiment; those on experiments that were not run come last."""
    titles = {result.experiment.name: result.experiment.title for result in results}
    for name, title in titles.items():
        found = [one for one in verdicts if one.claim.experiment == name]
        if found:
            yield _verdict_table(title, found, reasons)
    others = [one for one in verdicts if one.claim.experiment not in titles]
    if others:
        yield _verdict_table("Not run", others, reasons)


def _verdict_table(title: str, verdicts: Sequence[Verdict], reasons: Mapping[str, str]) -> Table:
    rows = tuple(_verdict_row(one, reasons) for one in verdicts)
    header = ("Claim", "Decided by", "Paper", "Here", "Difference", "Verdict", "Why")
    return Table(title, header, rows, labels=len(header))


def _verdict_row(verdict: Verdict, reasons: Mapping[str, str]) -> tuple[Cell, ...]:
    """A claim with the check that decides it: the paper's numbers, ours, and their difference with its interval."""
    outcome, found = verdict.outcome, deciding(verdict)
    marked = Cell(outcome.value, best=outcome is Outcome.HOLDS, worse=outcome is Outcome.FAILS)
    claim = Cell(f"{verdict.claim.text} ({verdict.claim.source})")
    if found is None:
        return claim, *([Cell(MISSING)] * 4), marked, Cell(_said(verdict, reasons))
    check, gap = found.check, found.difference
    return (
        claim,
        Cell(_in_words(check)),
        Cell(_against(check, *_in_paper(verdict.claim.experiment, check))),
        Cell(_against(check, found.left, found.right)),
        Cell(f"{gap.value:+.3f}", span=f"{gap.low:+.3f} – {gap.high:+.3f}"),
        marked,
        Cell(_said(verdict, reasons)),
    )


def _in_words(check: Check) -> str:
    """What a check compares."""
    words = {"below": "below", "above": "above", "close": f"within {check.margin:g} of"}[check.relation]
    times = f"{check.times:g} × " if check.times != 1 else ""
    other = f"{check.right:g}" if isinstance(check.right, float) else ", ".join(check.right)
    return f"{', '.join(check.left)} {words} {times}{other}"


def _against(check: Check, left: float | None, right: float | None) -> str:
    if left is None or right is None:
        return MISSING
    return f"{left:.3f}" if isinstance(check.right, float) else f"{left:.3f} against {right:.3f}"


def _said(verdict: Verdict, reasons: Mapping[str, str]) -> str:
    given = reasons.get(verdict.claim.id, "") if verdict.outcome is not Outcome.HOLDS else ""
    return f"{verdict.reason}. {given}" if given else verdict.reason


def unexplained(verdicts: Sequence[Verdict], reasons: Mapping[str, str]) -> list[str]:
    """The claims that do not hold and have no reason yet."""
    return [one.claim.id for one in verdicts if one.outcome is Outcome.FAILS and one.claim.id not in reasons]


def checks_text(verdicts: Sequence[Verdict]) -> str:
    """Every comparison of every claim as CSV, with the paper's numbers beside ours."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["claim", "left", "is", "times", "right", "margin", "paper_left", "paper_right", "here_left", "here_right",
         "difference", "low", "high", "verdict"]
    )  # fmt: skip
    for verdict in verdicts:
        for one in verdict.checks:
            check, found = one.check, one.difference
            right = check.right if isinstance(check.right, float) else " | ".join(check.right)
            writer.writerow(
                [verdict.claim.id, " | ".join(check.left), check.relation, check.times, right, check.margin,
                 *_in_paper(verdict.claim.experiment, check), one.left, one.right, found.value, found.low, found.high,
                 one.outcome.value]
            )  # fmt: skip
    return text.getvalue()


def _in_paper(experiment: str, check: Check) -> tuple[float | None, float | None]:
    numbers = paper_numbers().get(experiment, {})
    left = numbers.get(check.left[0], {}).get(check.left[1])
    if isinstance(check.right, float):
        return left, check.right
    return left, numbers.get(check.right[0], {}).get(check.right[1])


def _markdown(
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    reasons: Mapping[str, str],
    command: str,
    facts: Table,
) -> str:
    parts = [
        f"# {TITLE}",
        LEAD,
        markdown_code(command, "sh"),
        markdown_table(facts),
        markdown_table(_counts(verdicts)),
        f"[The page]({PAGE}) has everything in one file; [{CHECKS}]({CHECKS}) has every comparison with its numbers.",
        "## Verdicts",
        *(markdown_table(table) for table in _verdict_tables(verdicts, results, reasons)),
    ]
    for result in results:
        parts.append(f"## {markdown_text(result.experiment.title)}")
        if result.experiment.paper:
            parts.append(f"In the paper: {markdown_text(result.experiment.paper)}.")
        parts += [markdown_table(table) for table in result.tables]
        parts += [
            f"![{figure.title}](figures/{figure.name}.svg)\n\n{figure.caption}" for figure in result.figures
        ]
    return "\n\n".join(parts) + "\n"
