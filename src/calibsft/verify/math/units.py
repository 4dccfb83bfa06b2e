r"""Take percent signs and units off the end of a value.

Does not convert: `1 m` and `100 cm` are different answers, as are `5 m` and `5 cm`, while a value without a
unit agrees with any. What follows a number is a unit if it is set as text, a usual abbreviation, or words.
"""

import re

_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\{\s*(?:percent|percentage|pct)\s*\}|(?<![A-Za-z])(?:percent(?:age)?|pct))$"
)
_POWER = r"(?:\s*\^\s*(?:\d|\{\s*-?\d\s*\}))?"
_SHORT = r"(?:sq\.? |cu\.? )?(?:[cmkd]m|in|ft|yd|mi|[mk]?g|lbs?|oz|min|hrs?|ms|ml|mL|kmh|mph|rad|k?Hz|k?Pa|k?J|k?W|mol)"
_UNIT = re.compile(
    r"(?:(?<=[\d)}])|(?<=\\pi))(?:"
    rf"\s*(?:\\text\{{[^{{}}\d]*\}}{_POWER}|\^\\circ(?:\s*[CF])?|{_SHORT}{_POWER}(?:/(?:s|h|{_SHORT}){_POWER})?|[€£¥])"
    r"| (?P<words>[A-Za-z]+(?: [A-Za-z]+)*))$",
    re.ASCII,
)
_LETTER_UNIT = re.compile(rf"(?<=[\d}}])(?: (?:[msghLNJWVKA]|m/s|km/h){_POWER}|\s*m{_POWER})$", re.ASCII)
# After a number, these change its value, deny it, or join it to another one.
_NOT_A_UNIT = re.compile(
    r"(?i:(?<![a-z])(?:or|and|to|times|plus|minus|over|by|squared|cubed|factorial|hundred|thousand|million|billion"
    r"|trillion|dozen|half|third|two|three|four|five|six|seven|eight|nine|ten|not?|nor|never|but|is|are|was|if|when"
    r"|where|unless|except|mod|less|more|than|pi|wrong|false|incorrect)(?![a-z]))"
)
_SHORTEST_WORD = 4
_NAMES = {
    "mm": ("millimeter", "millimetre"),
    "cm": ("centimeter", "centimetre"),
    "m": ("meter", "metre"),
    "km": ("kilometer", "kilometre"),
    "in": ("inch", "inche"),
    "ft": ("foot", "feet"),
    "yd": ("yard",),
    "mi": ("mile",),
    "g": ("gram",),
    "kg": ("kilogram",),
    "s": ("sec", "second"),
    "min": ("minute",),
    "h": ("hr", "hour"),
    "day": (),
    "week": (),
    "month": (),
    "year": (),
    "cent": (),
    "dollar": (),
}
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in (unit, *names)}
_LETTERS = re.compile(r"[A-Za-z]+")


def split_percent(text: str) -> tuple[str, bool]:
    """The text before a final percent sign, and whether there was one."""
    bare = _PERCENT.sub("", text)
    return bare, bare != text


def split_unit(text: str) -> tuple[str, str]:
    """The text before a final unit, and the unit as it is written; empty if there is none."""
    found = _UNIT.search(text)
    if found is None or not text[: found.start()].strip() or _NOT_A_UNIT.search(found[0]):
        return text, ""
    if found["words"] and max(map(len, found["words"].split())) < _SHORTEST_WORD:
        return text, ""
    return text[: found.start()].strip(), found[0]


def different_units(first: str, second: str) -> bool:
    """Whether both are well-known units, and not the same."""
    names = _name(first), _name(second)
    return None not in names and names[0] != names[1]


def without_letter_unit(text: str) -> str:
    """The text before a unit of one letter, which may as well be a variable: only for answers to numbers."""
    return _LETTER_UNIT.sub("", text)


def _name(unit: str) -> str | None:
    words = _LETTERS.findall(unit.replace(r"\text", "").lower())
    word = words[0] if len(words) == 1 else ""
    return _CANONICAL.get(word) or _CANONICAL.get(word.removesuffix("s"))
