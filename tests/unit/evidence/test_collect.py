"""Collecting evidence: measured once per shard and column, measured again when it must be, refused in one sentence."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.evidence import EVIDENCE
from calibsft.evidence.collect import choose_evidence, collect_evidence, read_evidence
from calibsft.evidence.context import Context
from calibsft.evidence.parts import run_parts
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.schema import KEYS
from command_process import ENVIRONMENT
from evidence_run import Run, write_run

NAMES = ["mean-logprob", "answer-votes"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return write_run(tmp_path / "run")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns as they are measured, once per shard."""
    seen: list[str] = []
    for name in NAMES:
        watch(monkeypatch, name, seen)
    return seen


def watch(monkeypatch: pytest.MonkeyPatch, name: str, seen: list[str], version: int = 1) -> None:
    found = EVIDENCE[name]

    def measure(rows: pl.DataFrame, context: Context) -> pl.Series:
        seen.append(name)
        return found.measure(rows, context)

    monkeypatch.setitem(EVIDENCE, name, replace(found, measure=measure, version=version))


def collect(run: Run, folder: Path, names: list[str] = NAMES, **settings: Any) -> dict[str, Any]:
    return collect_evidence(
        names,
        run_parts(run.rollouts, run.verdicts),
        EvidenceSettings(**settings),
        folder,
        "evidence",
        device="cpu",
    )


def test_shards_are_those_of_the_rollouts_with_keys_and_columns(run: Run, tmp_path: Path) -> None:
    facts = collect(run, tmp_path / "e")
    for shard in run.rollouts.glob("part-*.parquet"):
        found = pl.read_parquet(tmp_path / "e" / shard.name)
        assert found.columns == [*KEYS, *NAMES]
        assert found.select(KEYS).equals(pl.read_parquet(shard).select(KEYS))
    assert facts == {
        "evidence": {"mean-logprob": "mean-logprob-1", "answer-votes": "answer-votes-1"},
        "responses": 8,
        "measured": {"mean-logprob": 6, "answer-votes": 7},
    }


def test_what_is_there_is_not_measured_again(run: Run, tmp_path: Path, measured: list[str]) -> None:
    folder = tmp_path / "e"
    facts = collect(run, folder)
    assert measured == NAMES * 2
    before = read_evidence(folder).collect()
    assert collect(run, folder) == facts and measured == NAMES * 2
    (folder / "part-00001.parquet").unlink()
    collect(run, folder)
    assert measured == NAMES * 3
    assert read_evidence(folder).collect().equals(before)


def test_another_name_measures_its_column_only(run: Run, tmp_path: Path, measured: list[str]) -> None:
    collect(run, tmp_path / "e", NAMES[1:])
    collect(run, tmp_path / "e", NAMES[::-1])
    assert measured == [NAMES[1]] * 2 + [NAMES[0]] * 2
    assert read_evidence(tmp_path / "e").collect_schema().names() == [*KEYS, *NAMES]


def test_a_column_that_is_not_named_is_removed(run: Run, tmp_path: Path, measured: list[str]) -> None:
    collect(run, tmp_path / "e")
    collect(run, tmp_path / "e", NAMES[:1])
    assert read_evidence(tmp_path / "e").collect_schema().names() == [*KEYS, NAMES[0]]
    assert measured == NAMES * 2


def test_another_version_is_measured_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[str]
) -> None:
    collect(run, tmp_path / "e")
    measured.clear()
    watch(monkeypatch, "mean-logprob", [], version=2)
    assert collect(run, tmp_path / "e")["evidence"]["mean-logprob"] == "mean-logprob-2"
    assert measured == ["mean-logprob"] * 2


def test_another_instrument_is_measured_again(
    run: Run, tmp_path: Path, random_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, measured: list[str]
) -> None:
    watch(monkeypatch, "cluster-share", measured)
    settings: dict[str, Any] = {"embedding_model": str(random_checkpoint), "similarity": 0.5}
    names = [*NAMES, "cluster-share"]
    collect(run, tmp_path / "e", names, **settings)
    measured.clear()
    facts = collect(run, tmp_path / "e", names, **{**settings, "similarity": 1})
    assert measured == ["cluster-share"] * 2
    assert facts["evidence"]["cluster-share"] == f"cluster-share-1 {random_checkpoint} (cosine from 1)"


@pytest.mark.parametrize("damage", ["torn", "foreign"])
def test_a_damaged_shard_is_reported_and_measured_again(
    run: Run, tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    collect(run, tmp_path / "e")
    before, path = read_evidence(tmp_path / "e").collect(), tmp_path / "e" / "part-00000.parquet"
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-30])
    else:
        shutil.copy(path.with_name("part-00001.parquet"), path)
    measured.clear()
    collect(run, tmp_path / "e")
    assert f"{path} is damaged or does not hold the responses of" in capsys.readouterr().err
    assert measured == NAMES and read_evidence(tmp_path / "e").collect().equals(before)


def test_progress_counts_values_of_an_earlier_run_too(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect(run, tmp_path / "e", NAMES[:1])
    collect(run, tmp_path / "e")
    said = capsys.readouterr().err
    assert "evidence: 8/8 values" in said
    assert "evidence: 8 of 16 values were done before" in said and "evidence: 16/16 values" in said


@pytest.mark.parametrize(
    "names, sentence",
    [
        (["mean-logprobs"], "unknown evidence 'mean-logprobs'.*mean-logprob"),
        (["mean-logprob", "cluster-share"], "cluster-share needs a model .* evidence.embedding_model"),
        (["judge-score", "mean-logprob"], "judge-score needs a judge; name one as judge.model"),
        ([], "no evidence is named"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    run: Run, tmp_path: Path, names: list[str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        choose_evidence(names, EvidenceSettings(), JudgeSettings())
    with pytest.raises(InputError, match=sentence):
        collect(run, tmp_path / "e", names)
    assert not (tmp_path / "e").exists()


def test_folders_without_rollouts_verdicts_or_evidence_are_refused(run: Run, tmp_path: Path) -> None:
    empty = Run(tmp_path, tmp_path)
    with pytest.raises(InputError, match="no rollouts there"):
        collect(empty, tmp_path / "e")
    with pytest.raises(InputError, match="no evidence there"):
        read_evidence(tmp_path)
    graded = run.verdicts / "part-00001.parquet"
    graded.write_bytes((run.verdicts / "part-00000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"some responses of .*part-00001.parquet have no verdict there"):
        collect(run, tmp_path / "e")
    graded.unlink()
    with pytest.raises(InputError, match=r"part-00001.parquet: the verdicts on .* are missing; verify"):
        collect(run, tmp_path / "e")


def test_a_measure_of_the_wrong_type_is_a_bug_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(EVIDENCE["mean-logprob"], measure=lambda rows, context: rows["response"])
    monkeypatch.setitem(EVIDENCE, "mean-logprob", wrong)
    with pytest.raises(TypeError, match="evidence mean-logprob gave 5 values of String"):
        collect(run, tmp_path / "e")


def test_collecting_what_needs_no_model_loads_no_torch(run: Run, tmp_path: Path) -> None:
    assert "torch" not in loaded_by(run, tmp_path / "e", NAMES)


def loaded_by(run: Run, folder: Path, names: list[str]) -> list[str]:
    """The modules that a fresh interpreter holds after it collected evidence."""
    program = (
        "import sys; from pathlib import Path\n"
        "from calibsft.evidence.collect import collect_evidence\n"
        "from calibsft.evidence.parts import run_parts\n"
        "from calibsft.evidence.settings import EvidenceSettings\n"
        f"rollouts, verdicts = Path({str(run.rollouts)!r}), Path({str(run.verdicts)!r})\n"
        f"collect_evidence({names!r}, run_parts(rollouts, verdicts), EvidenceSettings(), Path({str(folder)!r}), 'evidence')\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
