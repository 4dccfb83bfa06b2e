"""The journal of a training: metrics.jsonl, the progress line, and the mark of complete checkpoints."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from calibsft.artifacts import write_text
from calibsft.progress import FIRST_PROCESS, Progress
from calibsft.training.checkpoints import COMPLETE_MARK


class Journal(TrainerCallback):  # type: ignore[misc]
    """Writes metrics.jsonl and the progress line, and marks complete checkpoints.

    Parameters
    ----------
    resumed_at
        The last finished step of an earlier run.
    updates_per_step
        Optimiser updates per step of this journal.
    note
        Makes the end of the progress line from a step's metrics.
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
            write_text(path, "".join(_lines_up_to(path, resumed_at)))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero or logs is None or "loss" not in logs:
            return
        logs = {
            name: value for name, value in logs.items() if name != "epoch"
        }  # starts again at 0 when resumed
        note = self._note(logs)  # may refuse the step, which is then not written
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": state.global_step // self._updates, **logs}) + "\n")
        self._progress.advance(1, note=note)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            write_text(Path(args.output_dir, f"checkpoint-{state.global_step}", COMPLETE_MARK), "")


def _lines_up_to(path: Path, step: int) -> Sequence[str]:
    """Journal lines of steps that the resumed training will not repeat, without an incomplete last line."""
    if not path.is_file():
        return []
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")
    ]
    return [line for line in lines if json.loads(line)["step"] <= step]
