"""Model cards: the frame that every checkpoint gets, and the calibration table that an evaluation adds to it.

A card describes a checkpoint and is not part of it: nothing that reads or hashes a checkpoint looks at its card. Only
cards that were made here are changed; those of other people's checkpoints are left alone.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibsft.artifacts import CARD, write_text
from calibsft.metrics.metric import fraction
from calibsft.metrics.registry import shown_in
from calibsft.progress import info
from calibsft.responses.formats import Format
from calibsft.settings import Settings

TABLES = "<!-- calibsft: calibration -->"
NOT_MEASURED = "Not measured yet: `calibsft eval --model THIS --benchmarks … --out eval` adds the table."
METRICS = shown_in("card")
LIMITED = re.compile(r", the first (\d+) questions of each benchmark$", re.ASCII | re.MULTILINE)
SPLITS = {"id": "In distribution, mean", "ood": "Out of distribution, mean"}


def model_card(
    start: str,
    tags: tuple[str, ...],
    title: str,
    story: str,
    settings: Settings,
    confidence_format: Format,
) -> str:
    """The card as Markdown with the Hub's front matter; `story` says how the model was made from `start`.

    Parameters
    ----------
    start : the checkpoint that this one was trained from, empty for one trained from scratch.
    """
    from huggingface_hub import ModelCardData  # heavy, and needed only where a checkpoint is written

    about = ["calibration", "confidence", "calibsft", *tags]
    head = ModelCardData(base_model=start or None, library_name="transformers", tags=about)
    details = json.dumps(settings.model_dump(mode="json"), indent=2)
    return f"""---
{head.to_yaml()}
---

# {title}

{story}

## Calibration

{TABLES}

{NOT_MEASURED}

## Use

**Response format** ({confidence_format.name}): `<think>…</think> <answer>…</answer> <confidence>…</confidence>`. Ask with this
system prompt:

> {confidence_format.system_prompt}

```json
{details}
```

**What it does not promise.** The stated confidence is calibrated on questions like those it was trained on; measure it on
yours (`calibsft score`) before you rely on it.
"""


def add_calibration(
    model: str, confidence_format: str, scores: dict[str, Any], sampled: str, limit: int | None = None
) -> None:
    """Put the scores of an evaluation into the card of the checkpoint folder `model`.

    A later evaluation in the same format replaces the table, unless it asked fewer questions of each benchmark: a quick
    look does not hide a full evaluation. Does nothing for a name on the Hub, or a checkpoint whose card was not made here.

    Parameters
    ----------
    sampled : how the responses were sampled, in a few words.
    limit : how many questions of each benchmark were asked at most; None for all.
    """
    card = Path(model) / CARD
    if not card.is_file():
        return
    with _locked(card.parent):
        text = card.read_text(encoding="utf-8")
        if TABLES not in text:
            return
        if _asked_more(text, confidence_format, limit):
            info(f"{card}: keeps the table of an evaluation on more questions of each benchmark than {limit}")
            return
        part = f", the first {limit} questions of each benchmark" if limit else ""
        section = _section(confidence_format, scores, sampled + part)
        write_text(card, _with_table(text, confidence_format, section))


def _asked_more(text: str, name: str, limit: int | None) -> bool:
    """Whether the table of format `name` on the card covers more than `limit` questions of each benchmark."""
    start, end = _marks(name)
    if limit is None or start not in text:
        return False
    table = text.partition(start)[2].partition(end)[0]
    asked = LIMITED.search(table)
    return asked is None or int(asked[1]) > limit


def _with_table(text: str, name: str, section: str) -> str:
    """The card with `section` as the table of format `name`; it replaces the old one, or stands before the others."""
    start, end = _marks(name)
    text = text.replace(f"\n{NOT_MEASURED}\n", "", 1)
    block = f"{start}\n{section}\n{end}"
    if start in text:
        return re.sub(f"{re.escape(start)}.*?{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)
    return text.replace(f"{TABLES}\n", f"{TABLES}\n\n{block}\n", 1)


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- calibsft: {name} -->", f"<!-- calibsft: end of {name} -->"


def _section(name: str, scores: dict[str, Any], sampled: str) -> str:
    titles = ("", "Responses", *(metric.header for metric in METRICS))
    lines = [_line(titles), _line(("---", *("---:" for _ in titles[1:])))]
    means = {title: scores["splits"][split] for split, title in SPLITS.items() if split in scores["splits"]}
    for label, part in (*scores["datasets"].items(), *means.items()):
        values = [part.get(metric.name) for metric in METRICS]
        cells = ["–" if value is None else fraction(value) for value in values]
        lines.append(_line((label, f"{part['n']:,}", *cells)))
    convention = scores["overall"]["ece_convention"]
    return "\n".join([f"**Confidence as {name}**, {sampled}", "", *lines, "", f"ECE: {convention}."])


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder: two evaluations of one model may end at the same time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
