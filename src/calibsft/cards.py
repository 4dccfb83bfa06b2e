"""Model cards: the frame that every checkpoint gets, and the results that an evaluation adds to it.

An evaluation adds a table for people and a `model-index` for programs to the card, and files beside it for the Hub's
leaderboards. All of this describes a checkpoint and is not part of it: nothing that reads or hashes a checkpoint looks
at it. Only cards that were made here are changed; those of other people's checkpoints are left alone.
"""

import fcntl
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from calibsft.artifacts import CARD, write_text
from calibsft.hub import name_and_revision
from calibsft.metrics.metric import fraction
from calibsft.metrics.registry import shown_in
from calibsft.model_index import HubDataset, index_results, leaderboard_entries, without_format
from calibsft.progress import info, warn
from calibsft.responses.prompts import Prompting
from calibsft.settings import Settings
from calibsft.text_table import markdown_row

# Where the Hub reads a model's results for leaderboards.
EVAL_RESULTS = ".eval_results"
TABLES = "<!-- calibsft: calibration -->"
NOT_MEASURED = "Not measured yet: `calibsft eval --model THIS --benchmarks … --out eval` adds the table."
METRICS = shown_in("card")
PART = re.compile(r"(\d+) (?:of \d+ )?(?:random )?questions of ", re.ASCII)
CALIBRATED = """The stated confidence is calibrated on questions like those it was trained on; measure it on
yours (`calibsft score`) before you rely on it."""
UNCALIBRATED = (
    "The stated confidence is no better calibrated than before: the training was for the format alone."
)
SPLITS = {"id": "In distribution, mean", "ood": "Out of distribution, mean"}


def model_card(
    start: str,
    tags: tuple[str, ...],
    title: str,
    story: str,
    settings: Settings,
    prompting: Prompting,
    limits: str = "",
) -> str:
    """The card as Markdown with the Hub's front matter; `story` says how the model was made from `start`.

    Parameters
    ----------
    start : the checkpoint that this one was trained from, empty for one trained from scratch.
    limits : what it does not promise; default: calibration on other questions than those it was trained on.
    """
    from huggingface_hub import ModelCardData  # heavy, and needed only where a checkpoint is written

    about = ["calibration", "confidence", "calibsft", *tags]
    base = name_and_revision(start)[0] if start else None
    head = ModelCardData(base_model=base, library_name="transformers", tags=about)
    details = json.dumps(settings.model_dump(mode="json"), indent=2)
    written = prompting.format
    arguments = (
        f" and with `{json.dumps(dict(prompting.template))}` for its chat template"
        if prompting.template
        else ""
    )
    return f"""---
{head.to_yaml()}
---

# {title}

{story}

## Calibration

{TABLES}

{NOT_MEASURED}

## Use

**Response format** ({written.name}): `<think>…</think> <answer>…</answer> <confidence>…</confidence>`. Ask with this
system prompt{arguments}:

> {written.system_prompt}

```json
{details}
```

**What it does not promise.** {limits or CALIBRATED}
"""


def part_of(name: str, limit: int | None, subset: int | None) -> str:
    """Which questions of `name` were asked, in a few words that `PART` reads; empty for all of them."""
    if limit and subset and limit < subset:
        return f"the first {limit} of {subset} random questions of {name}"
    if subset:
        return f"{subset} random questions of {name}"
    return f"the first {limit} questions of {name}" if limit else ""


def add_calibration(
    model: str,
    confidence_format: str,
    scores: dict[str, Any],
    sampled: str,
    part: str = "",
    datasets: Mapping[str, HubDataset] | None = None,
) -> None:
    """Put the scores of an evaluation into the card of the checkpoint folder `model`, and those of leaderboards beside it.

    A later evaluation in the same format replaces what an earlier one put there, unless it asked fewer questions of a benchmark: a quick
    look does not hide a full evaluation. Does nothing for a name on the Hub, or a checkpoint whose card was not made here.

    Parameters
    ----------
    sampled : how the responses were sampled, in a few words.
    part : which questions were asked, in the words of `part_of`; empty for all.
    datasets : what the Hub calls the questions of benchmarks, by name.
    """
    card = Path(model) / CARD
    if not card.is_file():
        return
    folder = os.open(model, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two evaluations of one model may end at the same time
        text = card.read_text(encoding="utf-8")
        if TABLES not in text:
            return
        if _asked_more(text, confidence_format, part):
            info(f"{card}: keeps the table of an evaluation on more questions than {part}")
            return
        how = ", ".join(filter(None, (sampled, part)))
        text = _with_table(text, confidence_format, _section(confidence_format, scores, how))
        write_text(card, _with_index(text, card, confidence_format, scores, how, datasets or {}))
        _write_entries(card.parent, confidence_format, scores, how, datasets or {})
    finally:
        os.close(folder)


def _with_index(
    text: str,
    path: Path,
    confidence_format: str,
    scores: dict[str, Any],
    how: str,
    datasets: Mapping[str, HubDataset],
) -> str:
    """The card with these results in the `model-index` of its head, which keeps those of other formats."""
    from huggingface_hub import ModelCard

    try:
        card = ModelCard(text, ignore_metadata_errors=True)
    except (ValueError, yaml.YAMLError):
        warn(
            f"{path}: its head cannot be read, so results go into its table alone; fix the YAML above the title"
        )
        return text
    found = index_results(scores, datasets, confidence_format, how)
    others = without_format(card.data.get("eval_results", []), confidence_format)
    card.data["model_name"] = card.data.get("model_name") or _name_of(path.parent)
    card.data["eval_results"] = [*others, *found]
    return str(card)


def _name_of(checkpoint: Path) -> str:
    """What the index calls a checkpoint: its folder's name, or that of the stage where all checkpoints are called alike."""
    place = checkpoint.resolve()
    return place.parent.name if place.name == "model" else place.name


def _write_entries(
    checkpoint: Path,
    confidence_format: str,
    scores: dict[str, Any],
    how: str,
    datasets: Mapping[str, HubDataset],
) -> None:
    """Write one file for each benchmark that has a leaderboard on the Hub."""
    from huggingface_hub import eval_result_entries_to_yaml

    for name, entry in leaderboard_entries(scores, datasets, confidence_format, how).items():
        listed = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)
        write_text(checkpoint / EVAL_RESULTS / f"{name}.yaml", listed)


def _asked_more(text: str, name: str, part: str) -> bool:
    """Whether the table of format `name` on the card covers more questions of a benchmark than `part`."""
    start, end = _marks(name)
    if not part or start not in text:
        return False
    table = text.partition(start)[2].partition(end)[0]
    before, now = (min(map(int, PART.findall(words)), default=math.inf) for words in (table, part))
    return before > now


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
    lines = [markdown_row(titles), markdown_row(("---", *("---:" for _ in titles[1:])))]
    means = {title: scores["splits"][split] for split, title in SPLITS.items() if split in scores["splits"]}
    for label, part in (*scores["datasets"].items(), *means.items()):
        values = [part.get(metric.name) for metric in METRICS]
        cells = ["–" if value is None else fraction(value) for value in values]
        lines.append(markdown_row((label, f"{part['n']:,}", *cells)))
    convention = scores["overall"]["ece_convention"]
    return "\n".join([f"**Confidence as {name}**, {sampled}", "", *lines, "", f"ECE: {convention}."])
