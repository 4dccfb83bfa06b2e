"""Build the training set: success rates, labels, balanced draws, replaced confidences.

The order matters and is the paper's. Success rates come from all responses to a question; only then are malformed and
unfinished ones discarded. Labels are exact rationals, and balancing groups by them. Only the characters of the confidence
value change, even if the training set has another format than the responses. A pool of pairs is
chosen before anything is labelled, so that all targets label the same one. Labels need no text, so they come first, and only
the text of drawn responses is read further.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_json, write_parquet_parts
from calibsft.responses.formats import Format
from calibsft.schema import QUESTION_KEYS
from calibsft.success_rates import count_endings, rate_questions
from calibsft.table_schemas import GRADED, LABELS, REPEATED
from calibsft.targets import get_target, refusals
from calibsft.targets.card import LABEL_TABLE, SFT_TABLE, write_card
from calibsft.targets.chat import write_chat
from calibsft.targets.draws import choose
from calibsft.targets.labelling import label_rows, label_table
from calibsft.targets.pairs import Pairs, choose_pairs
from calibsft.targets.pool import ROW, Pool, first_samples
from calibsft.targets.settings import TargetSettings
from calibsft.targets.stored_texts import StoredTexts
from calibsft.targets.summary import SUMMARY, BuildSummary, histogram
from calibsft.targets.texts import TrainingRows, TrainingSet, store_texts

# Rows of the table of labels that are written at a time.
SLICE_ROWS = 1 << 17
# Why a well-formed response has no label, beside the parser's reasons for malformed ones: it is not in the pool of pairs, or
# the target gives it none.
UNPAIRED, UNLABELLED = "unpaired", "unlabelled"


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
    from_format, target = from_format or confidence_format, get_target(settings.name)
    rated = _rated(pool, settings.samples, from_format, source)
    if settings.pairs or not target.imitates:
        refusals.refuse_single(rated, source)
    pairs = choose_pairs(rated, settings.pairs, seed, source) if settings.pairs else None
    labelled = label_rows(pairs.rows if pairs else rated, settings, confidence_format, evidence, source)
    refusals.refuse_unlabelled(rated, labelled, target.name, source)
    if not target.imitates:
        refusals.refuse_unlearnable(rated, labelled, source)
    drawn = choose(labelled, settings, seed, source)
    write_parquet_parts(folder / LABEL_TABLE, _slices(label_table(rated, labelled, drawn.rows)))
    first = labelled[drawn.draws[0]]
    summary = BuildSummary(
        target=settings.name,
        format=confidence_format.name,
        from_format=from_format.name,
        responses=len(rated),
        questions=rated.n_unique(QUESTION_KEYS),
        endings=count_endings(rated),
        filtered=_filtered(rated, labelled, pairs),
        before=histogram(labelled),
        after=histogram(first),
        group_size=drawn.group_size,
        dropped_groups=drawn.dropped,
        rows=len(first),
        rows_questions=first.n_unique(QUESTION_KEYS),
        pairs=pairs.per_rate if pairs else None,
    )
    del rated, pairs, first  # makes room for texts
    with StoredTexts(folder, len(labelled)) as stored:
        rewritten = not target.imitates or from_format != confidence_format
        training = TrainingSet(pool, labelled, drawn, confidence_format, source)
        store_texts(training, stored, rewritten)
        rows = TrainingRows(training, stored)
        write_parquet_parts(folder / SFT_TABLE, rows, texts=("response", "token_ids"))
        write_chat(folder, rows)
    write_card(folder, summary, target.imitates)
    write_json(folder / SUMMARY, summary.to_json())
    return summary


def _rated(pool: Pool, samples: int | None, from_format: Format, source: str) -> pl.DataFrame:
    """The columns `GRADED` of every response that is used, with its question's success rate, numbered.

    Texts that repeat are categories: in millions of rows they would take most of the memory.
    """
    refusals.refuse_no_parts(pool, source)
    coded = pool.graded.select(*GRADED).with_columns(pl.col(*REPEATED).cast(pl.Categorical))
    graded = first_samples(coded, samples).collect(engine="streaming")
    refusals.refuse_fewer_samples(graded, samples, source)
    rated = rate_questions(graded, source)
    refusals.refuse_unrated(rated, pool, from_format, source)
    return rated.with_row_index(ROW)


def _slices(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The table of labels in slices, with the types of its file."""
    typed = [pl.col(name).cast(kind) for name, kind in LABELS.items()]
    return (table.slice(start, SLICE_ROWS).select(typed) for start in range(0, len(table), SLICE_ROWS))


def _filtered(rated: pl.DataFrame, labelled: pl.DataFrame, pairs: Pairs | None) -> dict[str, int]:
    """How many responses are not trained on, by reason."""
    reasons = Counter(dict(rated.group_by("reason").len().iter_rows()))
    formed = reasons.pop("ok")
    asked = len(pairs.rows) if pairs else formed
    without = {UNPAIRED: formed - asked, UNLABELLED: asked - len(labelled)}
    return dict(sorted(reasons.items())) | {reason: count for reason, count in without.items() if count}
