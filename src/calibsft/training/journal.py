"""The journal of a training: metrics.jsonl, the progress line, and the mark of complete checkpoints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from calibsft.artifacts import write_text
from calibsft.progress import FIRST_PROCESS, Progress
from calibsft.training.checkpoints import COMPLETE_MARK


class Journal(TrainerCallback):  # type: ignore[misc]
    """Writes metrics.jsonl and the progress line, and marks complete checkpoints.

    `resumed_at` is the last finished step of an earlier run, `note` makes the end of the progress line from a step's
    metrics, and a step has `updates_per_step` optimiser updates.
    """

    def __init__(
        self,
        path: Path,
        resumed_at: int,
        progress: Progress,
        note: Callable[[dict[str, float]], str],
        updates_per_step: int = 1,
    ) -> None:
        self._path, self._progress, self._note, self._updates = path, progress, note, updates_per_step
        if FIRST_PROCESS:
            write_text(path, "".join(lines_up_to(path, resumed_at)))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero or logs is None or "loss" not in logs:
            return
        # The epoch starts again at 0 when resumed.
        logs = {name: value for name, value in logs.items() if name != "epoch"}
        note = self._note(logs)  # may refuse the step, which is then not written
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": state.global_step // self._updates, **logs}) + "\n")
        self._progress.advance(1, note=note)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            write_text(Path(args.output_dir, f"checkpoint-{state.global_step}", COMPLETE_MARK), "")


def lines_up_to(path: Path, step: int) -> list[str]:
    """Journal lines of steps that the resumed training will not repeat, without an incomplete last line."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
