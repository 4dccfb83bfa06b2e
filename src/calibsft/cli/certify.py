"""`calibsft certify`: from which confidence on answers may be given, with a guarantee."""

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


def certify(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSONL or Parquet with question_id, confidence, correct (and optionally dataset, well_formed), or a"
            " folder that `calibsft verify` or `calibsft eval` wrote."
        ),
    ],
    risk: Annotated[
        float, typer.Option("--risk", help="Largest error rate among the answers given, e.g. 0.1.")
    ],
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
    """When may the model answer, so that few answers are wrong? `calibsft certify responses.csv --risk 0.1`

    Finds the lowest confidence from which on the error rate is at most --risk with probability 1 − --delta, for questions
    like these; else it says to abstain on everything. Prints what that does on held-out halves, and writes a policy file.
    """
    from calibsft import decisions
    from calibsft.decisions.files import read_calibration
    from calibsft.decisions.policy import abstaining_policy
    from calibsft.report.decisions import certificate_lines

    given = read_calibration(file, malformed)
    known = known_of(given, model, format, on_local_failure)
    responses = given.rows["confidence"], given.rows["correct"], given.questions
    certificate = decisions.certify(*responses, risk, delta, procedure, per_question, seed)
    splits = splits if certificate.questions > 1 else 0  # a single question has no halves
    tried = decisions.answered_held_out(*responses, [risk], delta, procedure, splits, seed, per_question)
    held_out = {
        "coverage": decisions.Spread.of(tried.coverage.ravel()),
        "risk": decisions.Spread.of(tried.risk.ravel()),
    }
    accuracy = given.rows["correct"].to_numpy().mean()
    perfect = decisions.perfect_ranking(float(accuracy), risk)
    finish(
        certificate,
        given.left_out,
        {"coverage": certificate.coverage, "perfect_ranking": perfect},
        held_out if splits else {},
        splits,
        policy,
        abstaining_policy(certificate, **known),
        certificate_lines(certificate, perfect, held_out if splits else {}, splits),
        as_json,
    )
