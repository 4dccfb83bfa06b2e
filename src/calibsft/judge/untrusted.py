"""Make hostile text safe to show to a judge.

A question, a reference or a response becomes one line of visible text without angle or square brackets. So it can close
neither the tags around it nor the model's turn: the control tokens of chat templates (`<|im_end|>`, `</s>`, `[/INST]`)
all have brackets.
"""

import re

from calibsft.text import visible_line

_CONFIDENCE = re.compile(
    r"<\s*confidence\b[^<>]*>[^<]*(?:<\s*/\s*confidence\s*>)?|<\s*/\s*confidence\s*>", re.I
)
_HARMLESS = str.maketrans("<＜﹤>＞﹥[［]］", "‹‹‹›››(())")


def untrusted(text: str, limit: int) -> str:
    """`text` as data between tags; the middle of a text longer than `limit` is cut out."""
    text = visible_line(text).translate(_HARMLESS)
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} (… cut …) {text[-half:]}"


def without_confidence(text: str) -> str:
    """The visible text without any confidence element: a judge must not see how sure the model was."""
    return visible_line(_CONFIDENCE.sub(" ", visible_line(text)))
