"""Evidence `judge-score`: a judge's score of the whole response, from 0 to 1.

The rubric is `score`, without the reference. Null if the judge's reply is no score.
"""

import polars as pl

from calibsft.errors import InputError
from calibsft.evidence.context import Context
from calibsft.evidence.evidence import EXACT, Evidence, exact_column
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.rubric import JudgeItem
from calibsft.judge.score import SCORE
from calibsft.judge.settings import JudgeSettings


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    items = [JudgeItem(*item) for item in rows.select("question", "response").iter_rows()]
    return exact_column(context.judge(SCORE).judge_all(items, context.report))


def instrument(settings: EvidenceSettings, judge: JudgeSettings) -> str:
    if judge.model is None:
        raise InputError("the evidence judge-score needs a judge; name one as judge.model")
    return f"{judge.model} (rubric {SCORE.name}-{SCORE.version})"


JUDGE_SCORE = Evidence(
    "judge-score", 1, "a judge's score of the response, in tenths", EXACT, measure, instrument
)
