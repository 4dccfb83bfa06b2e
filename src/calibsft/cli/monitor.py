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
            help="Labelled responses in order of arrival, as `calibsft certify` or, for a policy that defers, `calibsft route`"
            " takes them."
        ),
    ],
    policy: Annotated[Path, Option(help="What `calibsft certify` or `calibsft route` wrote.")],
    strong: Annotated[
        Path | None,
        Option(help="For a policy that defers: the strong model's responses, if FILE does not have them."),
    ] = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    malformed: Malformed = None,
    as_json: AsJson = False,
) -> None:
    """Does a policy keep its promise? `calibsft monitor labelled.csv --policy policy.json`

    Counts labels in order of arrival, of the first response to every question, and raises an alarm
    once they show that more is wrong, or lost, than the policy promises. A false alarm has at most
    the policy's delta as its probability, however many labels come and however often one looks. The
    exit code is 0 with and without an alarm; it is 2 for bad input.
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
