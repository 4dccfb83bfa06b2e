"""A shard that was not finished: its samples are kept, and only the others are drawn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.engines import default_engine, load_engine
from calibsft.engines.engine import Completion, Engine, OnSample, Request, Sampling
from calibsft.errors import InputError
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rollouts import collect as collect_module
from calibsft.rollouts import partial
from calibsft.rollouts.collect import Collector
from calibsft.schema import Question

QUESTIONS = [Question(str(a), f"{a}*{a + 1}", "0", "exact", "d") for a in range(10, 16)]
SAMPLES = 4


class Stopped(Exception):
    pass


class Stopping:
    """An engine that stops after so many samples, and remembers which were asked for."""

    def __init__(self, engine: Engine, after: int | None = None) -> None:
        self._engine, self._after = engine, after
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        self.asked += [seed for request in requests for seed in request.open]
        done = 0

        def counted(request: int, sample: int, completion: Completion) -> None:
            nonlocal done
            if done == self._after:
                raise Stopped
            done += 1
            assert on_sample is not None
            on_sample(request, sample, completion)

        return self._engine.generate(requests, sampling, counted)


@pytest.fixture(scope="module")
def engine(short_base: Path) -> Engine:
    return load_engine(default_engine(max_rows=3), str(short_base), "cpu")


def collect(engine: Any, folder: Path, questions: list[Question] = QUESTIONS) -> pl.DataFrame:
    collector = Collector(engine, Prompting(FORMATS["probability"]), Sampling(max_new_tokens=30), 0)
    collector.collect(questions, lambda _: SAMPLES, folder, 3, "rollout")
    return pl.read_parquet(folder / "part-*.parquet")


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


@pytest.mark.parametrize("after", [1, 5, 11])
def test_finished_samples_are_kept_and_not_drawn_again(engine: Engine, tmp_path: Path, after: int) -> None:
    whole = collect(engine, tmp_path / "whole")
    with pytest.raises(Stopped):
        collect(Stopping(engine, after), tmp_path / "part")
    again = Stopping(engine)
    rows = collect(again, tmp_path / "part")
    assert rows.equals(whole)
    assert len(again.asked) == len(whole) - after
    assert not journals(tmp_path / "part")


def test_a_killed_run_has_written_what_is_older_than_some_seconds(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(partial.PartialShard, "save", _noting(partial.PartialShard.save, noted := []))
    with pytest.raises(Stopped):
        collect(Stopping(engine, 2), tmp_path)
    assert noted[:2] == [1, 1]  # not only at the end


def _noting(save: Any, noted: list[int]) -> Any:
    def note(self: Any) -> None:
        noted.append(len(self._unsaved))
        save(self)

    return note


def test_a_fast_engine_writes_no_journal(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial, "SAVE_SECONDS", 3600.0)
    found: list[list[Path]] = []
    monkeypatch.setattr(collect_module, "remove_journal", lambda _: found.append(journals(tmp_path)))
    collect(engine, tmp_path)
    assert found == [[], []]


def test_a_run_killed_before_it_removed_a_journal_leaves_nothing_behind(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial, "SAVE_SECONDS", 0.0)
    with monkeypatch.context() as killed:
        killed.setattr(collect_module, "remove_journal", _stopped)
        with pytest.raises(Stopped):
            collect(engine, tmp_path)
    assert journals(tmp_path) and len(list(tmp_path.glob("part-*.parquet"))) == 1
    collect(engine, tmp_path)
    assert not journals(tmp_path)


def _stopped(path: Path) -> None:
    raise Stopped


@pytest.mark.parametrize(
    "damage",
    [b'{"dataset": "d", "question_id', b"\xff\xfe", b"[]", b'{"dataset": 1}', b"[" * 100_000, b"null", b"7"],
)
def test_a_damaged_line_is_drawn_again(engine: Engine, tmp_path: Path, damage: bytes) -> None:
    whole = collect(engine, tmp_path / "whole")
    with pytest.raises(Stopped):
        collect(Stopping(engine, 5), tmp_path / "part")
    (journal,) = journals(tmp_path / "part")
    lines = [line for line in journal.read_bytes().splitlines() if line]
    journal.write_bytes(b"\n".join([damage, *lines[:-1], lines[-1][:40]]))  # killed within the last line
    again = Stopping(engine, 2)
    with pytest.raises(Stopped):
        collect(again, tmp_path / "part")
    assert len(again.asked) == len(QUESTIONS) // 2 * SAMPLES - 4
    last = Stopping(engine)
    assert collect(last, tmp_path / "part").equals(whole)
    assert len(last.asked) == len(whole) - 4 - 2


def test_samples_outside_the_plan_do_not_count(engine: Engine, tmp_path: Path) -> None:
    whole = collect(engine, tmp_path / "whole")
    with pytest.raises(Stopped):
        collect(Stopping(engine, 5), tmp_path / "part")
    (journal,) = journals(tmp_path / "part")
    row = json.loads(journal.read_text().splitlines()[-1])
    with journal.open("a") as out:
        out.write(json.dumps({**row, "question_id": "another"}) + "\n")
    assert collect(engine, tmp_path / "part").equals(whole)


def test_samples_of_other_questions_are_not_taken_for_these(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        collect(Stopping(engine, 5), tmp_path)
    others = [Question(q.id, q.text[::-1], "0", "exact", "d") for q in QUESTIONS]
    with pytest.raises(InputError, match=r"the questions have changed since its responses were sampled"):
        collect(engine, tmp_path, others)
