"""Ask a language model whether an answer matches the reference, and what kind `judge` means without one.

`load_judge` builds a `Judge` from a recipe's settings; `JUDGE` is the grader that stands in for it. What is asked
is in `prompt`, who is asked in `endpoint` and `local`, what was answered in `cache`.
"""

from calibsft.verify.judge.alias import JUDGE
from calibsft.verify.judge.judge import Judge, JudgeModel, load_judge

__all__ = ["JUDGE", "Judge", "JudgeModel", "load_judge"]
