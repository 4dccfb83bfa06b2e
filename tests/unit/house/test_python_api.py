"""The Python API: the same stages as the commands, by keyword, with results to go on with."""

import inspect
import json
from pathlib import Path

import polars as pl
import pytest

import calibsft
from calibsft.errors import InputError
from calibsft.rollouts.settings import RolloutSettings

SMALL = {"max_new_tokens": 30, "device": "cpu"}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def questions(path: Path, count: int = 12) -> Path:
    rows = [
        {"question_id": str(a), "question": f"{a}*{a + 1}", "gold": f"{a * (a + 1):04d}", "kind": "exact"}
        for a in range(10, 10 + count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_from_questions_to_a_trained_and_evaluated_model(there: Path, short_base: Path) -> None:
    asked = questions(there / "q.jsonl")
    rollouts = calibsft.sample(model=short_base, questions=asked, samples=6, out="rollouts", **SMALL)
    assert rollouts.path == Path("rollouts") and rollouts.facts["questions"] == 12
    verdicts = calibsft.verify(responses=rollouts.path, out="verdicts")
    assert verdicts.results["overall"]["n"] == 72
    evidence = calibsft.measure(
        rollouts=rollouts.path, verdicts=verdicts.path, names=["mean-logprob"], out="evidence"
    )
    assert evidence.facts["measured"] == {"mean-logprob": 72}
    given = {"source": rollouts.path, "verdicts": verdicts.path, "balance": False}
    data = calibsft.build(**given, out="data")
    other = calibsft.build(**given, target="uait", evidence=evidence.path, out="uait")
    assert data.results["target"] == "calibsft" and other.results["target"] == "uait"
    tuned = calibsft.fine_tune(
        model=short_base, data=data.path, steps=1, batch_size=4, micro_batch_size=4, device="cpu", out="tuned"
    )
    assert (tuned.model / "model.safetensors").is_file() and tuned.facts["lineage"] == ["calibsft"]
    found = calibsft.evaluate(
        model=tuned.model, benchmarks=["cross"], limit=5, samples=2, out="eval", **SMALL
    )
    assert found.results["overall"]["n"] == 10 and found.facts["lineage"] == ["calibsft"]
    assert calibsft.score(found.path)["overall"]["brier"] == found.results["overall"]["brier"]
    for name in ("page.html", "page.htm"):
        assert "<html" in calibsft.report(found.path, out=name).read_text()


@pytest.mark.parametrize("many", [False, True])
def test_a_test_set_is_named_by_its_path(there: Path, random_checkpoint: Path, many: bool) -> None:
    file = there / "own.csv"
    file.write_text("question_id,question,gold\nq1,1*1,1\n")
    found = calibsft.evaluate(
        model=random_checkpoint, questions=[file] if many else file, samples=1, max_new_tokens=4, device="cpu",
        out=f"own-{many}",
    )  # fmt: skip
    assert found.results["overall"]["n"] == 1


def test_a_section_may_be_given_whole(there: Path, random_checkpoint: Path) -> None:
    asked, same = questions(there / "q.jsonl", 2), {"samples": 3, "max_new_tokens": 5}
    for out, section in (("one", RolloutSettings(**same)), ("two", same)):
        calibsft.sample(model=random_checkpoint, questions=asked, rollout=section, device="cpu", out=out)
    one, two = (json.loads(Path(out, "manifest.json").read_text())["files"] for out in ("one", "two"))
    assert one == two and len(pl.read_parquet("one/part-*.parquet")) == 6


def test_a_wrong_keyword_is_refused_with_the_nearest(there: Path) -> None:
    with pytest.raises(InputError, match="unknown option 'sample'; did you mean 'samples'"):
        calibsft.sample(model="m", questions="q.jsonl", sample=3, out="o")
    with pytest.raises(InputError, match="--questions or --benchmark is missing"):
        calibsft.sample(model="m", out="o")
    with pytest.raises(InputError, match=r"rollout\.samples = 0"):
        calibsft.sample(model="m", questions="q.jsonl", samples=0, out="o")
    assert not Path("o").exists()


def test_files_of_responses_are_scored_diagnosed_and_certified(there: Path) -> None:
    rows = {"question_id": [], "confidence": [], "correct": []}
    for number in range(400):
        rows["question_id"].append(str(number))
        rows["confidence"].append(0.95 if number % 2 else 0.2)
        rows["correct"].append(number % 2 == 1 or number % 20 == 0)
    pl.DataFrame(rows).write_csv("r.csv")
    assert calibsft.score("r.csv")["overall"]["n"] == 400
    assert calibsft.diagnose("r.csv").to_json()["n"] == 400
    assert calibsft.certify("r.csv", risk=0.1).coverage == 0.5
    both = pl.DataFrame(rows).rename({"correct": "local_correct"}).with_columns(strong_correct=True)
    both.write_csv("both.csv")
    assert calibsft.route("both.csv", epsilon=0.05).questions == 400


def test_rooms_that_are_called_stay_rooms() -> None:
    from calibsft.verify import grade

    assert calibsft.verify.grade is grade and grade("exact", "1", "1") == "correct"
    assert callable(calibsft.verify) and callable(calibsft.report)
    assert callable(calibsft.rl.trl_reward("rlcr"))
    with pytest.raises(AttributeError, match="no attribute 'sampel'"):
        _ = calibsft.sampel


def test_every_function_is_offered_and_says_what_it_does() -> None:
    from calibsft import api

    own = {name for name, found in inspect.getmembers(api, inspect.isfunction) if not name.startswith("_")}
    own -= {"read_manifest", "dataclass"}
    assert own == {*calibsft.FUNCTIONS, *calibsft.ROOMS} and own <= set(dir(calibsft))
    assert all(getattr(api, name).__doc__ for name in own)
