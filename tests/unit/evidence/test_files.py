"""Evidence of a user's own file of responses, and the training sets that it makes possible."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft import build, measure
from calibsft.artifacts import read_manifest
from calibsft.errors import InputError
from calibsft.evidence import parts
from calibsft.evidence.collect import read_evidence
from calibsft.evidence.parts import file_parts
from calibsft.schema import KEYS
from judge_server import Server

REASONED = {True: ["12*3", "3*12", "12+12+12"], False: ["12*30", "3"]}


def written(folder: Path, **columns: list[Any]) -> Path:
    """Four questions with four responses each, of which one, two or three are right; in JSONL."""
    rows = []
    for question in range(4):
        for sample in range(4):
            correct = sample <= question % 3
            thought = REASONED[correct][sample % len(REASONED[correct])]
            text = f"<think>{thought}</think><answer>{36 if correct else 30}</answer><confidence>0.90</confidence>"
            rows.append(
                {
                    "question_id": f"q{question}",
                    "question": f"{question}?",
                    "response": text,
                    "correct": correct,
                }
            )
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    path = folder / "pool.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_is_cut_between_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 6)
    found = file_parts(written(tmp_path))
    assert [part.rows()["question_id"].unique().sort().to_list() for part in found] == [
        ["q0", "q1"],
        ["q2"],
        ["q3"],
    ]
    assert [part.name for part in found] == [f"part-0000{number}.parquet" for number in range(3)]
    assert pl.concat([part.keys() for part in found]).select(KEYS).is_unique().all()
    assert found[0].rows()["answer"].to_list()[:2] == ["36", "30"]


def test_sayself_on_a_file_by_an_encoder_whose_similarity_the_rule_chooses(
    tmp_path: Path, random_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, folder = written(tmp_path), tmp_path / "evidence"
    options: dict[str, Any] = {"embedding_model": str(random_checkpoint), "device": "cpu"}
    measure(rollouts=pool, names=["cluster-share"], out=folder, similarity="auto", **options)
    told = capsys.readouterr().err
    assert "the rule: the largest difference, on the first 16 responses" in told
    chosen = read_manifest(folder)["similarity"]
    assert f"similarity {chosen:g} links" in told and 0 < chosen <= 1
    shares = read_evidence(folder).collect()["cluster-share"]
    assert all(0 < Fraction(one["numerator"], one["denominator"]) <= 1 for one in shares)

    built = build(source=pool, evidence=folder, target="sayself", balance=False, out=tmp_path / "data")
    assert built.results["rows"] == 1 + 2 + 3 + 1, "correct responses alone"
    (named,) = read_manifest(tmp_path / "data")["evidence"]
    assert str(random_checkpoint) in named["cluster-share"] and "auto" in named["cluster-share"]


def test_a_similarity_that_was_named_is_kept_and_what_it_links_is_said(
    tmp_path: Path, random_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evidence"
    options: dict[str, Any] = {"embedding_model": str(random_checkpoint), "device": "cpu"}
    measure(rollouts=written(tmp_path), names=["cluster-share"], out=folder, similarity=0.5, **options)
    assert "similarity 0.5 links" in capsys.readouterr().err
    assert "similarity" not in read_manifest(folder), "the instrument names it"


def test_uait_on_a_file_with_log_probabilities(tmp_path: Path) -> None:
    pool = written(tmp_path, mean_logprob=[-0.1 * place for place in range(16)])
    measure(rollouts=pool, names=["mean-logprob"], out=tmp_path / "evidence")
    build(source=pool, evidence=tmp_path / "evidence", target="uait", balance=False, out=tmp_path / "data")
    rows = pl.read_parquet(tmp_path / "data" / "sft.parquet").sort("question_id", "sample")
    assert rows["target"].to_list()[:3] == pytest.approx([1.0, 0.904837, 0.818731], abs=1e-6)


def test_lovec_on_a_file_names_its_judge_and_rubric(tmp_path: Path, server: Server) -> None:
    server.answer = lambda body: (200, "7")
    pool = written(tmp_path)
    measure(rollouts=pool, names=["judge-score"], out=tmp_path / "evidence", judge="m", judge_url=server.url)
    build(source=pool, evidence=tmp_path / "evidence", target="lovec", balance=False, out=tmp_path / "data")
    assert set(pl.read_parquet(tmp_path / "data" / "sft.parquet")["target"]) == {0.7}
    assert read_manifest(tmp_path / "data")["evidence"] == [
        {"judge-score": "judge-score-1 m (rubric score-1)"}
    ]


def test_evidence_of_another_file_is_refused(tmp_path: Path) -> None:
    for name, first in {"one": -0.1, "two": -0.2}.items():
        pool = written(tmp_path, mean_logprob=[first] * 16)
        measure(rollouts=pool, names=["mean-logprob"], out=tmp_path / name)
    options: dict[str, Any] = {"source": pool, "target": "uait", "balance": False, "out": tmp_path / "data"}
    with pytest.raises(InputError, match=r"one: this is not evidence of the responses in .*pool\.jsonl"):
        build(evidence=tmp_path / "one", **options)
    build(evidence=tmp_path / "two", **options)
    with pytest.raises(InputError, match="a file has one folder of evidence"):
        build(evidence=[tmp_path / "two", tmp_path / "two"], **options)


def test_new_evidence_of_a_file_is_another_training_set(tmp_path: Path, server: Server) -> None:
    pool, folder = written(tmp_path), tmp_path / "evidence"
    options: dict[str, Any] = {"source": pool, "target": "lovec", "balance": False, "out": tmp_path / "data"}
    for score in ("7", "9"):
        server.answer = lambda body, score=score: (200, score)
        judge = {"judge": score, "judge_url": server.url}
        measure(rollouts=pool, names=["judge-score"], out=folder, fresh=True, **judge)
        if score == "7":
            build(evidence=folder, **options)
    with pytest.raises(InputError, match="evidence"):
        build(evidence=folder, **options)


def test_other_columns_of_a_file_play_no_part(tmp_path: Path) -> None:
    names = ["part", "row", "at", "answer", "n"]
    pool = written(tmp_path, **{name: ["x", "y"] * 8 for name in names})
    (only,) = file_parts(pool)
    assert len(only.rows()) == 16 and only.rows()["answer"].to_list()[:2] == ["36", "30"]


def test_what_a_file_lacks_is_one_sentence(tmp_path: Path) -> None:
    pool = written(tmp_path)
    with pytest.raises(
        InputError, match=r"mean-logprob needs mean_logprob, .* add the column, or give rollouts"
    ):
        measure(rollouts=pool, names=["mean-logprob"], out=tmp_path / "a")
    with pytest.raises(
        InputError, match=r"answer-votes needs kind, tolerance, grade, .* do not have; give rollouts"
    ):
        measure(rollouts=pool, names=["answer-votes"], out=tmp_path / "b")
    with pytest.raises(InputError, match="a file of responses needs no verdicts"):
        measure(rollouts=pool, verdicts=tmp_path, names=["mean-logprob"], out=tmp_path / "c")
    nested = written(tmp_path, mean_logprob=[[-0.5]] * 16)
    with pytest.raises(InputError, match="column mean_logprob holds lists or records; write one number"):
        measure(rollouts=nested, names=["mean-logprob"], out=tmp_path / "n")
    wrong = written(tmp_path, mean_logprob=[0.5] * 16)
    with pytest.raises(InputError, match=r"mean_logprob '0.5' is not a log-probability \(16 such rows\)"):
        measure(rollouts=wrong, names=["mean-logprob"], out=tmp_path / "d")


def test_rollouts_without_verdicts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    with pytest.raises(InputError, match="rollouts need their verdicts; give the folder"):
        measure(rollouts=tmp_path / "rollouts", names=["mean-logprob"], out=tmp_path / "e")
