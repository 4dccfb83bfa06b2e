"""Which columns a user's table must have, and what identifies its responses where the file leaves that out."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import polars as pl

from calibsft.errors import InputError, did_you_mean
from calibsft.files.cells import Fault, boolean_column, refuse_where, shown, text_column
from calibsft.files.dialect import OUR_COLUMNS, OURS, Dialect, columns_option, recognised
from calibsft.schema import KEYS, QUESTION_KEYS

# Never numbers, whatever they look like: 007 is not 7, and a gold of 3 beside one of 0.5 is not 3.0.
TEXT_COLUMNS = (
    "question_id", "dataset", "question", "response", "gold", "kind", "split", "answer", "tolerance",
)  # fmt: skip
LARGEST_SAMPLE = 2**31 - 1
REMEDY = "number the samples of a question 0, 1, …, or leave the column out"


def require_columns(
    path: Path, names: Sequence[str], columns: Sequence[str], dialect: Dialect | None = None
) -> None:
    """Refuse a table with columns `names` that lacks one of `columns`, naming one that it probably is.

    Under a `dialect`, `names` are the file's own and `columns` ours; the complaint then has the option that corrects it.
    """
    spoken = dialect or OURS
    missing = [column for column in dict.fromkeys(columns) if spoken.theirs(column) not in names]
    if not missing:
        return
    _refuse_odd_header(path, names)
    _refuse_unknown_name(path, names, missing, spoken)
    there = _probably(missing, [name for name in names if name not in columns])
    if len(there) < len(missing):
        _refuse_ungraded(path, names, missing, spoken)
    ours = {column: name for column, name in there.items() if column in OUR_COLUMNS}
    if dialect is not None and ours:
        _refuse_other_names(path, ours)
    hint = f" (there is '{there[missing[0]]}': rename it)" if missing[0] in there else ""
    raise InputError(
        f"{path}: column '{missing[0]}' is missing{hint}; the file needs {', '.join(columns)}"
        f" and has {', '.join(names)}"
    )


def _probably(missing: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The columns among `names` that are probably the missing ones, by our names."""
    there: dict[str, str] = {}
    for column in missing:
        free = [name for name in names if name not in there.values()]
        if found := recognised(column, free) or next(iter(get_close_matches(column, free, n=1)), None):
            there[column] = found
    return there


def _refuse_other_names(path: Path, there: Mapping[str, str]) -> NoReturn:
    ours, theirs = (" and ".join(f"'{name}'" for name in names) for names in (there, there.values()))
    kind, verb = ("column", "is") if len(there) == 1 else ("columns", "are")
    raise InputError(
        f"{path}: {kind} {ours} {verb} missing, but {theirs} {verb} there; add {columns_option(there)}"
    )


def _refuse_unknown_name(path: Path, names: Sequence[str], missing: Sequence[str], dialect: Dialect) -> None:
    """Refuse an option that names a column which the file does not have."""
    for ours in missing:
        if (theirs := dialect.theirs(ours)) != ours:
            raise InputError(
                f"{path}: column {shown(theirs)} of {columns_option({ours: theirs})} is missing"
                f"{did_you_mean(theirs, names)}; the file has {', '.join(names)}"
            )


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Refuse columns of the same name: nothing says which one is meant. Columns without a name are ignored."""
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: column {shown(repeated)} occurs twice; remove or rename one of them")


def _refuse_odd_header(path: Path, names: Sequence[str]) -> None:
    """Explain names which show that the file is no CSV in UTF-8."""
    header = "".join(names)
    if "\ufffd" in header or "\0" in header:
        raise InputError(f"{path}: not a text file in UTF-8; save it as UTF-8")
    if len(names) == 1 and (mark := next((mark for mark in ";\t|" if mark in header), None)):
        raise InputError(f"{path}: the columns are separated by {mark!r}; save the file with commas")


def _refuse_ungraded(path: Path, names: Sequence[str], missing: Sequence[str], dialect: Dialect) -> None:
    """Point to `verify` where the file has responses and golds, from which it makes what is missing."""
    if missing[0] in ("confidence", "correct") and {*map(dialect.theirs, ("response", "gold"))} <= set(names):
        raise InputError(
            f"{path}: column '{missing[0]}' is missing, but there are responses and golds; grade them first with calibsft verify"
            f" {path} --out verdicts, and give the folder verdicts"
        )


def response_rows(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with dataset, sample and finished, and no two rows for the same sample.

    Without `dataset` all rows belong to one without a name; without `sample` the rows of a question are numbered in file
    order; without `finished` every response is finished.
    """
    if "dataset" not in frame.columns:
        frame = frame.with_columns(pl.lit("").alias("dataset"))
    if "finished" not in frame.columns:
        frame = frame.with_columns(pl.lit(True).alias("finished"))
    frame = frame.with_columns(boolean_column(path, frame, "finished"), _samples(path, frame))
    repeated = frame.select(pl.struct(KEYS).is_duplicated()).to_series()
    if fault := Fault.of(repeated, frame["question_id"]):
        fault.refuse(
            path,
            f"question {{cell}} has more than one row with sample {frame['sample'][fault.row - 1]};"
            " give the samples of a question different numbers, or leave the column out",
        )
    return frame


def _samples(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The numbers of the samples: those of the file, else the rows of a question in file order."""
    if "sample" not in frame.columns:
        return frame.select(pl.int_range(pl.len()).over(QUESTION_KEYS).alias("sample")).to_series()
    given = text_column(path, frame, "sample").str.strip_chars()
    whole = given.str.contains(r"\A[0-9]+(\.0)?\z")
    refuse_where(path, ~whole, given, f"sample {{cell}} is not a whole number ({{rows}} such rows); {REMEDY}")
    numbers = given.str.strip_suffix(".0").cast(pl.Int64, strict=False)
    large = numbers.is_null() | (numbers > LARGEST_SAMPLE)
    refuse_where(path, large, given, f"sample {{cell}} is too large; {REMEDY}")
    return numbers
