"""`calibsft route`: which questions may stay with the local model, with a guarantee."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from calibsft.cli.decided import finish, known_of
from calibsft.cli.options import (
    AsJson,
    Delta,
    LocalFormat,
    LocalModel,
    MalformedOrKind,
    OnLocalFailure,
    PerQuestion,
    PolicyOut,
    Procedure,
    Seed,
    Splits,
)


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
            "--strong", help="The strong model's responses to the same questions, if FILE does not have them."
        ),
    ] = None,
    delta: Delta = 0.05,
    procedure: Procedure = "union",
    per_question: PerQuestion = None,
    splits: Splits = 10,
    seed: Seed = 0,
    malformed: MalformedOrKind = None,
    policy: PolicyOut = Path("policy.json"),
    model: LocalModel = None,
    format: LocalFormat = None,
    on_local_failure: OnLocalFailure = None,
    as_json: AsJson = False,
) -> None:
    """Which questions may stay with a small model? `calibsft route both.csv --epsilon 0.01`

    Finds the lowest confidence from which on the local model may answer, so that at most --epsilon of accuracy is lost
    against asking the strong model everything, with probability 1 − --delta; else it says to defer everything. Two
    evaluations do as well: `calibsft route small-eval --strong large-eval --epsilon 0.01 --per-question first`.
    """
    from calibsft import decisions
    from calibsft.decisions.files import TOKENS, read_routing
    from calibsft.decisions.policy import deferring_policy
    from calibsft.report.decisions import route_lines

    given = read_routing(file, strong, malformed, per_question, seed)
    known = known_of(given, model, format, on_local_failure)
    rows = given.rows
    columns = rows["confidence"], rows["local_correct"], rows["strong_correct"], given.questions
    tokens = rows[TOKENS] if TOKENS in rows.columns else None
    found = decisions.route(*columns, epsilon, delta, procedure, tokens, per_question, seed)
    tried = decisions.routed_held_out(*columns, epsilon, delta, procedure, tokens, splits, seed, per_question)
    names = [field.name for field in fields(decisions.Outcome)]
    held_out = {name: decisions.Spread.of(getattr(outcome, name) for outcome in tried) for name in names}
    held_out = held_out if tried else {}
    finish(
        found,
        given.left_out,
        {},
        held_out,
        splits,
        policy,
        deferring_policy(found, **known),
        route_lines(found, held_out, splits),
        as_json,
    )
