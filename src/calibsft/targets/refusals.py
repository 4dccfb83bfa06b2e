"""Refuses pools that cannot become a training set, each with a remedy."""

from collections import Counter
from typing import NoReturn

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import shown
from calibsft.responses.formats import FORMATS, Format
from calibsft.responses.parse import parse
from calibsft.schema import LABEL, QUESTION_KEYS
from calibsft.targets.pool import Pool

# How many responses, of the first part, other formats are tried on.
GUESSED_FROM = 1000


def refuse_no_parts(pool: Pool, source: str) -> None:
    if not pool.parts:
        raise InputError(
            f"{source}: no responses there (part-*.parquet); give the folder that calibsft rollout wrote"
        )


def refuse_fewer_samples(labels: pl.DataFrame, samples: int | None, source: str) -> None:
    """Refuse questions that have fewer responses than were asked for."""
    if samples is None:
        return
    counts = labels.group_by(QUESTION_KEYS, maintain_order=True).len()
    short = counts.filter(pl.col("len") < samples)
    if not short.is_empty():
        raise InputError(
            f"{source}: question {shown(short['question_id'][0])} has {short['len'][0]} responses and samples is {samples}"
            f" ({len(short)} such questions); lower samples to {min(short['len'].to_list())} or sample more"
        )


def refuse_unrated(rated: pl.DataFrame, pool: Pool, from_format: Format, source: str) -> None:
    """Refuse pools without a graded response, or without a well-formed one."""
    if rated.is_empty():
        raise InputError(
            f"{source}: no response could be graded, because no gold answer could be read; fix the gold answers"
        )
    if (rated["reason"] != "ok").all():
        refuse_malformed(pool, Counter(rated["reason"].to_list()), from_format, source)


def refuse_single(rated: pl.DataFrame, source: str) -> None:
    """Refuse questions with a single response, which gives no success rate."""
    single = rated.filter(pl.col("n") == 1)
    if not single.is_empty():
        raise InputError(
            f"{source}: question {shown(single['question_id'][0])} has a single rollout, which gives no success rate"
            f" ({len(single)} such questions); sample every question at least twice"
        )


def refuse_uneven(rated: pl.DataFrame, source: str) -> None:
    """Refuse questions with different numbers of responses, whose success rates cannot be paired off."""
    numbers = sorted(rated["n"].unique().to_list())
    if len(numbers) > 1:
        raise InputError(
            f"{source}: questions have {numbers[0]} to {numbers[-1]} responses, and pairs are chosen among equally many; add --samples"
            f" {numbers[0]}, or sample every question as often"
        )


def refuse_missing_rates(k: pl.Series, n: int, source: str) -> None:
    """Refuse a pool where no question has some success rate; `k` are the right ones of `n` of each question."""
    missing = sorted(set(range(1, n)) - set(k))
    if missing:
        raise InputError(
            f"{source}: no question of success rate {missing[0]}/{n} has a well-formed right and a well-formed wrong response"
            f" ({len(missing)} such rates), and pairs are of every rate; add questions, or lower --samples"
        )


def refuse_unlabelled(rated: pl.DataFrame, labelled: pl.DataFrame, target: str, source: str) -> None:
    """Refuse a pool without any label."""
    if labelled.is_empty():
        raise InputError(
            f"{source}: the target {target} labels none of the {len(rated)} responses; choose another target, or add"
            " questions that the model can answer"
        )


def refuse_unlearnable(rated: pl.DataFrame, labelled: pl.DataFrame, source: str) -> None:
    """Refuse a pool with all responses right or all wrong and all labels equal."""
    numerator, denominator = (labelled[name] for name in LABEL)
    for outcome, word, remedy in ((True, "correct", "harder"), (False, "incorrect", "easier")):
        if (rated["correct"] == outcome).all() and (numerator == denominator * int(outcome)).all():
            raise InputError(
                f"{source}: every one of the {len(rated)} responses is {word}, so all targets would be {int(outcome)}.00 and there"
                f" is nothing to learn; add {remedy} questions"
            )


def refuse_malformed(pool: Pool, filtered: Counter[str], from_format: Format, source: str) -> NoReturn:
    reasons = ", ".join(f"{reason}: {count}" for reason, count in filtered.most_common())
    complaint = f"{source}: none of the {filtered.total()} responses is well formed as '{from_format.name}' ({reasons})"
    texts = pool.parts[0](("response", "finished")).head(GUESSED_FROM).rows()
    for name, other in FORMATS.items():
        if any(parse(text, other, finished=finished).ok for text, finished in texts):
            raise InputError(
                f"{complaint}, but they are as '{name}'; add --from-format {name}, or for a rollout folder verify it with"
                f" --format {name}"
            )
    raise InputError(f"{complaint}; check that responses hold <think>, <answer> and <confidence>")
