"""`calibsft monitor`: does a policy still keep its promise? Asked with labels that came later."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from calibsft.cli.options import AsJson, Columns, Conditions, Malformed, ScaleName, print_lines
from calibsft.errors import InputError
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where
from calibsft.schema import QUESTION_KEYS

if TYPE_CHECKING:
    import polars as pl

    from calibsft.decisions.files import Calibration
    from calibsft.decisions.policy import Policy
    from calibsft.monitoring import Watched


def monitor(
    file: Annotated[
        Path,
        Argument(
            help="Labelled responses in order of arrival, as `calibsft certify` reads them, or `calibsft route` for a policy"
            " that defers."
        ),
    ],
    policy: Annotated[
        Path, Option(metavar="FILE", help="Policy file that `calibsft certify` or `calibsft route` wrote.")
    ],
    strong: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The strong model's responses, if the policy defers and the first file does not have them.",
        ),
    ] = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    malformed: Malformed = None,
    as_json: AsJson = False,
) -> None:
    """Check with new labels whether a policy still keeps its promise.

    ```sh
    calibsft monitor labelled.csv --policy policy.json
    ```

    Counts labels in order of arrival, one for each question (that of its first response). Raises an alarm once they show
    that more answers are wrong, or lost, than the policy promises. The probability of a false alarm is at most the policy's
    delta, however many labels come and however often you look. The exit code is 0 with and without an alarm, and 2 for bad
    input.
    """
    from calibsft.decisions.policy import read_policy
    from calibsft.monitoring import watch
    from calibsft.report.monitoring import watch_lines

    promised = read_policy(policy)
    dialect = Dialect.of(columns, scale, [file, *([strong] if strong else [])])
    given = _read(file, promised, strong, malformed, Where.of(where or ()), dialect)
    first = given.rows.filter(given.questions.is_first_distinct())
    correct = "correct" if "correct" in first.columns else "local_correct"
    found = watch(
        first["confidence"], first[correct], promised, first.get_column("strong_correct", default=None)
    )
    alarm = _alarm(found, first)
    repeated = given.rows.height - first.height
    lines = watch_lines(found, alarm, repeated, given.left_out)
    counts = {"alarm": alarm, "repeated": repeated, "left_out": given.left_out}
    print_lines(lines, _data(found) | counts, as_json)


def _read(
    file: Path, policy: "Policy", strong: Path | None, malformed: str | None, where: Where, dialect: Dialect
) -> "Calibration":
    """The responses as they are read for the decision that made the policy."""
    from calibsft.decisions.by_question import FIRST
    from calibsft.decisions.files import read_calibration, read_routing
    from calibsft.decisions.policy import DEFER

    if policy.otherwise == DEFER:
        return read_routing(file, strong, malformed, FIRST, where=where, dialect=dialect)
    if strong is not None:
        raise InputError("--strong is for policies that defer, and this one abstains; leave it out")
    return read_calibration(file, malformed, where, dialect=dialect)


def _alarm(found: "Watched", rows: "pl.DataFrame") -> dict[str, Any] | None:
    """The label that raised the alarm, and the row and question that it stands at."""
    if found.alarm_index is None:
        return None
    keys = [name for name in ("row", *QUESTION_KEYS) if name in rows.columns]
    return {"label": found.state.alarmed_at, **rows.select(keys).row(found.alarm_index, named=True)}


def _data(found: "Watched") -> dict[str, Any]:
    policy, state = found.policy, found.state
    return {
        "policy": policy.id,
        "otherwise": policy.otherwise,
        "budget": state.budget,
        "delta": state.delta,
        "questions": found.responses,
        "labels": state.labels,
        "events": state.events,
        "rate": state.rate,
        "lower_bound": state.lower_bound,
        "e_value": state.e_value,
    }
