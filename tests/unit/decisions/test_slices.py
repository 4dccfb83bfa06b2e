"""Parts of the responses: their counts and rates, and which of them fail beyond chance."""

import polars as pl
import pytest

from calibsft.decisions.slices import Slice, failing, slices_of
from calibsft.errors import InputError

ROWS = pl.DataFrame(
    {
        "dataset": ["a", "a", "a", "b", "b", None],
        "acted_on": [True, True, False, True, False, False],
        "event": [True, False, False, False, False, False],
    }
)


@pytest.mark.parametrize("of_all, rates", [(False, [None, 0.5, 0.0]), (True, [0.0, 1 / 3, 0.0])])
def test_every_value_of_a_column_is_a_part(of_all: bool, rates: list[float | None]) -> None:
    found = slices_of(ROWS, ["dataset"], of_all)
    assert [(s.value, s.responses, s.acted_on, s.events) for s in found] == [
        ("", 1, 0, 0), ("a", 3, 2, 1), ("b", 2, 1, 0),
    ]  # fmt: skip
    assert [s.rate for s in found] == rates


def part(events: int, acted_on: int) -> Slice:
    return Slice(
        column="x", value="v", responses=1000, acted_on=acted_on, events=events, rate=events / acted_on
    )


def test_only_a_rate_that_chance_does_not_explain_is_named() -> None:
    parts = [part(10, 100), part(14, 100), part(25, 100), part(1, 2)]
    assert failing(parts, 0.1, False) == [parts[2]]
    assert failing(parts, 0.01, True) == [parts[2]]


def test_a_column_with_too_many_values_is_refused() -> None:
    rows = pl.DataFrame({"id": range(60), "acted_on": [True] * 60, "event": [False] * 60})
    with pytest.raises(InputError, match=r"column 'id' has 60 values .*--slices"):
        slices_of(rows, ["id"], False)
