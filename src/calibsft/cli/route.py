"""`calibsft route`: which questions may stay with the local model, with a guarantee."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibsft.cli.decided import Decided, exceeded, finish, known_of, policy_paths
from calibsft.cli.options import (
    AsJson,
    By,
    Conditions,
    Delta,
    Force,
    LocalFormat,
    LocalModel,
    Malformed,
    OnLocalFailure,
    PerQuestion,
    PolicyOut,
    Procedure,
    Seed,
    Splits,
)

if TYPE_CHECKING:
    from calibsft.metrics.selection import Where


def route(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSONL or Parquet with question_id, confidence, local_correct, strong_correct (and optionally"
            " strong_tokens, dataset, well_formed); or with --strong the local model's responses as `certify` takes them."
        ),
    ],
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", help="Accuracy that may be lost against deferring everything, e.g. 0.01."),
    ],
    strong: Annotated[
        Path | None,
        typer.Option(
            "--strong",
            help="The strong model's responses to the same questions, if FILE does not have them; --where and --by are"
            " about FILE.",
        ),
    ] = None,
    delta: Delta = 0.05,
    procedure: Procedure = "union",
    per_question: PerQuestion = "random",
    where: Conditions = None,
    by: By = None,
    splits: Splits = 10,
    seed: Seed = 0,
    malformed: Malformed = None,
    policy: PolicyOut = Path("policy.json"),
    force: Force = False,
    model: LocalModel = None,
    format: LocalFormat = None,
    on_local_failure: OnLocalFailure = None,
    as_json: AsJson = False,
) -> None:
    """Which questions may stay with a small model? `calibsft route both.csv --epsilon 0.01`

    Finds the lowest confidence from which on the local model may answer, so that at most --epsilon of accuracy is lost
    against asking the strong model everything, with probability 1 − --delta; else it says to defer everything. Two
    evaluations do as well: `calibsft route small-eval --strong large-eval --epsilon 0.01`.
    """
    from calibsft.metrics.selection import Where, parts

    wanted = parts(file, Where.of(where or ()), by)
    paths = policy_paths(policy, list(wanted), force)
    options = model, format, on_local_failure
    decided = {
        value: _decide(
            file, strong, rows, epsilon, delta, procedure, per_question, splits, seed, malformed, options
        )
        for value, rows in wanted.items()
    }
    finish(decided, paths, by, as_json, force)


def _decide(
    file: Path,
    strong: Path | None,
    where: "Where",
    epsilon: float,
    delta: float,
    procedure: str,
    per_question: str,
    splits: int,
    seed: int,
    malformed: str | None,
    options: tuple[str | None, str | None, str | None],
) -> Decided:
    """The route of some of the rows."""
    from calibsft import decisions
    from calibsft.decisions.files import TOKENS, read_routing
    from calibsft.decisions.policy import deferring_policy
    from calibsft.decisions.repeats import mixture_warning
    from calibsft.metrics.files import EVERYTHING
    from calibsft.report.decisions import route_lines

    given = read_routing(file, strong, malformed, per_question, seed, where)
    known = known_of(given, *options)
    rows = given.rows
    columns = rows["confidence"], rows["local_correct"], rows["strong_correct"], given.questions
    tokens = rows[TOKENS] if TOKENS in rows.columns else None
    found = decisions.route(*columns, epsilon, delta, procedure, tokens, per_question, seed)
    tried = decisions.routed_held_out(*columns, epsilon, delta, procedure, tokens, splits, seed, per_question)
    names = [field.name for field in fields(decisions.Outcome)]
    spreads = {name: decisions.Spread.of(getattr(outcome, name) for outcome in tried) for name in names}
    held_out = spreads if tried else {}
    return Decided(
        found,
        deferring_policy(found, **known),
        given.left_out,
        {},
        held_out,
        splits,
        route_lines(found, held_out, splits),
        [
            mixture_warning(file, where, per_question, given.questions),
            mixture_warning(strong, EVERYTHING, per_question) if strong else None,
            exceeded(held_out, "gross_loss", epsilon, "of accuracy is lost"),
        ],
    )
