"""`calibsft certify`: from which confidence on answers may be given, with a guarantee."""

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
    """When may the model answer, so that few answers are wrong? `calibsft certify responses.csv --risk 0.1`

    Finds the lowest confidence from which on the error rate is at most --risk with probability 1 − --delta, for questions
    like these; else it says to abstain on everything. Prints what that does on held-out halves, and writes a policy file.
    """
    from calibsft.metrics.selection import Where, parts

    wanted = parts(file, Where.of(where or ()), by)
    paths = policy_paths(policy, list(wanted), force)
    options = model, format, on_local_failure
    decided = {
        value: _decide(file, rows, risk, delta, procedure, per_question, splits, seed, malformed, options)
        for value, rows in wanted.items()
    }
    finish(decided, paths, by, as_json, force)


def _decide(
    file: Path,
    where: "Where",
    risk: float,
    delta: float,
    procedure: str,
    per_question: str,
    splits: int,
    seed: int,
    malformed: str | None,
    options: tuple[str | None, str | None, str | None],
) -> Decided:
    """The certificate of some of the rows."""
    from calibsft import decisions
    from calibsft.decisions.files import read_calibration
    from calibsft.decisions.policy import abstaining_policy
    from calibsft.decisions.repeats import mixture_warning
    from calibsft.report.decisions import certificate_lines

    given = read_calibration(file, malformed, where)
    known = known_of(given, *options)
    responses = given.rows["confidence"], given.rows["correct"], given.questions
    certificate = decisions.certify(*responses, risk, delta, procedure, per_question, seed)
    splits = splits if certificate.questions > 1 else 0  # a single question has no halves
    tried = decisions.answered_held_out(*responses, [risk], delta, procedure, splits, seed, per_question)
    spreads = {
        "coverage": decisions.Spread.of(tried.coverage.ravel()),
        "risk": decisions.Spread.of(tried.risk.ravel()),
    }
    held_out = spreads if splits else {}
    perfect = decisions.perfect_ranking(float(given.rows["correct"].to_numpy().mean()), risk)
    return Decided(
        certificate,
        abstaining_policy(certificate, **known),
        given.left_out,
        {"coverage": certificate.coverage, "perfect_ranking": perfect},
        held_out,
        splits,
        certificate_lines(certificate, perfect, held_out, splits),
        [
            mixture_warning(file, where, per_question, given.questions),
            exceeded(held_out, "risk", risk, "of the answers given are wrong"),
        ],
    )
