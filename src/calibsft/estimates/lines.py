"""An estimate as lines of text: a table of stages, notes on how its numbers come about, a table of GPU memory."""

from collections.abc import Iterator

from calibsft.estimates import paper
from calibsft.estimates.estimate import Estimate, StageEstimate
from calibsft.estimates.gpus import GB, Load
from calibsft.text_table import table_lines

NONE, UNKNOWN = "-", "?"
LETTERS = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
HEADER = ("stage", "responses", "steps", "tokens ≤", "disk ≤", "while running ≤", "GPU-hours")


def estimate_lines(found: Estimate) -> list[str]:
    """The whole estimate."""
    rows = [HEADER, *map(_row, found.stages), _total(found.stages)]
    return [*table_lines(rows), "", *_notes(found), *_memory(found)]


def _row(stage: StageEstimate) -> tuple[str, ...]:
    counts = stage.counts
    return (
        stage.name,
        _count(counts.responses),
        _count(counts.steps),
        _short(counts.tokens),
        _bytes(stage.disk.kept),
        _bytes(stage.disk.running),
        _hours(stage.hours),
    )


def _total(stages: list[StageEstimate]) -> tuple[str, ...]:
    """The sums of what adds up; unknown as soon as a part is. Of the disk while running, the largest."""
    kept = [stage.disk.kept for stage in stages]
    running = [stage.disk.running for stage in stages]
    hours = [stage.hours for stage in stages]
    return (
        "in all",
        "",
        "",
        "",
        _bytes(None if None in kept else sum(size or 0 for size in kept)),
        _bytes(None if None in running else max(size or 0 for size in running)),
        _hours(None if None in hours else sum(hour or 0 for hour in hours)),
    )


def _notes(found: Estimate) -> Iterator[str]:
    yield "Responses and steps are counted. Tokens, disk and memory are upper bounds: every response as long as allowed."
    built: dict[str, list[str]] = {}
    for stage in found.stages:
        if stage.counts.values:
            built.setdefault(_training_rows(stage), []).append(stage.name)
    yield from (f"{', '.join(names)}: {sentence}." for sentence, names in built.items())
    if any(stage.counts.filters for stage in found.stages):
        more = paper.GENERATED_BATCHES / paper.FILLED_STEPS
        yield (
            "RL is counted by the responses that it trains on; with dynamic sampling it samples more, about"
            f" {more:g} times as many in the paper."
        )
    yield from _on_hours(found)


def _training_rows(stage: StageEstimate) -> str:
    values = stage.counts.values
    sentence = f"{values} target values, and as many rows of each as of the rarest"
    return (
        f"{sentence}: {stage.rows:,} rows if that has {paper.SMALLEST_GROUP}, as in the paper"
        if stage.rows
        else sentence
    )


def _on_hours(found: Estimate) -> Iterator[str]:
    if found.on_cpu:
        yield "Runs on a CPU: no GPU-hours and no GPU memory."
        return
    if found.rate is not None:
        yield f"GPU-hours of sampling are for {found.rate:g} tokens per second and GPU, at most so many tokens."
    if any(stage.hours is None for stage in found.stages):
        yield f"GPU-hours with a {UNKNOWN} are unknown: the paper's are of {paper.MODEL} alone; --rate gives those of sampling."
    else:
        what = "GPU-hours of trainings" if found.rate else "GPU-hours"
        yield f"{what} are the paper's: its own GPUs, all weights trained, scaled by responses."


def _memory(found: Estimate) -> Iterator[str]:
    if found.on_cpu:
        return
    if found.shape is None:
        yield f"GPU memory and checkpoints are unknown: the shape of {found.model} is not known here; download it, or give a folder."
        return
    unknown = [stage.name for stage in found.stages if stage.loads is None]
    if unknown:
        yield f"GPU memory is unknown for {', '.join(unknown)}: how their launcher spreads them is not known."
    if found.memory is None:
        yield "Whether it fits is not checked, because there is no GPU here; set launch.gpu_memory_gb=80."
    yield ""
    yield from _memory_table(found)


def _memory_table(found: Estimate) -> list[str]:
    """One row for all stages with the same parts on the same GPUs."""
    same: dict[tuple[str, ...], list[str]] = {}
    for load in found.loads:
        same.setdefault(_cells(load, found.memory), []).append(load.stage)
    rows = [(_stages(stages), *cells) for cells, stages in same.items()]
    header = ("GB of each GPU", "GPUs", "at most", "of", "largest parts first")
    return table_lines([header, *rows], left=(0, 1, 4))


def _cells(load: Load, memory: float | None) -> tuple[str, ...]:
    gpus = ",".join(load.gpus) + (f" ({load.layout.sharding.value})" if load.layout else "")
    largest = sorted(load.parts.items(), key=lambda part: -part[1])
    parts = ", ".join(f"{name} {size / GB:.1f}" for name, size in largest)
    return gpus, f"{load.peak / GB:.1f}", UNKNOWN if memory is None else f"{memory / GB:.1f}", parts


def _stages(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}" if number else NONE


def _short(number: float | None, unit: str = "") -> str:
    if not number:
        return UNKNOWN if number is None else NONE
    letter, size = next((one for one in LETTERS if number >= one[1]), ("", 1))
    return f"{number / size:.3g} {letter}{unit}"


def _bytes(size: float | None) -> str:
    return _short(size, "B")


def _hours(hours: float | None) -> str:
    return UNKNOWN if hours is None else f"{hours:,.1f}" if hours else NONE
