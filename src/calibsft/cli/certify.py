"""`calibsft certify`: the threshold above which the model may answer, with a guarantee."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from calibsft.cli.decision_command import (
    Decision,
    DecisionOptions,
    decide,
    exceeded,
    failing_parts,
    known_of,
    parts_of_policy,
    reaches,
)
from calibsft.decisions.guarantees import EXPECTATION, require_guarantee
from calibsft.errors import InputError
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where


def certify(
    file: Annotated[
        Path,
        Argument(
            help="CSV, JSONL or Parquet with question_id, confidence, correct (and optionally dataset, well_formed); or a"
            " folder that `calibsft verify` or `calibsft eval` wrote."
        ),
    ],
    risk: Annotated[
        float, Option(metavar="RATE", help="Largest error rate among the answers given, e.g. 0.1.")
    ],
    **given: Any,
) -> None:
    """Find the confidence threshold above which few answers are wrong, with a guarantee.

    ```sh
    calibsft certify responses.csv --risk 0.1
    calibsft certify eval --risk 0.05 --policy policy.json
    ```

    Finds the lowest threshold whose error rate is at most --risk, with probability 1 − --delta, for questions like these.
    If there is none, the policy abstains on everything. Prints results on held-out halves and writes a policy file, which
    `calibsft serve` acts on.
    """
    options = DecisionOptions(**given)
    if options.guarantee == EXPECTATION:
        raise InputError(
            "an error rate can be kept in expectation for a batch of answers only, not by a threshold: calibsft select"
            f" {file} BATCH --risk {risk:g} says which of them to keep"
        )
    require_guarantee(options.guarantee)
    dialect = Dialect.of(options.columns, options.scale, [file])
    decide(file, options, dialect, lambda rows: _decide(file, rows, risk, options, dialect))


def _decide(file: Path, where: Where, risk: float, options: DecisionOptions, dialect: Dialect) -> Decision:
    """The certificate for the rows that `where` selects."""
    from calibsft import decisions
    from calibsft.decisions.files import read_calibration
    from calibsft.decisions.policy import abstaining_policy
    from calibsft.decisions.repeats import mixture_warning
    from calibsft.report.decisions import certificate_lines

    given = read_calibration(file, options.malformed, where, options.slices or (), dialect)
    known = known_of(given, options)
    responses = given.rows["confidence"], given.rows["correct"], given.questions
    method, choice, seed = (options.delta, options.procedure), options.per_question, options.seed
    certificate = decisions.certify(*responses, risk, *method, choice, seed)
    held_out = {}
    if options.splits and certificate.questions > 1:  # a single question has no halves
        tried = decisions.answered_held_out(*responses, [risk], *method, options.splits, seed, choice)
        found = {"coverage": tried.coverage, "risk": tried.risk}
        held_out = {name: decisions.Spread.of(values.ravel()) for name, values in found.items()}
    perfect = decisions.perfect_ranking(float(given.rows["correct"].to_numpy().mean()), risk)
    answered = reaches(given.rows["confidence"], certificate.threshold)
    slices = parts_of_policy(given.rows, options, answered, answered & ~given.rows["correct"], False)
    return Decision(
        certificate,
        abstaining_policy(certificate, slices=slices, **known),
        given.left_out,
        {"coverage": certificate.coverage, "perfect_ranking": perfect},
        held_out,
        certificate_lines(certificate, perfect, held_out, options.splits),
        [
            mixture_warning(file, where, choice, given.questions, dialect),
            exceeded(held_out, "risk", risk, "of the answers given are wrong"),
            failing_parts(slices, risk, False),
        ],
    )
