"""Judging cells: which columns must be filled, and that messages show names and cells as they are written."""

from pathlib import Path

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.files.cells import NO_BOOLEAN, Fault, boolean_column, require_filled, some
from calibsft.files.reading import read_columns, read_table


def test_braces_in_names_and_cells_are_shown_as_written() -> None:
    frame = pl.DataFrame({"{cell}": ["yes", "{rows}"], "{}": ["a", None]})
    with pytest.raises(InputError) as caught:
        boolean_column(Path("{x}.csv"), frame, "{cell}")
    assert str(caught.value) == (
        "{x}.csv, row 2: {cell} '{rows}' is neither true nor false (1 such rows); write true or false"
    )
    with pytest.raises(InputError, match=r"f\.csv, row 2: '\{\}' is empty \(1 such rows\)"):
        require_filled(Path("f.csv"), frame, "{}")


def test_a_fault_names_the_first_row_and_counts_all() -> None:
    cells = pl.Series("z", ["a", "b", None, "d"])
    fault = Fault.of(pl.Series([None, True, False, True]), cells)
    assert fault == Fault("z", 2, "b", 2)
    assert Fault.of(pl.Series([False, None, False, False]), cells) is None
    with pytest.raises(InputError, match="x, row 2: z 'b' is neither true nor false"):
        fault.refuse(Path("x"), NO_BOOLEAN)


def test_filled_columns_are_checked_where_the_file_has_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question_id,response,kind\na,,math\nb,x,\n")
    required = ("question_id", "response")
    assert read_table(path, required, filled=("question_id", "sample")).height == 2
    with pytest.raises(InputError, match="row 2: 'kind' is empty"):
        read_table(path, required, filled=("question_id", "kind"))
    with pytest.raises(InputError, match="row 1: 'response' is empty"):
        read_table(path, required)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_whole_table_has_types_and_columns_read_in_batches_are_text(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, pl.DataFrame({"confidence": [0.5, 1.0], "correct": [True, False]})
    path.write_text(frame.write_csv() if name.endswith("csv") else frame.write_ndjson())
    assert read_table(path).equals(frame)
    assert set(read_columns(path, ["confidence", "correct", "model"]).dtypes) == {pl.String}


def test_values_are_cut_with_a_sign_that_there_are_more() -> None:
    assert some(["a", "b"], 2) == "'a', 'b'"
    assert some(pl.Series(["a", "b", "c"]), 2) == "'a', 'b', …"
