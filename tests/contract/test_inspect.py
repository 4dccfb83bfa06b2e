"""The plug-in against a real Inspect: found by its entry point, and all its numbers those of this package."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from calibsft.metrics import evaluate
from calibsft.responses.formats import get_format, messages
from command import Command

inspect_ai = pytest.importorskip("inspect_ai", reason="scripts/plugins-env makes an environment with it")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import EvalLog, read_eval_log  # noqa: E402
from inspect_ai.model import ContentReasoning, ContentText, ModelOutput, ModelUsage, get_model  # noqa: E402

from calibsft.integrations.inspect_ai import ask_confidence, registered, stated_confidence  # noqa: E402

NAMES = ("brier", "ece", "auroc", "e_aurc")
# Answer, how it is stated, and the confidence as scores read it.
SAID = [
    ("4", "0.90", 0.9),
    ("5", "0.80", 0.8),
    ("4", "0.35", 0.35),
    ("5", "none", 0.0),
    ("four", "0.10", 0.1),
]


def written(answer: str, confidence: str) -> str:
    return f"<think>so</think> <answer>{answer}</answer> <confidence>{confidence}</confidence>"


def evaluated(tmp_path: Path, outputs: list[ModelOutput], epochs: int = 1) -> EvalLog:
    """The log of one sample per output of an epoch, each with the targets 4 and four."""
    asked = len(outputs) // epochs
    samples = [Sample("What is 2+2?", target=["4", "four"], id=i) for i in range(asked)]
    task = inspect_ai.Task(samples, solver=ask_confidence(), scorer=stated_confidence(kind="exact"))
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_ai.eval(
        task, model=model, log_dir=str(tmp_path), display="none", max_samples=1, epochs=epochs
    )
    assert log.status == "success", log.error
    return log


def measured(log: EvalLog) -> dict[str, float]:
    return {name.rpartition("/")[2]: found.value for name, found in log.results.scores[0].metrics.items()}


def output_of(text: str) -> ModelOutput:
    """With the tokens that it cost: otherwise Inspect would download a tokenizer to count them."""
    output = ModelOutput.from_content("mock", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def outputs(said: list[tuple[str, str, float]]) -> list[ModelOutput]:
    return [output_of(written(*one[:2])) for one in said]


def test_metrics_are_those_of_this_package(tmp_path: Path) -> None:
    found = measured(evaluated(tmp_path, outputs(SAID)))
    expected = evaluate([one[2] for one in SAID], [answer in ("4", "four") for answer, *_ in SAID])
    assert {name: found[name] for name in NAMES} == {
        name: pytest.approx(expected[name], abs=1e-12) for name in NAMES
    }
    assert found["accuracy"] == expected["pass@1"]


def test_a_sample_shows_its_answer_its_confidence_and_why_it_is_malformed(tmp_path: Path) -> None:
    log = evaluated(tmp_path, outputs(SAID))
    scores = [next(iter(sample.scores.values())) for sample in log.samples]
    assert [(score.value, score.answer) for score in scores][:2] == [("C", "4"), ("I", "5")]
    assert scores[0].explanation == "Stated confidence: 0.9"
    assert scores[3].explanation == "No confidence is stated; malformed: bad_confidence"
    assert scores[0].metadata == {"confidence": 0.9, "reason": "ok", "grade": "correct"}
    assert scores[3].metadata["confidence"] is None and scores[3].metadata["reason"] == "bad_confidence"


def test_questions_are_asked_as_calibsft_asks_them(tmp_path: Path) -> None:
    log = evaluated(tmp_path, outputs(SAID[:1]))
    asked = [{"role": turn.role, "content": turn.text} for turn in log.samples[0].messages[:2]]
    assert asked == messages("What is 2+2?", get_format("probability"))


def test_reasoning_that_a_provider_took_out_is_part_of_the_response(tmp_path: Path) -> None:
    output = output_of("")
    rest = written("4", "0.90").partition("</think>")[2]
    output.choices[0].message.content = [ContentReasoning(reasoning="so"), ContentText(text=rest)]
    (sample,) = evaluated(tmp_path, [output]).samples
    assert sample.scores["stated_confidence"].metadata["reason"] == "ok"


def test_metrics_of_reduced_epochs_have_no_value(tmp_path: Path) -> None:
    log = evaluated(tmp_path, outputs([SAID[0], SAID[1], SAID[1], SAID[0]]), epochs=2)
    found = measured(log)
    halves = [score.value for score in log.reductions[0].samples]
    assert 0.5 in halves and math.isnan(found["brier"])


def test_inspect_finds_the_plug_in() -> None:
    assert "calibsft/stated_confidence" in registered()


def test_a_stored_evaluation_becomes_a_log_with_the_same_metrics(
    calibsft: Command, random_checkpoint: Path, tmp_path: Path
) -> None:
    asked = [{"question_id": f"q{i}", "question": f"What is {i}*7?", "gold": 7 * i} for i in range(4)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    sampled = ("-n", 2, "--device", "cpu", "--max-new-tokens", 20)
    code, _, said = calibsft(
        "eval", "--model", random_checkpoint, "--questions", "own.jsonl", *sampled, "--out", "e"
    )
    assert code == 0, said
    words = ("-T", "folder=e", "--model", "none/none", "--log-dir", "logs", "--display", "none")
    command = [sys.executable, "-m", "inspect_ai", "eval", "calibsft/evaluation", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = Path("logs").glob("*.eval")
    log, rows = read_eval_log(str(path)), pl.read_parquet("e/rows.parquet")
    assert log.status == "success", log.error
    assert [sample.output.completion for sample in log.samples] == rows["response"].to_list()
    expected = json.loads(Path("e/metrics.json").read_text())["overall"]
    assert measured(log)["brier"] == pytest.approx(expected["brier"], abs=1e-12)
    assert measured(log)["accuracy"] == expected["pass@1"]
