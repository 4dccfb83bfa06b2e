"""`calibsft validate`: load benchmarks and grade their golds against themselves."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

from calibsft.benchmarks import BENCHMARKS, Benchmark, get_benchmark
from calibsft.benchmarks.gold_check import GoldCheck, check_golds, gold_answers
from calibsft.cli.ls import record_lines
from calibsft.cli.options import AsJson, print_lines
from calibsft.errors import InputError
from calibsft.files.cells import shown
from calibsft.progress import Progress
from calibsft.schema import Question
from calibsft.settings.options import comma_separated

ALL = "all"
SHOWN_FAILURES = 20


def validate(
    benchmark: Annotated[
        list[str], Option(metavar="NAMES", help="Names, comma-separated, or all. Repeatable.")
    ],
    data_dir: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Folder with the benchmarks' files, read instead of the Hub."),
    ] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Check only the first so many questions of each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Load benchmarks, and check that the grader accepts every gold as an answer.

    ```sh
    calibsft validate --benchmark math-500,gsm8k --limit 100
    ```

    Lists the golds that fail, with their grades. A few are known to fail, so they do not change the exit code. Data that
    cannot be loaded does.
    """
    # All are loaded before any is graded, so that a missing file shows at once and not an hour later.
    loaded = [(chosen, chosen.load(data_dir)[:limit]) for chosen in _chosen(benchmark)]
    checks = {chosen.name: _check(chosen.name, questions) for chosen, questions in loaded}
    records = {
        name: {"questions": check.questions, "passed": check.passed, **asdict(check)}
        for name, check in checks.items()
    }
    print_lines(check_lines(checks), records, as_json)


def _chosen(names: list[str]) -> list[Benchmark]:
    wanted = [name for text in names for name in comma_separated(text)]
    if not wanted:
        raise InputError("no benchmark named; give --benchmark a name from calibsft ls benchmarks, or all")
    if ALL in wanted:
        return [benchmark for benchmark in BENCHMARKS.values() if not benchmark.training]
    return [get_benchmark(name) for name in dict.fromkeys(wanted)]


def _check(name: str, questions: list[Question]) -> GoldCheck:
    answers = sum(len(gold_answers(question)) for question in questions)
    with Progress(name, answers, "golds") as progress:
        return check_golds(questions, lambda done, _: progress.advance(done - progress.done))


def check_lines(checks: dict[str, GoldCheck]) -> list[str]:
    """One line per benchmark, then the golds that fail."""
    rows = [
        {
            "benchmark": name,
            "questions": check.questions,
            "pass": check.passed,
            "fail": check.questions - check.passed,
        }
        for name, check in checks.items()
    ]
    lines = record_lines(rows)
    for name, check in checks.items():
        for failure in check.failures[:SHOWN_FAILURES]:
            lines.append(f"{name} {failure.question_id}: {failure.grade}, answered {shown(failure.answer)}")
        if (more := len(check.failures) - SHOWN_FAILURES) > 0:
            lines.append(f"{name}: {more:,} more such answers; --json lists them all")
    return lines
