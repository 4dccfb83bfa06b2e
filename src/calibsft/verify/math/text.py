r"""Bring an answer's text into one notation: a single line of bare LaTeX.

Removes what is not mathematics - invisible characters, prose (by `prose`), layout commands - and rewrites Unicode signs,
e-notation and plain-text functions as LaTeX. Does not split lists (`lists`) or read values (`numbers`, `algebra`). Every
step takes time linear in the text, or works on texts within `limits`.
"""

import re
import unicodedata
from functools import lru_cache

from calibsft.text import visible
from calibsft.verify.math.prose import unwrap, without_confidence
from calibsft.verify.math.words import LINK

_SIGNS = str.maketrans(
    {sign: f" {latex} " if latex.startswith("\\") else latex for sign, latex in (
        ("π", r"\pi"), ("θ", r"\theta"), ("α", r"\alpha"), ("β", r"\beta"), ("γ", r"\gamma"),
        ("λ", r"\lambda"), ("μ", r"\mu"), ("φ", r"\phi"), ("ω", r"\omega"), ("∞", r"\infty"),
        ("×", r"\times"), ("·", r"\cdot"), ("⋅", r"\cdot"), ("∙", r"\cdot"), ("÷", "/"), ("⁄", "/"),
        ("−", "-"), ("–", "-"), ("—", "-"), ("±", r"\pm"), ("∓", r"\mp"), ("√", "sqrt"), ("∛", r"\sqrt[3]"), ("≈", r"\approx"),
        ("≤", r"\le"), ("⩽", r"\le"), ("≥", r"\ge"), ("⩾", r"\ge"), ("≠", r"\ne"), ("∈", r"\in"),
        ("∪", r"\cup"), ("∩", r"\cap"), ("∅", r"\emptyset"), ("⌀", r"\emptyset"), ("ℝ", r"\mathbb{R}"), ("°", r"^\circ"),
        ("Å", "Å"), ("′", "'"), ("’", "'"), ("，", ","), ("；", ";"), ("（", "("), ("）", ")"), ("％", "%"), ("∠", r"\angle"),
    )}
)  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", strict=True))
_RAISED_RUN, _LOWERED_RUN = (re.compile(f"[{''.join(signs)}]+") for signs in (_RAISED, _LOWERED))
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_SLASHED = re.compile("(.+)⁄(.+)")

_MONEY = {
    "¤": "dollars",
    "USD": "dollars",
    "€": "euros",
    "EUR": "euros",
    "£": "GBP",
    "GBP": "GBP",
    "¥": "yen",
}
_CURRENCY = re.compile("|".join(_MONEY))
_PRICE = re.compile(
    rf"({'|'.join(_MONEY)}) ?(\d[\d,]*(?<!,)(?:\.\d+)?(?: (?:thousand|million|billion|trillion)(?![a-z]))?)"
    r"(?![\d^_/]|,\d|\.\d|\s*[-+*/^\\]| dollars| euros)",
    re.ASCII,
)

_ESCAPED_TWICE = re.compile(r"\\\\(?=[A-Za-z])")
_FONT = re.compile(r"\\(?:text(?:bf|it|rm|normal|sf|tt)?|math(?:rm|bf|it|sf|tt)|mbox|hbox|operatorname)\s*\{")
_WHOLE_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_LINK_TEXT = re.compile(r"\\text\{\s*(and|or)\s*\}", re.IGNORECASE)
_ONE_LETTER_TEXT = re.compile(r"\\text\{([A-Za-z])\}")
_LAYOUT = re.compile(
    r"(?<!\\)\\[,;: ]|(?<!\\)~|\\q?quad|\\displaystyle|\\limits|\\(?:left|right)(?![a-z])\.?|\\[bB]igg?[lr]?(?![a-z])"
)
_SYNONYMS = (
    (re.compile(r"\\[dtc]frac(?![a-z])"), r"\\frac"),
    (re.compile(r"\\(?:leqslant|leq|le)(?![a-z])|<="), r"\\le "),
    (re.compile(r"\\(?:geqslant|geq|ge)(?![a-z])|>="), r"\\ge "),
    (re.compile(r"\\neq?(?![a-z])|!="), r"\\ne "),
    (re.compile(r"\\lt(?![a-z])"), "<"),
    (re.compile(r"\\gt(?![a-z])"), ">"),
    (re.compile(r"\\(?:langle|lparen)(?![a-z])"), "("),
    (re.compile(r"\\(?:rangle|rparen)(?![a-z])"), ")"),
    (re.compile(r"\\lbrace(?![a-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-z])"), r"\\}"),
    (re.compile(r"\\(?:degree|deg)(?![a-z])"), r"^\\circ "),
    (re.compile(r"\^\s*\{\s*\\circ\s*\}"), r"^\\circ "),
    (re.compile(r"\\varnothing(?![a-z])|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"^(?:the set of )?(?:all )?real numbers$|^all reals$", re.IGNORECASE), r"\\mathbb{R}"),
    (re.compile(r"(?<=[)\]}]) ?U ?(?=[(\[\\{])"), r" \\cup "),
    (re.compile(r"(?<=\d) ?[xX] ?(?=10 ?\^)"), r" \\times "),
    (re.compile(r"(?<=10)\^([+-]?\d{2,4})(?!\d)"), r"^{\1}"),
    (re.compile(r"(?<=\d)\.(?=\s*/)"), ""),
    (re.compile(r"\\sqrt\s*\[3\]\s*(\d+)"), r"\\sqrt[3]{\1}"),
    (re.compile(r"(?<![A-Za-z\\])(?:np\.|math\.)(?=[a-z])"), ""),
    (re.compile(r"(?<![A-Za-z\\])sqrt(?![A-Za-z])"), r"\\sqrt "),
    (re.compile(r"(?<![A-Za-z\\])(?:infinity|inf|oo)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"(?<![A-Za-z\\])(arc(?:sin|cos|tan)|sin|cos|tan|cot|log|ln|exp|pi|theta)(?![A-Za-z])"), r"\\\1 "),
    (re.compile(r"(?<![A-Za-z\\])(sec|csc)(?=\s*[(\\]|\s+[a-z](?![a-z]))"), r"\\\1 "),
    (re.compile(r"\\sqrt\s+(\d+)"), r"\\sqrt{\1}"),
    (re.compile(r"\\sqrt(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac\s*(\d)\s*\{"), r"\\frac{\1}{"),
    (re.compile(r"\\frac\s*\{([^{}]*)\}\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"_\s*\{?\s*\\(odot|oplus|ast|star|perp|parallel|max|min)(?![a-z])\s*\}?"), r"_{\1}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\*"), r"\\cdot "),
)  # fmt: skip
_DOUBLED = re.compile(r"\(\s*(\([^()]*\))\s*\)")
_ARGUMENT = re.compile(r"(?:\\sqrt|\^)\s*\(")
_TEX_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\! ?)(?=\d{3}(?!\d))", re.ASCII)
_MIXED = re.compile(r"(?<![\d.^_/])(\d+) (\d+)/(\d+)(?![\d.])", re.ASCII)
_E_NOTATION = re.compile(r"(?<![\w.\\])(\d+\.?\d*|\.\d+)[eE]([+-]?\d{1,3})(?![\w.{^])", re.ASCII)
_IDLE_SPACE = re.compile(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])")
_ONE_CHARACTER = re.compile(r"([_^])\{([0-9A-Za-z])\}")


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """The answer as one line of bare LaTeX in one notation; may be empty."""
    text = without_confidence(" ".join(visible(text).split()))
    if r"\begin" not in text:
        text = _ESCAPED_TWICE.sub(r"\\", text)
    text = _prices(_from_unicode(text))
    while (inner := unwrap(text)) != text:
        text = inner
    text = _latex(text.replace("$", ""))
    while (flat := _DOUBLED.sub(r"\1", text)) != text:
        text = flat
    return _E_NOTATION.sub(lambda m: rf"{m[1]} \times 10^{{{int(m[2])}}}", text)


def squeeze(text: str) -> str:
    """Clean text in the form in which texts are compared: without needless spaces and braces."""
    return _ONE_CHARACTER.sub(r"\1\2", _IDLE_SPACE.sub("", text))


def _from_unicode(text: str) -> str:
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda m: "^{" + "".join(_RAISED[c] for c in m[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda m: "_{" + "".join(_LOWERED[c] for c in m[0]) + "}", text)
    text = _VULGAR.sub(lambda m: _SLASHED.sub(r"\\frac{\1}{\2}", unicodedata.normalize("NFKC", m[0])), text)
    return text.translate(_SIGNS)


def _prices(text: str) -> str:
    """Write a price as `5 dollars` if `$` is a currency sign and not a delimiter."""
    text = text.replace(r"\$", "¤")
    if text.count("$") == 1:
        text = text.replace("$", "¤")
    elif text.count("$") % 2:
        text = text.replace("$", "")
    if _CURRENCY.search(text) is None:
        return text
    text = _PRICE.sub(lambda m: f"{m[2]} {_MONEY[m[1]]}", _TEX_COMMA.sub("", text))
    return text.replace("¤", "")


def _latex(text: str) -> str:
    """The same text with one spelling for each command, and with LaTeX for plain-text functions."""
    text = _FONT.sub(r"\\text{", _TEX_COMMA.sub("", text)).replace(r"\!", "")
    text = _LAYOUT.sub(" ", text)
    text = _LINK_TEXT.sub(r" \1 ", text)
    whole = _WHOLE_TEXT.fullmatch(text.strip())
    if whole and (LINK.search(whole[1]) or re.search(r"\d", whole[1])):
        text = whole[1]
    elif not whole:
        text = _ONE_LETTER_TEXT.sub(r"\1", text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    for spelling, usual in _SYNONYMS:
        text = spelling.sub(usual, text)
    return " ".join(_brace_arguments(text).split())


def _brace_arguments(text: str) -> str:
    """Write `x^(n+1)` and `sqrt(n+1)` with braces; without them LaTeX would not read the whole argument."""
    starts = {found.end() - 1 for found in _ARGUMENT.finditer(text)}
    characters, opened = list(text), []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")" and opened and (start := opened.pop()) in starts:
            characters[start], characters[position] = "{", "}"
    return "".join(characters)
