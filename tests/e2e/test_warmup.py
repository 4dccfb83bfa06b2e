"""A pipeline that begins with a warm-up, small: which stages it has, what is learnt from, and what models are called."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import polars as pl
import pytest

import warm_start
from calibsft.artifacts import file_hash
from calibsft.models import load_tokenizer
from calibsft.playground.world import training_questions
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse
from calibsft.responses.prompts import Prompting
from calibsft.schema import KEYS
from calibsft.sft.batches import training_order
from calibsft.sft.fine_tune import encode_rows
from command_process import ENVIRONMENT

pytestmark = pytest.mark.long

# Short, so that the base, which has never seen two questions in a row, keeps to the format about half of the time.
SHOT = {"question": "1*1", "response": "<think></think><answer>1</answer><confidence>0.90</confidence>"}
CHANGES = (
    "base.steps=300", "base.warmup_steps=20", "questions.limit=60", "rollout.samples=20", "rollout.shard_questions=20",
    "sft.steps=12", "sft.batch_size=16", "sft.micro_batch_size=16", "targets.redraws=1", "prior.contexts=null",
    "rl.steps=1", "rl.questions=4", "rl.micro_batch_size=16", "eval.limit=5", "eval.samples=2", "jobs=1",
    "eval.benchmarks=[multiply-1, cross]", "pipelines=[[warmup], [warmup, calibsft], [warmup, rlcr]]",
    "warmup.rollout.shots=shots.jsonl", "warmup.questions.limit=20", "warmup.questions.offset=100", "warmup.rollout.samples=10",
    "warmup.sft.steps=4",
)  # fmt: skip
# The stages that train or evaluate a model, and the steps that made it.
LINEAGES = {
    "eval-base": [],
    "warmup": ["warmup"],
    "eval-warmup": ["warmup"],
    "warmup-sft": ["warmup", "calibsft"],
    "eval-warmup-calibsft": ["warmup", "calibsft"],
    "warmup-rlcr": ["warmup", "rlcr"],
    "eval-warmup-rlcr": ["warmup", "rlcr"],
}
OTHERS = {
    "base", "shots-rollout", "shots-verify", "shots-build", "warmup-rollout", "warmup-verify", "warmup-build", "report",
}  # fmt: skip


def calibsft(folder: Path, *words: str, changes: tuple[str, ...] = CHANGES) -> CompletedProcess[str]:
    settings = [word for change in changes for word in ("--set", change)]
    return warm_start.run(["run", "tiny", "--out", "run", *words, *settings], folder, ENVIRONMENT)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run's folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("warmup")
    (folder / "shots.jsonl").write_text(json.dumps(SHOT) + "\n")
    done = calibsft(folder)
    assert done.returncode == 0, done.stderr
    return folder / "run", done.stdout


def manifest(run: Path, stage: str) -> dict[str, Any]:
    return json.loads((run / stage / "manifest.json").read_text())


def rollouts(run: Path, stage: str) -> pl.DataFrame:
    return pl.read_parquet(run / stage / "part-*.parquet")


def test_later_steps_start_from_the_model_that_was_warmed_up(finished: tuple[Path, str]) -> None:
    run, _ = finished
    assert {path.parent.name for path in run.glob("*/manifest.json")} == LINEAGES.keys() | OTHERS
    assert {name: manifest(run, name)["lineage"] for name in LINEAGES} == LINEAGES
    weights = manifest(run, "warmup-rollout")["inputs"]["model"]
    assert (
        weights
        != manifest(run, "shots-rollout")["inputs"]["model"]
        == manifest(run, "warmup")["inputs"]["model"]
    )
    assert (
        weights
        == manifest(run, "warmup-sft")["inputs"]["model"]
        == manifest(run, "warmup-rlcr")["inputs"]["model"]
    )
    assert manifest(run, "warmup-rlcr")["inputs"]["data"] == manifest(run, "warmup-rollout")["content_hash"]


def test_its_questions_are_asked_with_the_examples_and_the_others_without(finished: tuple[Path, str]) -> None:
    run, _ = finished
    assert manifest(run, "shots-rollout")["inputs"]["shots"] == file_hash(run.parent / "shots.jsonl")
    assert "shots" not in manifest(run, "warmup-rollout")["inputs"]
    asked = pl.read_parquet(run / "shots-rollout" / "questions.parquet")["question"].to_list()
    assert asked == [question.text for question in training_questions()[100:120]]
    assert len(rollouts(run, "shots-rollout")) == 20 * 10
    assert len(rollouts(run, "warmup-rollout")) == 60 * 20


def test_it_learns_from_every_well_formed_response_as_it_is(finished: tuple[Path, str]) -> None:
    run, _ = finished
    sampled = rollouts(run, "shots-rollout").sort(KEYS)
    whole = [
        parse(text, finished=finished).ok
        for text, finished in sampled.select("response", "finished").iter_rows()
    ]
    assert 0 < sum(whole) < len(whole)
    rows = pl.read_parquet(run / "shots-build" / "sft.parquet").sort(KEYS)
    kept = (*KEYS, "response", "token_ids")
    assert rows.select(kept).equals(sampled.filter(pl.Series(whole)).select(kept))
    assert rows["target"].to_list() == [parse(text).confidence for text in rows["response"]]


def test_it_trains_every_token_under_the_plain_prompt(finished: tuple[Path, str]) -> None:
    run, _ = finished
    path, tokenizer = run / "shots-build" / "sft.parquet", load_tokenizer(str(run / "base" / "model"))
    examples, rows = encode_rows(
        tokenizer, pl.read_parquet(path), Prompting(FORMATS["probability"]), 64, path, 0
    )
    order = training_order(rows["draw"].to_list(), 4 * 16, 0)
    assert manifest(run, "warmup")["tokens"] == sum(len(examples[row]) for row in order)
    supervised = pl.read_parquet(run / "warmup" / "supervision.parquet")
    assert len(supervised) == len(rows) and not all(example.correct for example in examples)
    assert all(weight > 0 for weights in supervised["weights"] for weight in weights)


def test_tables_the_page_and_cards_call_it_by_its_name(finished: tuple[Path, str]) -> None:
    run, printed = finished
    for label in ("Base", "Warm-up", "Warm-up→CalibSFT", "Warm-up→RLCR"):
        assert f"| {label} |" in printed and f"| {label} |" in (run / "report" / "report.md").read_text()
    card = (run / "warmup" / "model" / "README.md").read_text()
    assert "# Warmed up to keep to the response format" in card
    assert "right and wrong ones, each with the confidence that it states" in card
    assert (
        "Fine-tuned to state calibrated confidence"
        in (run / "warmup-sft" / "model" / "README.md").read_text()
    )


def test_a_second_run_skips_everything_and_other_examples_are_refused(finished: tuple[Path, str]) -> None:
    run, _ = finished
    again = calibsft(run.parent)
    assert again.returncode == 0 and again.stderr.count("done before, skipped") == len(
        LINEAGES.keys() | OTHERS
    )
    (run.parent / "others.jsonl").write_text(json.dumps({**SHOT, "question": "2*2"}) + "\n")
    refused = calibsft(run.parent, changes=(*CHANGES, "warmup.rollout.shots=others.jsonl"))
    assert refused.returncode == 2 and "its input 'shots' has changed" in refused.stderr


def test_a_dry_run_names_the_step(finished: tuple[Path, str]) -> None:
    shown = calibsft(finished[0].parent, "--dry-run")
    assert "shots: shots.jsonl" in shown.stdout and "- - warmup\n  - calibsft" in shown.stdout
    assert "shots-build, warmup, eval-warmup, warmup-rollout" in shown.stderr
