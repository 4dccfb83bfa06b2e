"""Counts of responses, steps and training rows, from plans; the paper's are from its text."""

import json
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.estimates.counts import Counts, balanced_rows, counts_of
from calibsft.pipeline import plan
from calibsft.recipe import load_recipe


def counted(recipe: str, *overrides: str) -> dict[str, Counts]:
    stages = {planned.name: planned for planned in plan(load_recipe(recipe, list(overrides)), Path("run"))}
    return {name: counts_of(planned, stages) for name, planned in stages.items()}


def test_the_paper_s_counts() -> None:
    found = counted("qwen3-8b/methods")
    assert found["rollout"].responses == 1_845_750
    assert found["rollout"].tokens == 1_845_750 * 8192
    assert found["sft"].steps == 180 and found["rlcr"].steps == 160 and found["rlvr-redoubt"].steps == 80
    assert (found["sft"].per_step, found["rlcr"].per_step) == (256, 64 * 8)
    assert found["sft"].tokens == 180 * 256 * 8192
    assert found["rlcr"].responses == 160 * 512
    assert found["build"].values == 100 and balanced_rows(100, 349) == 34_900
    assert found["build-integer"].values == 100, "groups are by exact target, so all formats share one set"


def test_the_paper_s_evaluation() -> None:
    # 4 samples of the five large benchmarks in distribution, 32 of three times 30 questions;
    # 4 samples of 1,000 questions of HotpotQA and of the others out of distribution.
    inside = 4 * (2000 + 500 + 272 + 674 + 1319) + 32 * 90
    outside = 4 * (1000 + 2417 + 11_313 + 3610 + 14_267 + 2032 + 9535 + 200)
    found = counted("qwen3-8b/calibsft")["eval-base"]
    assert found.responses == inside + outside == 199_436
    assert found.longest == 16_384


def test_dynamic_sampling_is_told_by_the_method_and_its_settings() -> None:
    found = counted("qwen3-8b/methods", "rl_methods.coca.keep_unanimous=true")
    assert found["rlcr"].filters and not found["c3rl-integer"].filters and not found["coca"].filters
    found = counted("qwen3-8b/methods", "rl_methods.rlcr.all_groups=true")
    assert found["coca"].filters and not found["rlcr"].filters


@pytest.mark.parametrize(
    "overrides, asked",
    [
        (["questions.limit=100"], 100),
        (["questions.subset=200", "questions.limit=300"], 200),
        (["questions.offset=36900"], 15),
        (["questions.offset=36900", "questions.limit=10"], 10),
        (["questions.offset=40000"], 0),
    ],
)
def test_a_part_of_the_questions(overrides: list[str], asked: int) -> None:
    assert counted("qwen3-8b/calibsft", *overrides)["rollout"].responses == 50 * asked


def test_parts_and_samples_of_single_benchmarks() -> None:
    found = counted(
        "qwen3-8b/calibsft",
        "eval.benchmarks=[gsm8k, hotpotqa]",
        "eval.limit=10",
        "eval.per_benchmark.gsm8k.samples=3",
    )
    assert found["eval-base"].responses == 10 * 3 + 10 * 4


def test_questions_of_a_file_and_of_the_playground_are_counted(tmp_path: Path) -> None:
    rows = [{"question_id": i, "question": f"{i}?", "gold": "1"} for i in range(7)]
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = counted("tiny", f"questions.source={own}", "questions.limit=5", f"eval.benchmarks=[{own}]")
    assert found["rollout"].responses == 5 * 50 and found["eval-base"].responses == 7 * 4
    assert counted("tiny")["rollout"].responses == 3000 * 50
    assert counted("tiny")["base"].steps == 1800


def test_a_missing_file_of_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl"):
        counted("tiny", f"questions.source={tmp_path / 'gone.jsonl'}")


@pytest.mark.parametrize(
    "overrides, values",
    [
        (["targets.name=shuffled"], 100),
        # n = 10: 0.00 to 0.45 and 0.55 to 1.00 in steps of 0.05.
        (["targets.samples=10"], 20),
        (["rollout.samples=10"], 20),
        # λ = 1: the success rate k/50 alone, 0 to 1.
        (["targets.mix=1.0"], 51),
        # λ = 0: right or wrong.
        (["targets.mix=0.0"], 2),
        (["targets={name: csft}", "rollout.samples=4"], 5),
        # Not known before responses are there.
        (["targets={name: uait}"], 0),
        (["targets.balance=false"], 0),
    ],
)
def test_the_values_of_a_target(overrides: list[str], values: int) -> None:
    assert counted("qwen3-8b/calibsft", *overrides)["build"].values == values


def test_stages_that_sample_and_train_nothing_count_nothing() -> None:
    assert counted("tiny")["verify"] == counted("tiny")["report"] == Counts()
