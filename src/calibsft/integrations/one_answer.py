"""Grade one answer at a time, as the hooks of other programs ask; never with a judge."""

from collections.abc import Sequence
from functools import cache

from calibsft.schema import Grade
from calibsft.verify.verifier import Verifier, grade_item


def grade_answer(kind: str, golds: Sequence[str], answer: str | None, tolerance: str = "") -> Grade:
    """The grade of an answer; calls from several threads take turns."""
    (grade,) = _verifier().grade_all([grade_item(kind, golds, answer, tolerance)])
    return grade


@cache
def _verifier() -> Verifier:
    return Verifier()  # starts processes when an answer first needs them, and keeps them
