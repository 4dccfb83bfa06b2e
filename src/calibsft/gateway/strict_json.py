"""Read and write strict JSON: what is read can be written again, and any program can read that.

Python's own reader also takes NaN, numbers beyond the range of floats, and any depth. Its writer then fails, or writes what
others cannot read.
"""

import json
from itertools import chain
from math import isfinite
from typing import Any

DEEPEST = 100


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError if it is not JSON or nested too deeply."""
    try:
        value = _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        level = list(chain.from_iterable(map(_children, level)))
        if not level:
            return value
    raise ValueError("nested too deeply")


def write_json(value: Any) -> bytes:
    """`value` as JSON in UTF-8; half a character, which UTF-8 cannot hold, stays escaped."""
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


# Made once, since making them takes longer than reading or writing a request.
_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
