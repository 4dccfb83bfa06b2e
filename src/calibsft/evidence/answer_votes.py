"""Evidence `answer-votes`: the share of a question's responses that give the same answer.

`verify.equal_answers` decides which answers are the same, without the gold. Null for a response without an answer; such
responses count in the total.
"""

from fractions import Fraction

import polars as pl

from calibsft.evidence.context import Context
from calibsft.evidence.evidence import EXACT, Evidence, exact_column
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.verify.equal_answers import group_answers, poll


def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
    # Sorted by sample: comparisons may not be transitive, and then the order matters.
    ordered = rows.with_row_index("row").sort(KEYS).partition_by(QUESTION_KEYS, maintain_order=True)
    polls = [
        poll(samples["kind"][0], samples["tolerance"][0], samples.select("answer", "grade").iter_rows())
        for samples in ordered
    ]
    group_answers(polls, context.verifier)
    shares: dict[int, Fraction] = {}
    for samples, grouped in zip(ordered, polls, strict=True):
        for group in grouped.groups:
            share = Fraction(len(group.members), len(samples))
            shares |= dict.fromkeys(samples["row"].gather(group.members), share)
    return exact_column(shares.get(row) for row in range(len(rows)))


ANSWER_VOTES = Evidence(
    "answer-votes",
    1,
    "share of the question's responses with the same answer",
    EXACT,
    measure,
    columns=("kind", "tolerance", "grade"),
)
