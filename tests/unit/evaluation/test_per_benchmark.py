"""Settings of single benchmarks, and seeded subsets, from the command line and Python to what is asked."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calibsft as api
from calibsft.benchmarks import get_benchmark
from calibsft.errors import InputError
from calibsft.evaluation import Benchmarks
from calibsft.evaluation.settings import BenchmarkSettings, EvalSettings
from calibsft.questions import chosen
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.rl import RlStage
from command import Command

SAMPLED = ("--max-new-tokens", 4, "--device", "cpu")


def asked(settings: EvalSettings, limit: int | None = None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for question in Benchmarks(settings, limit).questions:
        found.setdefault(question.dataset, []).append(question.id)
    return found


def ids(name: str, subset: int, seed: int = 0) -> list[str]:
    return [question.id for question in chosen(get_benchmark(name).load(), None, subset, seed)]


BOTH = {"benchmarks": ("cross", "multiply-1")}
LIMIT, SUBSET = BenchmarkSettings(limit=2), BenchmarkSettings(subset=3, samples=1)


def test_what_a_benchmark_leaves_open_is_as_for_all() -> None:
    found = asked(EvalSettings(**BOTH, limit=5, per_benchmark={"cross": LIMIT}))
    assert {name: len(part) for name, part in found.items()} == {"cross": 2, "multiply-1": 5}
    found = asked(EvalSettings(**BOTH, subset=4, subset_seed=2, per_benchmark={"cross": SUBSET}))
    assert found == {"cross": ids("cross", 3, 2), "multiply-1": ids("multiply-1", 4, 2)}
    found = asked(EvalSettings(**BOTH, limit=2, per_benchmark={"cross": SUBSET}))
    assert found["cross"] == ids("cross", 3)[:2], "a quick look at a recipe with subsets stays quick"


def test_evaluations_during_rl_have_their_own_number_and_the_subset() -> None:
    settings = EvalSettings(**BOTH, limit=9, per_benchmark={"cross": LIMIT, "multiply-1": SUBSET})
    found = asked(settings, limit=1)
    assert found["multiply-1"] == ids("multiply-1", 3)[:1] and len(found["cross"]) == 1
    assert len(asked(settings, limit=4)["cross"]) == 4


def test_samples_of_one_benchmark(calibsft: Command, random_checkpoint: Path) -> None:
    command = (
        "eval", "--model", random_checkpoint, "--benchmarks", "cross,multiply-1", "--limit", 2, "-n", 3, *SAMPLED,
        "--per-benchmark", "cross.samples=1", "--per-benchmark", "cross.subset=5", "--per-benchmark", "multiply-1.limit=1",
        "--out", "e",
    )  # fmt: skip
    code, _, err = calibsft(*command)
    assert code == 0, err
    rows = pl.read_parquet("e/rows.parquet").select("dataset", "question_id", "sample").rows()
    assert sorted(rows) == sorted(
        [("cross", id_, 0) for id_ in ids("cross", 5)[:2]]
        + [("multiply-1", get_benchmark("multiply-1").load()[0].id, sample) for sample in range(3)]
    )
    assert "skipped" in calibsft(*command)[2]
    code, _, err = calibsft(*command, "--per-benchmark", "cross.subset=6")
    assert code == 2 and "eval.per_benchmark.cross.subset was 5 and is now 6" in err


def test_a_changed_subset_is_another_evaluation(calibsft: Command, random_checkpoint: Path) -> None:
    command = ("eval", "--model", random_checkpoint, "--benchmarks", "cross", "-n", 1, *SAMPLED, "--out", "e")
    code, _, err = calibsft(*command, "--subset", 3)
    assert code == 0, err
    assert pl.read_parquet("e/rows.parquet")["question_id"].to_list() == ids("cross", 3)
    for change, told in (
        (("--subset", 4), "eval.subset was 3 and is now 4"),
        (("--subset", 3, "--subset-seed", 1), "eval.subset_seed was 0 and is now 1"),
        (
            ("--subset", 3, "--set", "per_benchmark.cross.limit=1"),
            "per_benchmark.cross.limit was None and is",
        ),
    ):
        code, _, err = calibsft(*command, *change)
        assert code == 2 and told in err
    code, _, err = calibsft(*command, "--subset", 3, "--seed", 1, "--fresh")
    assert code == 0, err
    found = pl.read_parquet("e/rows.parquet")["question_id"].to_list()
    assert found == ids("cross", 3), "another seed of sampling asks the same questions"


def test_python_takes_a_mapping(random_checkpoint: Path, tmp_path: Path) -> None:
    given = {"benchmarks": ["cross"], "per_benchmark": {"cross": {"limit": 2, "samples": 3}}}
    found = api.evaluate(model=random_checkpoint, out=tmp_path / "e", max_new_tokens=4, device="cpu", **given)
    assert found.results["overall"]["n"] == 6
    whole = EvalStage.of({"model": "m", "eval": given})
    assert whole.eval == EvalStage.of({"model": "m", **given}).eval


def test_rl_has_the_options_of_its_evaluations_too() -> None:
    given = {"model": "m", "data": "d", "method": "rlcr", "eval_every": 1, "benchmarks": "cross"}
    stage = RlStage.of({**given, "eval_subset": 5, "eval_per_benchmark": ["cross.samples=2"]})
    assert (stage.eval.subset, stage.eval.asked("cross").samples) == (5, 2)


def test_own_questions_have_settings_by_the_name_that_results_show(
    calibsft: Command, random_checkpoint: Path, tmp_path: Path
) -> None:
    rows = [{"question_id": f"q{i}", "question": f"{i}*{i}", "gold": str(i * i)} for i in range(9)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("eval", "--model", random_checkpoint, "--questions", "mine.jsonl", "-n", 1, *SAMPLED)
    code, _, err = calibsft(*command, "--per-benchmark", "mine.subset=4", "--out", "e")
    assert code == 0 and len(pl.read_parquet("e/rows.parquet")) == 4, err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"per_benchmark": {"crosss": {}}}, "unknown benchmark in eval.per_benchmark 'crosss'; did you mean 'cross'?"),
        (
            {"per_benchmark": {"gsm8k": {"limit": 3}}},
            "eval.per_benchmark has settings of 'gsm8k', which is not evaluated; add it to eval.benchmarks, or leave them out",
        ),
        (
            {"per_benchmark": {"cross": {"limt": 3}}},
            "unknown key 'eval.per_benchmark.cross.limt'; did you mean 'eval.per_benchmark.cross.limit'?",
        ),
        ({"per_benchmark": {"cross": {"subset": 0}}}, "eval.per_benchmark.cross.subset = 0: input should be greater"),
        ({"per_benchmark": {"cross": 3}}, "eval.per_benchmark.cross = 3: input should be a valid dictionary"),
        ({"per_benchmark": ["cross.limit"]}, "--per-benchmark cross.limit: write it as key=value, for example --per-benchmark h"),
        ({"per_benchmark": ["cross=1", "cross.limit=1"]}, "--per-benchmark cross.limit=1: 'cross' is a value, not a section"),
        ({"subset_seed": 1}, "eval.subset_seed means nothing without a subset; give both, or leave it out"),
        ({"subset": 0}, "eval.subset = 0: input should be greater"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        EvalStage.of({"model": "m", "benchmarks": ["cross"], **settings})
    assert told in str(error.value)


def test_a_diagnosis_of_a_subset_asks_all_of_it(calibsft: Command, random_checkpoint: Path) -> None:
    command = ("diagnose", random_checkpoint, "--benchmarks", "cross", "--samples", 2, *SAMPLED)
    calibsft(*command, "--subset", 60, "--out", "d")
    assert len(pl.read_parquet("d/rows.parquet")) == 120
