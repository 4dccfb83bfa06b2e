"""A benchmark's dataset on the Hub can be pinned, and the commit that was loaded is recorded."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from calibsft.benchmarks import get_benchmark
from calibsft.errors import InputError
from calibsft.hub import recording_commits
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.rollout import RolloutStage
from command import Command
from hub_cache import NEW, OLD, HubCache

ROWS = [{"question": f"{n}*{n}", "answer": f"#### {n * n}"} for n in range(10, 13)]
RECORDED = {"datasets/openai/gsm8k": NEW}


@pytest.fixture
def downloaded(hub_cache: HubCache) -> HubCache:
    hub_cache.add_dataset("openai/gsm8k", "main", "test", NEW, ROWS, "main", "v2")
    return hub_cache


def test_the_hub_is_asked_for_the_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(*_: object, split: str, revision: str | None) -> datasets.Dataset:
        asked.append(revision)
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for revision in (None, "v1"):
        assert len(get_benchmark("gsm8k").at(revision).load()) == len(ROWS)
    assert asked == [None, "v1"]


@pytest.mark.parametrize("revision", [None, NEW, NEW[:8], "main", "v2"])
def test_the_commit_that_was_loaded_is_recorded(downloaded: HubCache, revision: str | None) -> None:
    with recording_commits() as commits:
        assert len(get_benchmark("gsm8k").at(revision).load()) == len(ROWS)
    assert commits == RECORDED


@pytest.mark.parametrize("revision", [OLD, "v3"])
def test_another_commit_than_the_pinned_one_is_refused(downloaded: HubCache, revision: str) -> None:
    with pytest.raises(InputError) as error:
        get_benchmark("gsm8k").at(revision).load()
    assert str(error.value) == (
        f"openai/gsm8k@{revision} main test: what could be loaded is commit {NEW}; connect to the Hub, or pin that commit"
    )


def test_evaluations_and_rollouts_record_it(
    calibsft: Command, downloaded: HubCache, random_checkpoint: Path
) -> None:
    common = ("--model", random_checkpoint, "--subset", 2, "-n", 1, "--max-new-tokens", 2, "--device", "cpu")
    evaluate = ("eval", "--benchmarks", "gsm8k,cross", *common, "--out", "e")
    sample = ("rollout", "--benchmark", "gsm8k", *common, "--out", "r")
    for folder, command, pin, key in (
        ("e", evaluate, ("--per-benchmark", "gsm8k.revision=v2"), "eval.per_benchmark.gsm8k.revision"),
        ("r", sample, ("--questions-revision", "v2"), "questions.revision"),
    ):
        code, _, err = calibsft(*command, *pin)
        assert code == 0, err
        assert json.loads(Path(folder, "manifest.json").read_text())["hub"] == RECORDED
        code, _, err = calibsft(*command)
        assert code == 2 and f"{key} was 'v2' and is now None" in err


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (EvalStage, {"benchmarks": "cross", "per_benchmark": ["cross.revision=v1"]}, "for 'cross', which is not from the Hub"),
        (
            EvalStage,
            {"questions": "gsm8k.csv", "per_benchmark": ["gsm8k.revision=v1"]},
            "eval.per_benchmark.gsm8k.revision means nothing for 'gsm8k.csv', which is not from the Hub; leave it out",
        ),
        (
            EvalStage,
            {"benchmarks": "gsm8k", "data_dir": "d", "per_benchmark": ["gsm8k.revision=v1"]},
            "means nothing with data_dir, which is read instead of the Hub; leave it out",
        ),
        (RolloutStage, {"questions": "q.csv", "questions_revision": "v1"}, "questions.revision means nothing for 'q.csv'"),
        (RolloutStage, {"benchmark": "gsm8k", "questions_revision": ""}, "questions.revision = '': string should have at least"),
    ],
)  # fmt: skip
def test_a_revision_of_what_is_not_on_the_hub_is_refused(kind: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        kind.of({"model": "m", **given})
    assert told in str(error.value)
