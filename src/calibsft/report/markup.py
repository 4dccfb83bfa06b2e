"""What a table is, and how tables and foreign text are written in Markdown.

HTML is written by the template, whose autoescape does this work there. Does not decide what a table contains
(`tables`) nor how a number is rounded.
"""

import html
import re
from dataclasses import dataclass

from calibsft.text import printable
from calibsft.text_table import markdown_row

# A span that begins with this is a standard deviation, not an interval.
DEVIATION = "±"
MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell as plain, unescaped text.

    `best` marks the best of its column, `worse` a change for the worse; `span` is the interval or deviation.
    """

    text: str
    best: bool = False
    worse: bool = False
    span: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to be written. The first `labels` columns name the row, the others are numbers.

    `group` is how many rows belong together, such as the models of one benchmark; 0 for no groups.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1
    note: str = ""
    group: int = 0


def markdown_text(text: str) -> str:
    """`text` so that Markdown shows it as it is: no markup, no HTML, one line."""
    escaped = html.escape(printable(text), quote=False)
    return MARKDOWN_SPECIAL.sub(r"\\\1", escaped)


def markdown_code(text: str, language: str = "") -> str:
    """`text` as a fenced block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text, keep=chr(10)).rstrip()}\n{fence}"


def markdown_table(table: Table) -> str:
    """`table` with its title and note; best cells are bold and numbers right-aligned."""
    header = markdown_row(markdown_text(name) for name in table.header)
    rule = markdown_row("---" if column < table.labels else "---:" for column in range(len(table.header)))
    body = [markdown_row(_cell(cell) for cell in row) for row in table.rows]
    parts = [f"**{markdown_text(table.title)}**", "\n".join([header, rule, *body])]
    return "\n\n".join([*parts, markdown_text(table.note)] if table.note else parts)


def _cell(cell: Cell) -> str:
    text = markdown_text(cell.text)
    text = f"**{text}**" if cell.best else text
    if cell.span.startswith(DEVIATION):
        return f"{text} {markdown_text(cell.span)}"
    return f"{text} ({markdown_text(cell.span)})" if cell.span else text
