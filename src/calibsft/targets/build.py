"""Build the training set: success rates, targets, replaced confidences, a balanced draw.

The order matters and is the paper's: success rates come from all responses of a question; only then are
malformed and unfinished ones discarded; targets are exact rationals and are grouped as such; the text changes
in the characters of the confidence value and nowhere else, also where it is written in another format than it was
sampled in.
"""

import json
from collections import Counter
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import polars as pl

from calibsft.artifacts import write_json, write_parquet
from calibsft.errors import InputError, unknown_name
from calibsft.progress import warn
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse, replace_confidence
from calibsft.success_rates import count_endings, rate_questions
from calibsft.tables import KEYS, QUESTION_KEYS
from calibsft.targets import TARGETS
from calibsft.targets.balance import balance
from calibsft.targets.chat import write_chat
from calibsft.targets.pool import first_samples
from calibsft.targets.refusals import refuse_fewer_samples, refuse_malformed, refuse_useless
from calibsft.targets.settings import TargetSettings

SFT_TABLE = "sft.parquet"
SUMMARY = "targets.json"


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """What went in and what came out; the histograms count responses by exact target."""

    format: str
    from_format: str
    responses: int
    questions: int
    endings: dict[str, int]
    filtered: dict[str, int]
    before: dict[Fraction, int]
    after: dict[Fraction, int]
    group_size: int
    dropped_groups: dict[Fraction, int]
    rows: int
    rows_questions: int

    def to_json(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return found | {name: _written(found[name]) for name in ("before", "after", "dropped_groups")}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What an earlier build in `folder` wrote down."""
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        exact = ("before", "after", "dropped_groups")
        return cls(**found | {name: {Fraction(t): n for t, n in found[name].items()} for name in exact})


def _written(histogram: dict[Fraction, int]) -> dict[str, int]:
    return {f"{target.numerator}/{target.denominator}": count for target, count in sorted(histogram.items())}


def build(
    pool: pl.LazyFrame,
    settings: TargetSettings,
    confidence_format: Format,
    seed: int,
    source: str,
    folder: Path,
    from_format: Format | None = None,
) -> BuildSummary:
    """Write `sft.parquet`, `sft.jsonl` and `targets.json` into `folder`.

    Parameters
    ----------
    pool
        Graded responses, as `targets.pool` makes them.
    source
        The name that complaints use for the pool.
    from_format
        How the pool's responses write their confidence; default: as the training set does.
    """
    from_format = from_format or confidence_format
    labels = _labels(pool, settings.samples, source)
    rated = rate_questions(labels, source)
    kept = rated.filter(pl.col("reason") == "ok")
    filtered = Counter(rated.filter(pl.col("reason") != "ok")["reason"].to_list())
    if filtered and kept.is_empty():
        refuse_malformed(pool, filtered, from_format, source)
    refuse_useless(rated, source)
    targets = exact_targets(kept, settings)
    chosen, group_size, dropped = _choose(kept, targets, settings, seed, source)
    table = _with_text(pool, chosen, from_format, confidence_format)
    write_parquet(folder / SFT_TABLE, table)
    write_chat(folder, table, confidence_format)
    first = chosen.filter(pl.col("draw") == 0)
    summary = BuildSummary(
        format=confidence_format.name,
        from_format=from_format.name,
        responses=len(rated),
        questions=rated.n_unique(QUESTION_KEYS),
        endings=count_endings(rated),
        filtered=dict(sorted(filtered.items())),
        before=dict(Counter(targets)),
        after=dict(
            Counter(
                Fraction(n, d) for n, d in first.select("target_numerator", "target_denominator").iter_rows()
            )
        ),
        group_size=group_size,
        dropped_groups=dropped,
        rows=len(first),
        rows_questions=first.n_unique(QUESTION_KEYS),
    )
    write_json(folder / SUMMARY, summary.to_json())
    return summary


def _labels(pool: pl.LazyFrame, samples: int | None, source: str) -> pl.DataFrame:
    """What counts of every response that is used, without its text."""
    labels = first_samples(pool.select(*KEYS, "ending", "correct", "reason"), samples).collect()
    refuse_fewer_samples(labels, samples, source)
    return labels


def exact_targets(kept: pl.DataFrame, settings: TargetSettings) -> list[Fraction]:
    """The exact target of every row, computed once per distinct (k, n, correct)."""
    if settings.name not in TARGETS:
        unknown_name("target", settings.name, list(TARGETS))
    value, mix = TARGETS[settings.name].value, Fraction(str(settings.mix))
    triples = list(kept.select("k", "n", "correct").iter_rows())
    values = {(k, n, z): value(Fraction(k, n), z, mix) for k, n, z in set(triples)}
    return [values[triple] for triple in triples]


def _choose(
    kept: pl.DataFrame, targets: list[Fraction], settings: TargetSettings, seed: int, source: str
) -> tuple[pl.DataFrame, int, dict[Fraction, int]]:
    """The drawn rows with their targets, one block per draw."""
    kept = kept.with_columns(
        target_numerator=pl.Series([t.numerator for t in targets], dtype=pl.Int64),
        target_denominator=pl.Series([t.denominator for t in targets], dtype=pl.Int64),
    )
    if not settings.balance:
        return kept.with_columns(draw=pl.lit(0)), 0, {}
    ids = list(kept.select(KEYS).iter_rows())
    try:
        draws = [balance(targets, ids, seed, draw, settings.min_group) for draw in range(settings.redraws)]
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    frames = [kept[list(balanced.rows)].with_columns(draw=pl.lit(i)) for i, balanced in enumerate(draws)]
    if draws[0].group_size == 1:
        warn(
            "the smallest target group has one response, so the balanced set has one per target; raise --min-group"
        )
    return pl.concat(frames), draws[0].group_size, draws[0].dropped


def _with_text(
    pool: pl.LazyFrame, chosen: pl.DataFrame, from_format: Format, confidence_format: Format
) -> pl.DataFrame:
    """Fetch the chosen responses and put their targets into the text."""
    text = pool.select(*KEYS, "question", "response", "token_ids")
    table = chosen.lazy().join(text, on=KEYS, validate="m:1", maintain_order="left").collect()
    fractions = [
        Fraction(n, d) for n, d in table.select("target_numerator", "target_denominator").iter_rows()
    ]
    replaced = [
        replace_confidence(response, parse(response, from_format), confidence_format.render(target))
        for response, target in zip(table["response"], fractions, strict=True)
    ]
    return table.select(
        "draw", *KEYS, "question",
        pl.Series("response", replaced),
        pl.Series("target", [float(t) for t in fractions]),
        "target_numerator", "target_denominator", "correct",
        (pl.col("k") / pl.col("n")).alias("q"),
        pl.col("k").alias("successes"), pl.col("n").alias("rollouts"), "token_ids",
    )  # fmt: skip
