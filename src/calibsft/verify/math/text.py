r"""Bring an answer's text into one notation: a single line of bare LaTeX.

Takes off what is not mathematics - invisible characters, prose, boxes, delimiters, layout commands - and
rewrites Unicode signs, e-notation and plain-text functions as LaTeX, all without understanding any of it.
Does not split lists (`lists`) or read values (`numbers`, `algebra`). Every step is linear in
the text or bounded by what `limits` lets through.
"""

import re
import unicodedata
from functools import lru_cache

OR = r"(?i:(?<![A-Za-z\\])or(?![A-Za-z])|(?<=[\d)])or(?=[A-Z])|\\lor(?![a-z])|\\vee(?![a-z]))"
AND = r"(?i:(?<![A-Za-z\\])and(?![A-Za-z])|\\land(?![a-z])|\\wedge(?![a-z]))"

_SIGNS = str.maketrans(
    {sign: f" {latex} " if latex.startswith("\\") else latex for sign, latex in (
        ("π", r"\pi"), ("θ", r"\theta"), ("α", r"\alpha"), ("β", r"\beta"), ("γ", r"\gamma"),
        ("λ", r"\lambda"), ("μ", r"\mu"), ("φ", r"\phi"), ("ω", r"\omega"), ("∞", r"\infty"),
        ("×", r"\times"), ("·", r"\cdot"), ("⋅", r"\cdot"), ("∙", r"\cdot"), ("÷", "/"), ("⁄", "/"),
        ("−", "-"), ("–", "-"), ("—", "-"), ("±", r"\pm"), ("∓", r"\mp"), ("√", "sqrt"), ("≈", r"\approx"),
        ("≤", r"\le"), ("⩽", r"\le"), ("≥", r"\ge"), ("⩾", r"\ge"), ("≠", r"\ne"), ("∈", r"\in"),
        ("∪", r"\cup"), ("∩", r"\cap"), ("∅", r"\emptyset"), ("ℝ", r"\mathbb{R}"), ("°", r"^\circ"),
        ("′", "'"), ("’", "'"), ("，", ","), ("；", ";"), ("（", "("), ("）", ")"), ("％", "%"), ("∠", r"\angle"),
    )}
)  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", strict=True))
_RAISED_RUN, _LOWERED_RUN = (re.compile(f"[{''.join(signs)}]+") for signs in (_RAISED, _LOWERED))
_VULGAR = re.compile("[¼-¾⅐-⅞]")

_ESCAPED_TWICE = re.compile(r"\\\\(?=[A-Za-z])")
_LABEL = re.compile(
    r"(?i:(?:the |my |so |final )*answer) ?: ?(?=\S)|(?i:about|approximately|roughly) (?=[\d\\$])|\\approx(?![a-z])"
)
_CONFIDENCE = re.compile(r"(?i:[.,;]? ?(?:and |with )?(?:an? |my |the )?confidence (?:level|is|of|\d).*)")
_SENTENCE = re.compile(r"[A-Za-z][a-z]*[ ,]")
_IS = re.compile(
    r"(?<!there) (?:is|are|was|were|equals|will be)(?! [a-z]+ed(?![a-z])):?(?: (?:currently|now|exactly|approximately|about))* (?=\S)"
)
_FORMULA = re.compile(r"[\d\\$]")
_MARKUP = re.compile(r"\*\*([^*]+)\*\*|`([^`]+)`")
_BOX = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{")
_SENTENCE_END = re.compile(r"[.!?]\$* ")
_GROUP = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_PROSE = re.compile(rf"(?!{OR}|{AND})(?<![A-Za-z\\])[A-Za-z]{{2,}}")
_LINK = re.compile(rf"[,;]|{OR}|{AND}")
_DOUBT = re.compile(rf"{OR}|(?i:(?<![A-Za-z])(?:not|either|neither)(?![A-Za-z]))")
_PERCENT_NEXT = re.compile(r"\s*(?:\\?%|(?:percent|pct)\b)")

_PLAIN_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?: ?%)?(?!\w)", re.ASCII)
_WORDS = re.compile(r"[A-Za-z]+(?:[ ,']+[A-Za-z]+)+ ")
_NO_SENTENCE = re.compile(r"[\\$^=_{}<>]")
_BOUND = re.compile(
    r"(?i:(?<![a-z])(?:least|most|more|less|fewer|greater|than|between|over|under|up to|no)(?![a-z]))"
)

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
    (re.compile(r"(?<![A-Za-z\\])(?:np\.|math\.)(?=[a-z])"), ""),
    (re.compile(r"(?<![A-Za-z\\])sqrt(?![A-Za-z])"), r"\\sqrt "),
    (re.compile(r"(?<![A-Za-z\\])(?:infinity|inf|oo)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"(?<![A-Za-z\\])(arc(?:sin|cos|tan)|sin|cos|tan|cot|log|ln|exp|pi|theta)(?![A-Za-z])"), r"\\\1 "),
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
    """One line of bare LaTeX: the answer alone, without wrapping, in one notation; may be empty."""
    text = _CONFIDENCE.sub("", _visible(text))
    if r"\begin" not in text:
        text = _ESCAPED_TWICE.sub(r"\\", text)
    text = _from_unicode(text).replace(r"\$", "")
    if text.count("$") % 2:  # a currency sign, not a delimiter
        text = text.replace("$", "")
    while (inner := _unwrap(text)) != text:
        text = inner
    text = _latex(text.replace("$", ""))
    while (flat := _DOUBLED.sub(r"\1", text)) != text:
        text = flat
    return _E_NOTATION.sub(lambda m: rf"{m[1]} \times 10^{{{int(m[2])}}}", text)


def squeeze(text: str) -> str:
    """Clean text in the form in which it is compared as text: without idle spaces and braces."""
    return _ONE_CHARACTER.sub(r"\1\2", _IDLE_SPACE.sub("", text))


def closing_brace(text: str, start: int) -> int:
    """Where the brace that was opened before `start` closes; the end of `text` if it does not."""
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position
    return len(text)


def _visible(text: str) -> str:
    kept = (c if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else "" for c in text)
    return " ".join("".join(kept).split())


def _from_unicode(text: str) -> str:
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda m: "^{" + "".join(_RAISED[c] for c in m[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda m: "_{" + "".join(_LOWERED[c] for c in m[0]) + "}", text)
    text = _VULGAR.sub(lambda m: _fraction(*unicodedata.normalize("NFKC", m[0]).split("⁄")), text)
    return text.translate(_SIGNS)


def _fraction(top: str, bottom: str) -> str:
    return rf"\frac{{{top}}}{{{bottom}}}"


def _unwrap(text: str) -> str:
    """Take off one layer: a full stop, markup, a lead-in, boxes, or delimiters with the prose around them."""
    text = _MARKUP.sub(r"\1\2", text).strip()
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1]
    if label := _LABEL.match(text):
        return text[label.end() :]
    if subject := _subject(text):
        return text[len(subject) :]
    if number := _only_number(text):
        return number
    return _unbox(text) if _BOX.search(text) else _undelimit(text)


def _only_number(text: str) -> str:
    """The number in a sentence such as "The polygon has 15 sides", if it is the only one and plainly meant."""
    if _NO_SENTENCE.search(text) or not _WORDS.match(text) or _DOUBT.search(text) or _BOUND.search(text):
        return ""
    numbers = _PLAIN_NUMBER.findall(text)
    alone = len(numbers) == 1 and not re.search(r"\d", text.replace(numbers[0], "", 1))
    return numbers[0].strip() if alone and numbers[0].strip() != text else ""


def _subject(text: str) -> str:
    """The beginning of a sentence such as "The answer is 5", if it says one thing and leaves no doubt."""
    verbs = list(_IS.finditer(text)) if _SENTENCE.match(text) else []
    subject = text[: verbs[0].end()] if len(verbs) == 1 else ""
    turned = _FORMULA.search(subject) and not _FORMULA.search(text, len(subject))  # "5 is the answer"
    return "" if turned or _DOUBT.search(subject) else subject


def _unbox(text: str) -> str:
    """The contents of the boxes; what is said around them counts only if it makes them a hedge."""
    contents, around, end = [], [], 0
    while box := _BOX.search(text, end):
        around.append(text[end : box.start()])
        end = closing_brace(text, box.end())
        contents.append(text[box.end() : end])
        end += 1
    after = text[end:].lstrip("$) ]\\")
    if len(set(contents)) == 1:  # said again, not said twice
        contents, around = contents[:1], around[-1:]
    sentence = _SENTENCE_END.split(around[-1])[-1] + " " + _SENTENCE_END.split(after)[0]
    hedged = len(contents) == 1 and re.search(OR, sentence)
    if hedged or any(_PROSE.search(gap) and not _LINK.search(gap) for gap in around[1:]):
        return " ".join([*map(" ".join, zip(around, contents, strict=True)), after])
    percent = _PERCENT_NEXT.match(after)
    return ", ".join(contents) + (percent[0] if percent else "")


def _undelimit(text: str) -> str:
    """Drop the delimiters of formulas and, where it is harmless, the prose around them."""
    outside = _GROUP.sub(" ", text)
    if not _PROSE.search(outside) or _DOUBT.search(outside) or re.search(r"\d", outside):
        return _GROUP.sub(r" \1\2\3\4 ", text).strip()
    groups = list(_GROUP.finditer(text))
    if not groups:
        return text
    percent = _PERCENT_NEXT.match(text, groups[-1].end())
    return ", ".join(next(filter(None, m.groups())) for m in groups) + (percent[0] if percent else "")


def _latex(text: str) -> str:
    """The same text with one spelling for each command, and with LaTeX for plain-text functions."""
    text = _FONT.sub(r"\\text{", _TEX_COMMA.sub("", text)).replace(r"\!", "")
    text = _LAYOUT.sub(" ", text)
    text = _LINK_TEXT.sub(r" \1 ", text)
    whole = _WHOLE_TEXT.fullmatch(text.strip())
    if whole and (_LINK.search(whole[1]) or re.search(r"\d", whole[1])):
        text = whole[1]
    elif not whole:
        text = _ONE_LETTER_TEXT.sub(r"\1", text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    for spelling, usual in _SYNONYMS:
        text = spelling.sub(usual, text)
    return " ".join(_brace_arguments(text).split())


def _brace_arguments(text: str) -> str:
    """Write `x^(n+1)` and `sqrt(n+1)` with braces, in which alone LaTeX reads the whole argument."""
    starts = {found.end() - 1 for found in _ARGUMENT.finditer(text)}
    characters, opened = list(text), []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")" and opened and (start := opened.pop()) in starts:
            characters[start], characters[position] = "{", "}"
    return "".join(characters)
