"""Read a user's own file - CSV, JSONL or Parquet, plain or gzipped - into a checked table.

Every complaint names the file, the row (1-based, the header not counted) and the way out. Does not
interpret model text: that is `responses`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import polars as pl

from calibsft.errors import InputError

TRUE_WORDS = ("true", "1", "1.0", "yes", "correct")
FALSE_WORDS = ("false", "0", "0.0", "no", "incorrect")


def read_table(path: Path, required: Sequence[str] = ()) -> pl.DataFrame:
    """Load `path` and make sure that it has rows and the `required` columns.

    Ids are read as text so that 007 and 7 stay different.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a .csv, .jsonl or .parquet file")
    frame = _load(path)
    if frame.is_empty():
        raise InputError(f"{path}: the file has no rows; write at least one response into it")
    for column in required:
        if column not in frame.columns:
            near = get_close_matches(column, frame.columns, n=1)
            hint = f" (there is '{near[0]}': rename it)" if near else ""
            raise InputError(
                f"{path}: column '{column}' is missing{hint}; the file needs {', '.join(required)}"
                f" and has {', '.join(frame.columns)}"
            )
        require_filled(path, frame, column)
    ids = [name for name in ("question_id", "dataset") if name in frame.columns]
    return frame.with_columns(pl.col(ids).cast(pl.String))


def _load(path: Path) -> pl.DataFrame:
    kind = path.name.lower().removesuffix(".gz")
    try:
        if kind.endswith(".parquet"):
            return pl.read_parquet(path)
        if kind.endswith(".csv"):
            return pl.read_csv(
                path,
                infer_schema_length=None,
                schema_overrides={"question_id": pl.String, "dataset": pl.String},
            )
        if kind.endswith((".jsonl", ".ndjson")):
            return pl.read_ndjson(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise InputError(
            f"{path}: cannot be read as {path.suffix}: {first_line}; mend or convert the file"
        ) from error
    raise InputError(f"{path}: unknown file type '{path.suffix}'; use .csv, .jsonl or .parquet")


def row_of(mask: pl.Series) -> int:
    """The 1-based number of the first row for which `mask` holds."""
    found = mask.fill_null(False).arg_max()
    assert found is not None, "row_of needs a mask with rows"
    return found + 1


def require_filled(path: Path, frame: pl.DataFrame, column: str) -> None:
    """Refuse empty cells in `column`."""
    empty = frame[column].is_null()
    if empty.any():
        raise InputError(
            f"{path}, row {row_of(empty)}: '{column}' is empty ({empty.sum()} such rows); fill it or remove the row"
        )


def boolean_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as booleans, accepting 0/1, true/false, yes/no and correct/incorrect in any case."""
    values = frame[column]
    if values.dtype == pl.Boolean:
        return values
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    true, false = words.is_in(TRUE_WORDS), words.is_in(FALSE_WORDS)
    wrong = ~(true | false).fill_null(False)
    if wrong.any():
        row = row_of(wrong)
        raise InputError(
            f"{path}, row {row}: {column} '{values[row - 1]}' is neither true nor false"
            f" ({wrong.sum()} such rows); write true or false"
        )
    return true.rename(column)
