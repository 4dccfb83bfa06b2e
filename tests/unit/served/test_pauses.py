"""How long a server asks to be left alone: any header is read, no pause is longer than allowed."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.served.pauses import asked_pause

LONGEST = 100.0


@pytest.mark.parametrize(
    "header, seconds", [("7", 7), ("0", 0), ("00012", 12), ("101", 100), ("9" * 5000, 100)]
)
def test_a_number_is_seconds(header: str, seconds: float) -> None:
    assert asked_pause(header, LONGEST) == seconds


def test_a_date_is_the_time_until_then() -> None:
    def at(seconds: float) -> float:
        return asked_pause(format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), True), LONGEST)

    assert (at(-60), at(3600)) == (0, LONGEST)
    assert 0 < at(60) <= 60


@pytest.mark.parametrize(
    "header",
    [
        "",
        "soon",
        "-5",
        "1e9",
        "7.5",
        "²",
        "Wed, 99 Oct 2995 07:28:00 GMT",
        f"Wed, 21 Oct {'9' * 30} 07:28:00 GMT",
    ],
)
def test_anything_else_is_no_pause(header: str) -> None:
    assert asked_pause(header, LONGEST) == 0


@given(st.text(st.sampled_from("0123456789+-:, GMTWedOct"), max_size=60))
def test_no_header_breaks_it(header: str) -> None:
    assert 0 <= asked_pause(header, LONGEST) <= LONGEST
