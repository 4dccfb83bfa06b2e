"""Ask a language model about a text: a rubric says what is asked and how the reply is read.

`load_judge` makes a `Judge` from settings and a rubric. A rubric is one file with one `Rubric`, listed in `RUBRICS`. The
models are in `endpoint` and `local`, their replies in `cache`. Does not know what a verdict is used for: `verify` grades
answers by `yes-no`, `evidence` measures responses by `score`.
"""

from typing import Any

from calibsft.judge.judge import Judge, JudgeModel, load_judge
from calibsft.judge.rubric import JudgeItem, Prompt, Rubric
from calibsft.judge.score import SCORE
from calibsft.judge.yes_no import YES_NO

__all__ = ["RUBRICS", "Judge", "JudgeItem", "JudgeModel", "Prompt", "Rubric", "load_judge"]

RUBRICS: dict[str, Rubric[Any]] = {"yes-no": YES_NO, "score": SCORE}
