"""Merge the parts of a rollout that several machines sampled into one folder, as one machine would have left it."""

import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibsft.artifacts import QUESTIONS, StageFolder, read_manifest, shards, write_atomic
from calibsft.artifacts.records import changed, read_record
from calibsft.errors import InputError
from calibsft.rollouts.usage import read_usage

KIND = "rollout"
# Facts of a manifest that are the same for every part.
COMMON = ("lineage", "training_seed", "device", "questions")


def merge(parts: Sequence[Path], out: Path) -> None:
    """Write the rollouts of all `parts`, finished folders of `calibsft rollout --shard`, into `out`."""
    records = [_record(part) for part in parts]
    first = records[0]
    for part, record in zip(parts, records, strict=True):
        difference = changed(_whole(first), _whole(record)["settings"], record["inputs"])
        if difference:
            raise InputError(
                f"{part}: it is not part of the same rollout as {parts[0]} ({difference}); merge parts of one rollout"
            )
    _require_all([str(record["settings"]["shard"]) for record in records])
    folder = StageFolder(out, KIND, _whole(first)["settings"], first["inputs"], tuple(parts), label="merge")
    folder.perform(lambda path: _copy(parts, path), fresh=False)


def _record(part: Path) -> dict[str, Any]:
    record = read_record(part)
    if record is None or record.get("stage") != KIND or not record["settings"].get("shard"):
        raise InputError(f"{part}: not a part of a rollout; give folders that calibsft rollout --shard wrote")
    read_manifest(part)  # refuses unfinished and damaged ones
    return record


def _whole(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "settings": {**record["settings"], "shard": None}}


def _require_all(found: Sequence[str]) -> None:
    """Refuse parts that are missing, given twice, or of other divisions."""
    of = int(found[0].split("/")[1])
    wanted = [f"{number}/{of}" for number in range(1, of + 1)]
    for part in wanted:
        if found.count(part) != 1:
            raise InputError(
                f"part {part} was given {found.count(part)} times; give each of the {of} parts once"
            )
    for part in found:
        if part not in wanted:
            raise InputError(
                f"part {part} is from another division than {found[0]}; give parts of one division"
            )


def _copy(parts: Sequence[Path], out: Path) -> dict[str, Any]:
    """Copy questions and shards; returns the facts for the manifest."""
    for source in [parts[0] / QUESTIONS, *(shard for part in parts for shard in shards(part))]:
        write_atomic(out / source.name, partial(shutil.copyfile, source))
    manifests = [read_manifest(part) for part in parts]
    facts = {name: manifests[0][name] for name in COMMON if name in manifests[0]}
    added = ("tokens", "wall_seconds", "cpu_seconds")
    sums = {name: sum(manifest[name] for manifest in manifests) for name in added}
    peak = max(manifest["peak_memory_mb"] for manifest in manifests)
    usage: Counter[str] = Counter()
    for part in parts:
        usage.update(read_usage(part))
    return {**facts, **sums, "peak_memory_mb": peak, **({"usage": usage} if usage else {})}
