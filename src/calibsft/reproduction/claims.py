"""The paper's claims as data, and what they compare.

A claim is a sentence with checks. A check compares two cells of an experiment, or a cell with a number. Does not judge:
that is `verdicts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeAlias

from calibsft.yaml_text import parse_yaml

FOLDER = Path(__file__).parent
SEPARATOR = " | "

Address: TypeAlias = tuple[str, str]  # the row and the column of a cell


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: `left` is below, above or close to `right`.

    With `times`, below or above so many times `right`; close means that they differ by `margin` at most.
    """

    left: Address
    right: Address | float
    relation: Literal["below", "above", "close"]
    times: float = 1.0
    margin: float = 0.0

    @property
    def cells(self) -> tuple[Address, ...]:
        """The cells that it reads."""
        return (self.left,) if isinstance(self.right, float) else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper that can be true or false here.

    Attributes
    ----------
    source : its section, and the table or figure that it is about.
    untestable : why it cannot be tested here; empty if it can.
    paper_text : what the paper says where it has no numbers in a table.
    """

    id: str
    source: str
    text: str
    experiment: str
    checks: tuple[Check, ...]
    untestable: str = ""
    paper_text: str = ""


@cache
def read_claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    return tuple(_claim(entry) for entry in _read("claims.yaml"))


@cache
def paper_numbers() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The paper's own numbers by experiment, row and column; of a mean with a deviation, the mean."""
    found = _read("paper.yaml")
    return {
        experiment: {
            row: {
                column: number[0] if isinstance(number, list) else number for column, number in cells.items()
            }
            for row, cells in rows.items()
        }
        for experiment, rows in found.items()
        if experiment not in ("roles", "derived")
    }


def _read(name: str) -> Any:
    return parse_yaml((FOLDER / name).read_text(encoding="utf-8"))


def _claim(entry: Mapping[str, Any]) -> Claim:
    about = [f"{kind} {entry[kind]}" for kind in ("table", "figure") if kind in entry]
    return Claim(
        id=entry["id"],
        source=", ".join([entry["section"], *about]),
        text=entry["claim"],
        experiment=entry["experiment"],
        checks=tuple(check for written in entry["checks"] for check in _expanded(written)),
        untestable=entry.get("untestable", ""),
        paper_text=entry.get("paper_text", ""),
    )


def _expanded(written: Mapping[str, Any]) -> Iterator[Check]:
    """The checks that one entry stands for: one for each combination of the values of its placeholders."""
    values = {name: list(given) for name, given in written.get("for", {}).items()}
    for chosen in product(*values.values()):
        filled = dict(zip(values, chosen, strict=True))
        right = written["right"]
        yield Check(
            left=_address(written["left"].format(**filled)),
            right=_address(right.format(**filled)) if isinstance(right, str) else float(right),
            relation=written["is"],
            times=float(written.get("times", 1)),
            margin=float(written.get("margin", 0)),
        )


def _address(text: str) -> Address:
    row, column = text.split(SEPARATOR)
    return row, column
