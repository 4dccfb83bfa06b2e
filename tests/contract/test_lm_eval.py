"""The task in a real lm-eval: it asks with this package's prompt, and its numbers are those of this package."""

import json
from pathlib import Path

import pytest

from calibsft.metrics import evaluate
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting

lm_eval = pytest.importorskip("lm_eval", reason="scripts/plugins-env makes an environment with it")

from lm_eval.tasks import TaskManager  # noqa: E402

from calibsft.integrations.lm_eval import FOLDER, registered  # noqa: E402
from calibsft.integrations.lm_eval import task as functions  # noqa: E402

NAMES = ("brier", "ece", "auroc", "e_aurc")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    rows = [{"question_id": f"q{i}", "question": f"What is {i}*7?", "gold": 7 * i} for i in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_lm_eval_asks_and_scores_as_this_package_does(own: Path, random_checkpoint: Path) -> None:
    tasks = TaskManager(include_path=str(FOLDER), include_defaults=False, metadata={"benchmark": str(own)})
    found = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(random_checkpoint)},
        tasks=["calibsft"],
        task_manager=tasks,
        device="cpu",
        apply_chat_template=True,
        gen_kwargs={"max_gen_toks": 8},
        log_samples=True,
        bootstrap_iters=0,
    )
    tokenizer, prompting = build_tokenizer(), Prompting(get_format("probability"))
    samples = found["samples"]["calibsft"]
    assert len(samples) == 4
    for number, sample in enumerate(sorted(samples, key=lambda sample: sample["doc_id"])):
        asked = tokenizer(sample["arguments"][0][0], add_special_tokens=False)["input_ids"]
        assert tuple(asked) == prompting.ids(tokenizer, f"What is {number}*7?")
    results = found["results"]["calibsft"]
    expected = evaluate(*zip(*(sample["brier"] for sample in samples), strict=True))
    assert results["brier,none"] == pytest.approx(expected["brier"])
    assert {f"{name},none" for name in (*NAMES, "accuracy")} <= set(results)


def test_metrics_are_those_of_this_package(own: Path) -> None:
    docs = functions.questions(benchmark=str(own))["test"]
    said = [("0", "0.90"), ("7", "0.35"), ("15", "0.80"), ("20", "none")]
    texts = [f"<think>so</think> <answer>{a}</answer> <confidence>{c}</confidence>" for a, c in said]
    scored = [functions.process_results(doc, [text]) for doc, text in zip(docs, texts, strict=True)]
    expected = evaluate([0.9, 0.35, 0.8, 0.0], [True, True, False, False])
    for name in NAMES:
        assert getattr(functions, name)([one[name] for one in scored]) == pytest.approx(expected[name])
    assert functions.accuracy([one["accuracy"] for one in scored]) == 0.5


def test_lm_eval_finds_the_task() -> None:
    assert str(FOLDER) in registered()
