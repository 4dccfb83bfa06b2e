"""One training set from several rollout folders: what is counted together, what is recorded, what is refused."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import polars as pl
import pytest

import calibsft as package
from calibsft.artifacts import QUESTIONS, StageFolder, file_hash, read_manifest, shard_name, write_parquet
from calibsft.report.responses import Origin, set_of
from calibsft.responses.parse import render
from calibsft.rollouts.collect import rollouts_frame
from calibsft.rollouts.plan import questions_frame
from calibsft.schema import KEYS, Question, Rollout
from command import Command

MARKS = {"q1": "RRRW", "q2": "RWWW", "q3": "RRWW", "q4": "RRRR", "q5": "WWWW", "q6": "RWRW"}
Sampled = Callable[..., None]


@pytest.fixture
def sampled(calibsft: Command) -> Sampled:
    """Finished rollouts and their verdicts: `name` and `name`-v, with a shard for each question."""

    def make(
        name: str, marks: Mapping[str, str], first: int = 0, wording: str = "{}?", format: str = "probability"
    ) -> None:
        said = {"probability": "0.50", "integer": "5"}[format]
        asked = [Question(question, wording.format(question), ("7",), "exact", "d") for question in marks]

        def work(folder: Path) -> dict[str, object]:
            write_parquet(folder / QUESTIONS, questions_frame(asked))
            for number, (question, outcomes) in enumerate(marks.items()):
                texts = [
                    render(f"{question} {i}", "7" if mark == "R" else "8", said)
                    for i, mark in enumerate(outcomes, first)
                ]
                rows = [
                    Rollout("d", question, i, text, (i,), True, -0.25 * i, None)
                    for i, text in enumerate(texts, first)
                ]
                write_parquet(folder / shard_name(number), rollouts_frame(rows))
            return {"lineage": []}

        StageFolder(Path(name), "rollout", {"format": format}, {}).perform(work, fresh=False)
        code, _, err = calibsft("verify", name, "--format", format, "--out", f"{name}-v")
        assert code == 0, err

    return make


def merged(*names: str, out: str = "data") -> list[str]:
    """The words that build a training set of these folders."""
    return ["build", *names, *(word for name in names for word in ("--verdicts", f"{name}-v")), "--out", out]


def part(questions: Iterable[str]) -> dict[str, str]:
    return {question: MARKS[question] for question in questions}


def refusal(calibsft: Command, *words: str) -> str:
    code, out, err = calibsft(*words)
    assert (code, out) == (2, "") and err.count("\n") == 1
    return err


@pytest.mark.parametrize("options", [["--redraws", "2"], ["--no-balance", "--samples", "3"]])
def test_folders_with_different_questions_give_what_one_folder_with_all_would(
    calibsft: Command, sampled: Sampled, options: list[str]
) -> None:
    sampled("all", MARKS)
    sampled("a", part(["q1", "q2"]))
    sampled("b", part(["q3", "q4", "q5", "q6"]))
    assert calibsft(*merged("all", out="one"), *options)[0] == 0
    code, out, err = calibsft(*merged("a", "b", out="two"), *options)
    assert code == 0 and "to 6 questions" in out, err
    for name in ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name


def test_other_samples_of_a_question_count_with_it(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", {"q1": "RR", "q2": "WW"})
    sampled("b", {"q1": "WW", "q2": "WR"}, first=2)
    assert calibsft(*merged("a", "b"), "--no-balance")[0] == 0
    rows = pl.read_parquet("data/sft.parquet")
    assert dict(rows.select("question_id", "q").unique().iter_rows()) == {"q1": 0.5, "q2": 0.25}
    assert rows.select(KEYS).n_unique() == 8 and set(rows["rollouts"]) == {4}


def test_the_manifest_has_the_content_of_every_folder(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1", "q2"]))
    sampled("b", part(["q3"]))
    assert calibsft(*merged("a", "b"))[0] == 0
    folders = {"rollout": "a", "verify": "a-v", "rollout-2": "b", "verify-2": "b-v"}
    recorded = read_manifest(Path("data"))
    assert recorded["inputs"] == {
        name: read_manifest(Path(folder))["content_hash"] for name, folder in folders.items()
    }
    assert recorded["lineage"] == []
    assert "done before, skipped" in calibsft(*merged("a", "b"))[2]
    sampled("c", part(["q4"]))
    assert "its input 'rollout-2' has changed" in refusal(calibsft, *merged("a", "c"))
    Path("b/part-00000.parquet").write_bytes(b"")
    assert "b/part-00000.parquet: damaged" in refusal(calibsft, *merged("a", "b", out="other"))


def test_python_takes_lists_of_folders(sampled: Sampled) -> None:
    sampled("a", part(["q1", "q2"]))
    sampled("b", part(["q3"]))
    found = package.build(source=["a", Path("b")], verdicts=["a-v", "b-v"], out="data")
    assert found.results["questions"] == 3


def test_evidence_is_given_for_each_folder(calibsft: Command, sampled: Sampled) -> None:
    for name, questions in {"a": ["q1", "q2"], "b": ["q3"]}.items():
        sampled(name, part(questions))
        words = ("evidence", name, "--verdicts", f"{name}-v", "--names", "mean-logprob", "--out", f"{name}-e")
        assert calibsft(*words)[0] == 0
    uait = [*merged("a", "b"), "--target", "uait", "--no-balance"]
    said = "2 rollout folders were given and --evidence 1 times; give it once for each"
    assert said in refusal(calibsft, *uait, "--evidence", "a-e")
    code, _, err = calibsft(*uait, "--evidence", "a-e", "--evidence", "b-e")
    assert code == 0, err
    assert len(pl.read_parquet("data/sft.parquet")) == 12
    assert {"evidence", "evidence-2"} < read_manifest(Path("data"))["inputs"].keys()


@pytest.mark.parametrize("given", [1, 3])
def test_another_number_of_verdicts_is_refused(calibsft: Command, sampled: Sampled, given: int) -> None:
    sampled("a", part(["q1"]))
    sampled("b", part(["q2"]))
    words = ["build", "a", "b", *["--verdicts", "a-v"] * given, "--out", "data"]
    said = f"2 rollout folders were given and --verdicts {given} times; give it once for each rollout folder, in their order"
    assert said in refusal(calibsft, *words)
    assert not Path("data").exists()


def test_verdicts_in_another_order_are_refused(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1"]))
    sampled("b", part(["q2"]))
    said = refusal(calibsft, "build", "a", "b", "--verdicts", "b-v", "--verdicts", "a-v", "--out", "data")
    assert "b-v: these are not verdicts on the rollouts in a; run calibsft verify a first" in said


def test_the_same_sample_in_two_folders_is_refused(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1", "q2"]))
    sampled("b", {"q3": "RW", "q2": "RW"}, first=1)
    said = "sample 1 of question 'q2' is in a and b (2 such responses); merge folders with other questions or other samples"
    assert said in refusal(calibsft, *merged("a", "b"))
    assert "a: this rollout folder is given twice; give it once" in refusal(calibsft, *merged("a", "a"))


def test_an_id_that_stands_for_different_questions_is_refused(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1", "q2"]))
    sampled("b", part(["q2"]), first=4, wording="How much is {}?")
    said = "question 'q2' is another one in a and b; give every question its own id before sampling"
    assert said in refusal(calibsft, *merged("a", "b"))


def test_folders_of_two_formats_are_refused(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1"]))
    sampled("b", part(["q2"]), format="integer")
    said = "b-v: these verdicts are for the format 'integer' and those in a-v for 'probability'; merge rollouts of one format"
    assert said in refusal(calibsft, *merged("a", "b"))


def test_files_are_not_merged(calibsft: Command, sampled: Sampled) -> None:
    sampled("a", part(["q1"]))
    Path("pool.jsonl").write_text("{}\n")
    for words in (["a", "pool.jsonl"], ["pool.jsonl", "a"], ["pool.jsonl", "pool.jsonl"]):
        said = refusal(calibsft, "build", *words, "--verdicts", "a-v", "--out", "data")
        assert (
            "pool.jsonl: not a rollout folder, and only those can be merged; put the rows of all files into one"
            in said
        )


def test_a_report_knows_all_folders_of_a_training_set(
    calibsft: Command, sampled: Sampled, tmp_path: Path
) -> None:
    sampled("a", part(["q1", "q2"]))
    sampled("b", part(["q3"]))
    assert calibsft(*merged("a", "b"))[0] == 0
    manifests = {name: read_manifest(tmp_path / name) for name in ("a", "a-v", "b", "b-v", "data")}
    manifests["sft"] = {
        "content_hash": "",
        "files": {},
        "inputs": {"data": file_hash(Path("data/sft.parquet"))},
    }
    assert set_of(tmp_path, manifests, "sft") == Origin("data", ("a", "b"), ("a-v", "b-v"))
    del manifests["b"]
    assert set_of(tmp_path, manifests, "sft") is None
