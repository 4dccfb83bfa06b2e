"""The diagnosis of responses in files and folders."""

from pathlib import Path

from calibsft.errors import InputError
from calibsft.files.dialect import OURS, Dialect
from calibsft.metrics.files import EVERYTHING, ScoredFile
from calibsft.metrics.selection import Where
from calibsft.prior.diagnosis import Diagnosis, diagnose


def diagnose_file(
    path: Path,
    malformed: str | None = None,
    group_size: int = 8,
    where: Where = EVERYTHING,
    dialect: Dialect = OURS,
) -> Diagnosis:
    """The diagnosis of some rows of a file, of a folder of verdicts, or of an evaluation."""
    # Unreadable rows are left out of the prior in both cases; `counted` reads them, so that their share is known.
    policy = "counted" if malformed == "drop" else malformed
    frame = ScoredFile(
        path, policy, where=where, unread_are="are left out of the prior", dialect=dialect
    ).read()
    keys = [name for name in ("dataset", "question_id") if name in frame.columns]
    questions = frame.select(keys).to_struct() if "question_id" in keys else None
    known = "well_formed" in frame.columns
    malformed_share = int((~frame["well_formed"]).sum()) / len(frame) if known else None
    try:
        return diagnose(frame["confidence"], frame["correct"], questions, group_size, malformed_share)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
