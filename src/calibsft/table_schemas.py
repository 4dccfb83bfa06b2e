"""The columns of the tables that stages leave: graded responses, their texts, labels, training rows.

Apart from `schema`, because grading workers read that one and must stay small.
"""

import polars as pl

from calibsft.schema import LABEL, STRATUM

Columns = dict[str, pl.DataType | type[pl.DataType]]
KEY_COLUMNS: Columns = {"dataset": pl.String, "question_id": pl.String, "sample": pl.Int32}
_OUTCOME: Columns = {**KEY_COLUMNS, "ending": pl.String, "correct": pl.Boolean, "reason": pl.String}
# What counts of a graded response; `correct` is null where it could not be graded, `confidence` where it is unreadable.
GRADED: Columns = {**_OUTCOME, "confidence": pl.Float64}
# Columns of graded responses whose texts repeat, row after row.
REPEATED = ("dataset", "question_id", "ending", "reason")
# What a response says; `token_ids` are null where unknown.
TEXTS: Columns = {
    **KEY_COLUMNS,
    "response": pl.String,
    "finished": pl.Boolean,
    "token_ids": pl.List(pl.Int32),
}
# What a target says of every response: no label where it is not trained on; `drawn` for training in some draw.
LABELS: Columns = {
    **_OUTCOME,
    "successes": pl.Int64,
    "rollouts": pl.Int64,
    **dict.fromkeys(LABEL, pl.Int64),
    "drawn": pl.Boolean,
}
_TURNS = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))
# `prompt` and `completion` are chat messages, as other trainers take them.
TRAINING_ROWS: Columns = {
    "draw": pl.Int32,
    **KEY_COLUMNS,
    "question": pl.String,
    "response": pl.String,
    "target": pl.Float64,
    "target_numerator": pl.Int64,
    "target_denominator": pl.Int64,
    **dict.fromkeys(STRATUM, pl.Int64),
    "correct": pl.Boolean,
    "q": pl.Float64,
    "successes": pl.Int64,
    "rollouts": pl.Int64,
    "token_ids": pl.List(pl.Int32),
    "prompt": _TURNS,
    "completion": _TURNS,
}
