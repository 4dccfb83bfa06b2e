"""Tables as lines of text: aligned alike in a terminal, a pipe and a file; or a row of Markdown.

Cells may be foreign text: they are made inert and stay whole, however narrow the terminal is. Only the width of characters is
taken from rich, whose own tables need 8 KB and half a millisecond for each row: too much for a file with 100,000 datasets.
"""

from collections.abc import Container, Iterable, Sequence

from rich.cells import cell_len

from calibsft.text import printable

GAP = "  "


def table_lines(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """Rows of equally many cells, the header among them, as aligned lines.

    Parameters
    ----------
    left : the columns that are aligned to the left; the others hold numbers.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = [_aligned(column, i in left) for i, column in enumerate(zip(*cells, strict=True))]
    return [GAP.join(row).rstrip() for row in zip(*columns, strict=True)]


def markdown_row(cells: Iterable[str]) -> str:
    """Cells that are already escaped, as a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def _aligned(column: Sequence[str], left: bool) -> list[str]:
    width = max(map(cell_len, column))
    spaces = [" " * (width - cell_len(cell)) for cell in column]
    return [cell + space if left else space + cell for cell, space in zip(column, spaces, strict=True)]
