"""Text from outside, as a judge may see it.

A question, a reference and above all a response become one line of visible text without angle or square brackets. So
they can close neither the tags around them nor the model's turn: the control tokens of chat templates (`<|im_end|>`,
`</s>`, `[/INST]`) are all written with brackets.
"""

import re

from calibsft.text import visible_line

_CONFIDENCE = re.compile(
    r"<\s*confidence\b[^<>]*>[^<]*(?:<\s*/\s*confidence\s*>)?|<\s*/\s*confidence\s*>", re.I
)
_HARMLESS = str.maketrans(
    {
        c: plain
        for plain, brackets in {"‹": "<＜﹤", "›": ">＞﹥", "(": "[［", ")": "]］"}.items()
        for c in brackets
    }
)


def untrusted(text: str, limit: int) -> str:
    """`text` as data between tags, with its middle cut out where it is longer than `limit`."""
    text = visible_line(text).translate(_HARMLESS)
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} (… cut …) {text[-half:]}"


def without_confidence(text: str) -> str:
    """The visible text without any confidence element: a judge must not see how sure the model was."""
    return visible_line(_CONFIDENCE.sub(" ", visible_line(text)))
