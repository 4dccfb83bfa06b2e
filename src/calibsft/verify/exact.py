"""Grader `exact`: the same text, apart from white space.

Does not ignore case, punctuation, articles or LaTeX: those are other graders.
"""

from calibsft.schema import Grade
from calibsft.verify.grader import Grader, any_alias


def compare(gold: str, answer: str) -> Grade:
    """Compare after stripping and collapsing white space; an empty side is unparsed, never equal."""
    gold, answer = " ".join(gold.split()), " ".join(answer.split())
    if not gold:
        return Grade.UNPARSED_GOLD
    if not answer:
        return Grade.UNPARSED_ANSWER
    return Grade.CORRECT if gold == answer else Grade.INCORRECT


EXACT = Grader("exact", version=1, grade=any_alias(compare))
