"""kill -9 while evidence is measured, then the same again: columns and replies that were there are not asked for twice."""

import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.evidence.collect import collect_evidence, read_evidence
from calibsft.evidence.parts import run_parts
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from command_process import kill_when
from evidence_run import write_run
from judge_server import Server

NAMES = ["mean-logprob", "judge-score"]


def test_after_a_kill_only_what_is_missing_is_measured(server: Server, tmp_path: Path) -> None:
    run, folder, release = write_run(tmp_path / "run"), tmp_path / "evidence", threading.Event()

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if len(server.bodies) > 6:
            release.wait(60)
        return 200, "8"

    server.answer = answer
    program = (
        "from pathlib import Path\n"
        "from calibsft.evidence.collect import collect_evidence\n"
        "from calibsft.evidence.parts import run_parts\n"
        "from calibsft.evidence.settings import EvidenceSettings\n"
        "from calibsft.judge.settings import JudgeSettings\n"
        f"judge = JudgeSettings(model='m', url={server.url!r}, concurrency=1)\n"
        f"rollouts, verdicts = Path({str(run.rollouts)!r}), Path({str(run.verdicts)!r})\n"
        f"collect_evidence({NAMES!r}, run_parts(rollouts, verdicts), EvidenceSettings(), Path({str(folder)!r}), 'e', judge)\n"
    )
    kill_when([sys.executable, "-c", program], lambda: len(server.bodies) > 6)
    release.set()
    assert set(NAMES) < set(pl.read_parquet_schema(folder / "part-00000.parquet"))
    assert NAMES[1] not in pl.read_parquet_schema(folder / "part-00001.parquet")
    whole, half = (path.stat().st_mtime_ns for path in sorted(folder.glob("part-*.parquet")))
    server.bodies = []
    judge = JudgeSettings(model="m", url=server.url)
    facts = collect_evidence(
        NAMES, run_parts(run.rollouts, run.verdicts), EvidenceSettings(), folder, "e", judge
    )
    assert len(server.bodies) == 2, "five replies belong to the first shard, and one to the second"
    assert facts["measured"] == {"mean-logprob": 6, "judge-score": 8}
    assert (
        read_evidence(folder).collect()["judge-score"].to_list() == [{"numerator": 4, "denominator": 5}] * 8
    )
    again, completed = (path.stat().st_mtime_ns for path in sorted(folder.glob("part-*.parquet")))
    assert again == whole and completed > half
