"""Tables of plain text: aligned, whole, and inert whatever their cells say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from calibsft.text_table import table_lines


def test_names_stand_left_and_numbers_right() -> None:
    rows = [("", "n", "ECE"), ("all rows", "1,000", "0.1"), ("b", "3", "0.1234")]
    assert table_lines(rows) == [
        "              n     ECE",
        "all rows  1,000     0.1",
        "b             3  0.1234",
    ]
    assert table_lines(rows[1:], left=(1,)) == ["all rows  1,000     0.1", "       b  3      0.1234"]


def test_wide_characters_do_not_shift_the_columns() -> None:
    lines = table_lines([("数据数据", "1"), ("data", "2"), ("e\u0301t", "3")])
    assert {cell_len(line) for line in lines} == {11}


@pytest.mark.parametrize(
    "cell", ["a\nb", "a\tb", "a\x1b[31mb", "a\x9b31mb", "a\u202eb", "a\rb", "a\x00b", "a\u2028b"]
)
def test_a_cell_cannot_break_a_line_or_command_the_terminal(cell: str) -> None:
    lines = table_lines([(cell, "1"), ("other", "2")])
    assert len(lines) == 2 and all(line.isprintable() for line in lines)
    assert cell_len(lines[0]) == cell_len(lines[1])


@pytest.mark.parametrize("cell", ["[red]a[/red]", "[link=file:///]a", ":smile:", "[/]", "**a**"])
def test_markup_is_shown_as_it_is(cell: str) -> None:
    assert table_lines([(cell, "1")]) == [f"{cell}  1"]


def test_a_pipe_gets_whole_lines_however_narrow_the_terminal(tmp_path: Path) -> None:
    name = "x" * 300
    (tmp_path / "s.csv").write_text(f"confidence,correct,dataset\n0.5,1,{name}\n0.9,0,{name}\n")
    narrow = os.environ | {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "calibsft", "score", "s.csv"]
    found = subprocess.run(command, cwd=tmp_path, env=narrow, capture_output=True, text=True, check=True)
    assert "\x1b" not in found.stdout
    header, *_ = lines = found.stdout.splitlines()
    assert any(line.startswith(f"{name}  2  0.5000") for line in lines) and len(header) > 300
