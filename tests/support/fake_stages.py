"""Stages that only leave marks, for tests of real worker processes.

A fake stage is a line of `plan.json` in the run folder. It writes down when it
begins and ends, and can wait for the mark of another one: two stages that wait for each other's beginning
finish only if they really run at the same time, however slow the machine is.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

from calibsft import progress
from calibsft.artifacts import read_manifest
from calibsft.errors import InputError
from calibsft.pipeline import Planned
from calibsft.stages.stage import Stage

PATIENCE = 60.0


def marks(root: Path) -> list[str]:
    """What the stages of a run have written down, in order of time."""
    path = root / "marks.txt"
    return path.read_text().splitlines() if path.is_file() else []


def leave(root: Path, mark: str) -> None:
    with (root / "marks.txt").open("a") as out:
        out.write(mark + "\n")


class FakeStage(Stage):
    """Does what its line of the plan says, and reads the stages that it needs."""

    kind: ClassVar[str] = "fake"

    root: Path
    line: dict[str, Any]

    @property
    def shared(self) -> bool:  # type: ignore[override]
        return bool(self.line.get("trains"))

    def shaped_by(self) -> dict[str, Any]:
        return dict(self.line.get("settings", {}))

    def inputs(self) -> dict[str, str]:
        return {name: read_manifest(self.root / name)["content_hash"] for name in self.line.get("needs", ())}

    def reads(self) -> tuple[Path, ...]:
        return tuple(self.root / name for name in self.line.get("needs", ()))

    def work(self, folder: Path, label: str) -> dict[str, Any]:
        name = self.line["name"]
        leave(self.root, f"{name} began")
        deadline = time.monotonic() + PATIENCE
        while (awaited := self.line.get("awaits")) and awaited not in marks(self.root):
            assert time.monotonic() < deadline, f"{name} waited in vain for '{awaited}'"
            time.sleep(0.01)
        time.sleep(self.line.get("rests", 0.0))
        if self.line.get("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.line.get("fails"):
            leave(self.root, f"{name} failed")
            raise InputError(self.line["fails"])
        (folder / "made").write_text(name)
        leave(self.root, f"{name} ended")
        return {"process": os.getpid(), "alone": progress.ALONE}


def fake_plan(root: Path) -> list[Planned]:
    lines = json.loads((root / "plan.json").read_text())
    return [
        Planned(line["name"], FakeStage(root=root, line=line), tuple(line.get("needs", ()))) for line in lines
    ]
