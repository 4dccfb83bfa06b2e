"""Build the training set: success rates, labels, balanced draws, replaced confidences.

The order matters and is the paper's. Success rates come from all responses to a question; only then are malformed and
unfinished ones discarded. Labels are exact rationals, and balancing groups by them. Only the characters of the confidence
value change, even if the training set has another format than the responses. Labels need no text, so they come first, and
only the text of drawn responses is kept.
"""

from collections import Counter
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_json, write_parquet
from calibsft.responses.formats import Format
from calibsft.schema import QUESTION_KEYS
from calibsft.success_rates import count_endings, rate_questions
from calibsft.table_schemas import GRADED
from calibsft.targets.chat import write_chat
from calibsft.targets.draws import choose
from calibsft.targets.labelling import label_rows, label_table
from calibsft.targets.pool import Pool, first_samples
from calibsft.targets.refusals import (
    refuse_fewer_samples,
    refuse_no_parts,
    refuse_unlearnable,
    refuse_unrated,
)
from calibsft.targets.settings import TargetSettings
from calibsft.targets.summary import SUMMARY, BuildSummary, histogram
from calibsft.targets.texts import training_rows

SFT_TABLE = "sft.parquet"
LABEL_TABLE = "labels.parquet"
# The reason for a well-formed response without a label, beside the parser's reasons for malformed ones.
UNLABELLED = "unlabelled"


def build(
    pool: Pool,
    settings: TargetSettings,
    confidence_format: Format,
    seed: int,
    source: str,
    folder: Path,
    from_format: Format | None = None,
    evidence: pl.LazyFrame | None = None,
) -> BuildSummary:
    """Write `labels.parquet`, `sft.parquet`, `sft.jsonl` and `targets.json` into `folder`.

    Parameters
    ----------
    pool
        Graded responses, as `targets.pool` makes them.
    settings
        The settings of a target, which they name.
    source
        The name of the pool in errors.
    from_format
        How the pool's responses write their confidence; default: as the training set does.
    evidence
        The evidence of the responses, by their keys; required if the target names any.
    """
    from_format = from_format or confidence_format
    rated = _rated(pool, settings.samples, from_format, source)
    labelled = label_rows(rated, settings, confidence_format, evidence, source)
    refuse_unlearnable(rated, labelled, settings.name, source)
    chosen, group_size, dropped = choose(labelled, settings, seed, source)
    write_parquet(folder / LABEL_TABLE, label_table(rated, labelled, chosen))
    table = training_rows(pool, chosen, from_format, confidence_format, source)
    write_parquet(folder / SFT_TABLE, table)
    write_chat(folder, table, confidence_format)
    first = chosen.filter(pl.col("draw") == 0)
    summary = BuildSummary(
        target=settings.name,
        format=confidence_format.name,
        from_format=from_format.name,
        responses=len(rated),
        questions=rated.n_unique(QUESTION_KEYS),
        endings=count_endings(rated),
        filtered=_filtered(rated, labelled),
        before=histogram(labelled),
        after=histogram(first),
        group_size=group_size,
        dropped_groups=dropped,
        rows=len(first),
        rows_questions=first.n_unique(QUESTION_KEYS),
    )
    write_json(folder / SUMMARY, summary.to_json())
    return summary


def _rated(pool: Pool, samples: int | None, from_format: Format, source: str) -> pl.DataFrame:
    """The columns `GRADED` of every response that is used, with its question's success rate."""
    refuse_no_parts(pool, source)
    graded = first_samples(pool.graded.select(*GRADED), samples).collect()
    refuse_fewer_samples(graded, samples, source)
    rated = rate_questions(graded, source)
    refuse_unrated(rated, pool, from_format, source)
    return rated


def _filtered(rated: pl.DataFrame, labelled: pl.DataFrame) -> dict[str, int]:
    """How many responses are not trained on, by reason."""
    reasons = Counter(dict(rated.group_by("reason").len().iter_rows()))
    unlabelled = reasons.pop("ok") - len(labelled)
    return dict(sorted(reasons.items())) | ({UNLABELLED: unlabelled} if unlabelled else {})
