"""JSON as the standard has it, both ways: what is read can always be written again, and by anyone.

Python's own reader also takes NaN, numbers beyond all bounds and any depth, and its writer then fails or writes what others
cannot read.
"""

import json
from itertools import chain
from math import isfinite
from typing import Any

DEEPEST = 100


def read_json(text: str | bytes) -> Any:
    """What a text holds; a ValueError if that is not JSON, or nested too deeply."""
    try:
        value = _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        level = list(chain.from_iterable(map(_inside, level)))
        if not level:
            return value
    raise ValueError("nested too deeply")


def write_json(value: Any) -> bytes:
    """`value` in UTF-8; half a character, which has no place there, stays escaped."""
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _no_number(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity


# Made once: making them takes longer than reading or writing a request.
_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
