r"""Remove percent signs and units from the end of a value, and compare well-known units.

The text after a number is a unit if it is set as text, a usual abbreviation, or words. A value without a unit agrees
with any unit. Does not convert: `1 m` and `100 cm` are different answers, and so are `5 m` and `5 cm`.
"""

import re
from collections import Counter

from calibsft.verify.math.words import CHANGED

_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\{\s*(?:percent|percentage|pct)\s*\}|(?<![A-Za-z])(?:percent(?:age)?|pct))$"
)
_POWER = r"(?:\s*\^\s*(?:\d|\{\s*-?\d\s*\}))?"
_SHORT = (
    r"(?:sq\.? |cu\.? )?(?:[cmkd]m|in|ft|yd|mi|[mk]?g|lbs?|oz|min|hrs?|ms|ml|mL|kmh|kph|mph|rad|[kMG]?Hz|[kMG]?Pa|k?J"
    r"|k?W|mol)"
)
# Without a space before them these could be products of variables.
_SPACED = r"(?:[kMG]?eV|ergs?|AU|[kM]?pc|[kM]N|[mkM][VA]|[mM]W|nm|\\mu\s*[mgsVAF]|[ÅÅ]|k?cal|atm|psi|USD|EUR|GBP|yen)"
_LETTER = r"[msghLNJWVKA]"
_TEXT = r"\\text\{(?:[^{}\d^]|\^-?\d)*\}"
_NEXT = rf"(?:{_TEXT}|{_SHORT}|{_SPACED}|{_LETTER}){_POWER}"
_MORE = rf"(?:(?:\s*/\s*|\s*\\cdot\s*| ){_NEXT})*"
_UNIT = re.compile(
    r"(?:(?<=[\d)}])|(?<=\\pi))(?:"
    rf"\s*(?:{_TEXT}{_POWER}{_MORE}|\^\\circ(?:\s*[CF])?|{_SHORT}{_POWER}{_MORE}|[€£¥])"
    rf"|\s+{_SPACED}{_POWER}{_MORE}"
    rf"| (?P<words>(?:sq\. |cu\. )?[A-Za-z]+(?: [A-Za-z]+)*){_POWER})$",
    re.ASCII,
)
# One letter may be a variable, and three letters may be a product; so these count only where the gold is a number.
_LETTER_UNIT = re.compile(
    rf"(?<=[\d}}])(?: {_LETTER}{_POWER}{_MORE}|\s*m{_POWER}| [b-df-hj-np-tv-z][aeiou][b-df-hj-np-tv-z])$",
    re.ASCII,
)
# Like the words that change a value, the others may begin another statement about it.
_NO_UNIT = re.compile(
    rf"{CHANGED.pattern}|(?i:(?<![a-z])(?:and|to|times|by|is|are|was|were|when|where|pi|score|then)(?![a-z]))"
)
_SHORTEST_WORD = 4
_NAMES = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "dm": "decimeter", "m": "meter metre",
    "km": "kilometer kilometre", "nm": "nanometer nanometre", "in": "inch inche", "ft": "foot feet", "yd": "yard",
    "mi": "mile", "mg": "milligram", "g": "gram", "kg": "kilogram", "lb": "pound", "oz": "ounce", "ml": "mL milliliter millilitre",
    "L": "l liter litre", "s": "sec second", "ms": "millisecond", "min": "minute", "h": "hr hour", "day": "", "week": "",
    "month": "", "year": "yr", "cent": "", "dollar": "USD", "euro": "EUR €", "GBP": "£", "yen": "¥", "deg": "degree", "rad": "radian",
    "degC": "", "degF": "", "Hz": "hertz", "kHz": "", "MHz": "", "GHz": "", "N": "newton", "kN": "", "J": "joule", "kJ": "",
    "W": "watt", "kW": "kilowatt", "MW": "", "V": "volt", "mV": "", "kV": "", "A": "amp ampere", "mA": "", "K": "kelvin",
    "Pa": "pascal", "kPa": "", "MPa": "", "GPa": "", "eV": "", "keV": "", "MeV": "", "GeV": "", "erg": "", "mol": "mole",
    "pc": "parsec", "kpc": "", "Mpc": "", "AU": "",
}  # fmt: skip
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in (unit, *names.split())}
_QUOTIENTS = {"mph": ("mi", "h"), "kmh": ("km", "h"), "kph": ("km", "h")}
_TEMPERATURE = re.compile(
    r"(?:\^\\circ|degrees?)\s*(?:([CF])(?![a-z])|([CF])(?:elsius|ahrenheit))", re.IGNORECASE
)
_SYNTAX = re.compile(r"\\text|[{}]|\\cdot")
_TOKEN = re.compile(r"[A-Za-z€£¥]+|\^\s*(-?\d)|/")
_RAISING = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def split_percent(text: str) -> tuple[str, bool]:
    """The text before a final percent sign, and whether there was one."""
    bare = _PERCENT.sub("", text)
    return bare, bare != text


def split_unit(text: str) -> tuple[str, str]:
    """The text before a final unit, and the unit as written; an empty unit if there is none."""
    found = _UNIT.search(text)
    if found is None or not text[: found.start()].strip() or _NO_UNIT.search(found[0]):
        return text, ""
    if found["words"] and max(map(len, found["words"].split())) < _SHORTEST_WORD:
        return text, ""
    return text[: found.start()].strip(), found[0]


def split_letter_unit(text: str) -> tuple[str, str]:
    """The same for units that may also be variables; for use only if the other side shows that they are units."""
    found = _LETTER_UNIT.search(text)
    if found is None or _NO_UNIT.search(found[0]):
        return text, ""
    return text[: found.start()], found[0]


def different_units(first: str, second: str) -> bool:
    """Whether both are well-known units and differ."""
    dimensions = _dimensions(first), _dimensions(second)
    return None not in dimensions and dimensions[0] != dimensions[1]


def same_unit(first: str, second: str) -> bool:
    """Whether both are the same well-known unit."""
    return known_unit(first) and _dimensions(first) == _dimensions(second)


def known_unit(unit: str) -> bool:
    """Whether `unit` consists of well-known units."""
    return _dimensions(unit) is not None


def _dimensions(unit: str) -> Counter[str] | None:
    """The powers of the well-known units in `unit`; None if there are other words, or no units."""
    unit = _TEMPERATURE.sub(lambda m: f" deg{(m[1] or m[2]).upper()} ", unit).replace(r"^\circ", " deg ")
    powers: Counter[str] = Counter()
    sign, raised, last = 1, 1, ("", 0)
    for token in _TOKEN.finditer(_SYNTAX.sub(" ", unit)):
        word = token[0]
        if word in ("/", "per"):
            sign = -1
        elif word in _RAISING:
            raised = _RAISING[word]
        elif token[1]:
            powers[last[0]] += last[1] * (int(token[1]) - 1)
        else:
            names = _named(word)
            if not names:
                return None
            for position, name in enumerate(names):
                powers[name] += sign * raised * (-1 if position else 1)
            sign, raised, last = 1, 1, (names[0], sign * raised)
    return powers if powers else None


def _named(word: str) -> tuple[str, ...]:
    """The unit that a word means, or the two units of a quotient; empty if it is not well known."""
    if word.lower() in _QUOTIENTS:
        return _QUOTIENTS[word.lower()]
    for spelling in (word, word.lower(), word.lower().removesuffix("s")):
        if spelling in _CANONICAL:
            return (_CANONICAL[spelling],)
    return ()
