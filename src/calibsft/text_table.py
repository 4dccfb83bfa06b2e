"""Tables as plain lines of text, aligned alike in a terminal, a pipe and a file.

Cells may be foreign text: they are made inert and stay whole, however narrow the terminal is. Only the width of characters is
taken from rich, whose own tables need 8 KB and half a millisecond for each row: too much for a file with 100,000 datasets.
"""

from collections.abc import Container, Sequence

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
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return [
        GAP.join(
            _padded(cell, width, i in left) for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _padded(cell: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(cell))
    return cell + space if left else space + cell
