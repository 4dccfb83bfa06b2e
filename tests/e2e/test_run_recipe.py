"""A whole recipe through the command line, small: every stage, resumed, refused, started over."""

import json
import re
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from safetensors.numpy import load_file

import warm_start
from browser_page import Opened
from calibsft.responses.formats import FORMATS
from command_process import ENVIRONMENT

SMALL = (
    "base.steps=300", "base.warmup_steps=20", "questions.limit=60", "rollout.samples=20", "rollout.shard_questions=20",
    "sft.steps=12", "sft.batch_size=16", "sft.micro_batch_size=16", "targets.redraws=1", "prior.contexts=2",
    "rl.steps=2", "rl.questions=4", "rl.micro_batch_size=16", "eval.limit=15", "eval.samples=3",
)  # fmt: skip
# The model that each evaluation is of, as tables call it.
EVALUATED = {
    "eval-base": "Base",
    "eval-calibsft": "CalibSFT",
    "eval-rlcr": "Base→RLCR",
    "eval-calibsft-rlcr": "CalibSFT→RLCR",
}
STAGES = {
    "base", "rollout", "verify", "build", "sft", "prior-base", "rlcr", "prior-calibsft", "calibsft-rlcr", *EVALUATED,
    "report",
}  # fmt: skip


def run(out: Path, *changes: str, fresh: bool = False, until: str = "", status: int = 0) -> tuple[str, str]:
    settings = [word for setting in (*SMALL, *changes) for word in ("--set", setting)]
    further = [*(["--fresh"] if fresh else []), *(["--until", until] if until else [])]
    words = ["run", "tiny", "--out", str(out), *settings, *further]
    done = warm_start.run(words, environment=ENVIRONMENT)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def skipped(stderr: str) -> list[str]:
    """The stages that were skipped; sorted, since two at a time come in any order."""
    return sorted(re.findall(r"^(\S+): done before, skipped", stderr, re.MULTILINE))


def manifest(out: Path, stage: str) -> dict[str, Any]:
    return json.loads((out / stage / "manifest.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    out = tmp_path_factory.mktemp("runs") / "small"
    return out, *run(out)


def test_a_run_leaves_every_stage_complete_and_a_report(finished: tuple[Path, str, str]) -> None:
    out, stdout, stderr = finished
    assert {path.parent.name for path in out.glob("*/manifest.json")} == STAGES
    for stage in STAGES:
        kind = "rl" if stage.endswith("rlcr") and "eval" not in stage else stage.partition("-")[0]
        assert manifest(out, stage)["stage"] == kind and manifest(out, stage)["wall_seconds"] >= 0
        assert (out / stage / "recipe.resolved.yaml").is_file()
    assert f"report: {out / 'report' / 'report.html'}" in stdout
    assert "kept" in stderr
    page = (out / "report" / "report.html").read_text()
    assert all(label in stdout and label in page for label in EVALUATED.values())
    figures = {path.stem for path in (out / "report" / "figures").glob("*.svg")}
    assert {"confidence", "reliability", "targets", "calibration-curves"} <= figures


def test_the_report_opens_in_a_browser_without_a_request_and_shows_every_response(
    finished: tuple[Path, str, str], open_page: Callable[..., Opened]
) -> None:
    report = finished[0] / "report" / "report.html"
    opened = open_page(report)
    page = opened.page
    rows = pl.concat(
        [pl.read_parquet(finished[0] / stage / "rows.parquet") for stage in EVALUATED], how="diagonal"
    )
    labels = page.locator("#filter-origin option").all_inner_texts()
    assert labels[:5] == ["all", *EVALUATED.values()]
    assert labels[5].startswith("training set of CalibSFT, from Base") and len(labels) == 6
    page.select_option("#filter-origin", label="CalibSFT")
    tuned = rows.filter(pl.col("dataset").is_not_null())[len(rows) // 4 : len(rows) // 2]
    assert page.inner_text("#shown-count").startswith(f"{len(tuned):,} of ")
    page.select_option("#filter-verdict", "1")
    assert page.inner_text("#shown-count").startswith(f"{tuned['correct'].sum():,} of ")
    page.select_option("#filter-verdict", "")
    page.select_option("#filter-origin", index=5)
    page.locator(".row").first.click()
    page.locator("#detail .token.confidence").first.wait_for()
    assert page.locator("#detail .target").count() > 0
    assert opened.requests == [report.as_uri()] and opened.complaints == []


def test_a_method_of_another_format_trains_on_the_same_responses(
    finished: tuple[Path, str, str], tmp_path: Path
) -> None:
    out = shutil.copytree(finished[0], tmp_path / "digits")
    shutil.rmtree(out / "report")  # it is of fewer models
    more = "pipelines=[[calibsft], [rlcr], [calibsft, rlcr], [calibsft, c3rl]]"
    _, stderr = run(out, more)
    assert {"rollout", "verify", "build", "sft"} <= set(skipped(stderr))
    assert "confidences rewritten from probability to integer" in stderr
    stages = {path.parent.name for path in out.glob("*/manifest.json")}
    assert {"build-integer", "sft-integer", "calibsft-c3rl-integer"} < stages
    assert not {"rollout-integer", "verify-integer"} & {path.name for path in out.iterdir()}
    hashes = {name: manifest(out, name)["content_hash"] for name in ("rollout", "verify")}
    assert manifest(out, "build-integer")["inputs"] == hashes
    same, other = (pl.read_parquet(out / name / "sft.parquet") for name in ("build", "build-integer"))
    written = ("response", "prompt", "completion")
    assert other.drop(written).equals(same.drop(written))
    for before, after in zip(same["response"], other["response"], strict=True):
        assert re.sub("[0-9.]+(?=</confidence>)", "", before) == re.sub("[0-9](?=</confidence>)", "", after)


def test_every_checkpoint_has_a_card_with_its_calibration(finished: tuple[Path, str, str]) -> None:
    out, _, _ = finished
    for stage, evaluation in (("base", "eval-base"), ("sft", "eval-calibsft"), ("rlcr", "eval-rlcr")):
        card = (out / stage / "model" / "README.md").read_text()
        scores = json.loads((out / evaluation / "metrics.json").read_text())["splits"]["id"]
        assert f"| In distribution, mean | {scores['n']:,} | {scores['pass@1']:.3f} |" in card
        assert f"| {scores['brier']:.3f} | {scores['ece']:.3f} |" in card
        manifest(out, stage)


def test_rl_starts_from_the_model_before_it_and_counts_its_work(finished: tuple[Path, str, str]) -> None:
    out, _, _ = finished
    for stage, lineage, made_by in (
        ("rlcr", ["rlcr"], "base"),
        ("calibsft-rlcr", ["calibsft", "rlcr"], "sft"),
    ):
        facts = manifest(out, stage)
        assert facts["lineage"] == lineage and facts["model"] == str(out / made_by / "model")
        assert (facts["steps"], facts["updates"]) == (2, 4) and facts["generated_batches"] >= 2
        assert facts["inputs"]["data"] == manifest(out, "rollout")["content_hash"]
        journal = [json.loads(line) for line in (out / stage / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in journal] == [1, 2]
        assert all(row["grad_norm"] > 0 and row["kept_groups"] >= 1 for row in journal)
        trained = load_file(out / stage / "model" / "model.safetensors")
        moved = {name: distance(trained, out / name) for name in ("base", "sft")}
        assert 0 < moved.pop(made_by) < 0.5 * min(moved.values()), "it is near the model that it started from"


def distance(weights: dict[str, Any], stage: Path) -> float:
    other = load_file(stage / "model" / "model.safetensors")
    return max(float(abs(tensor - other[name]).max()) for name, tensor in weights.items())


def test_the_training_set_is_balanced_and_every_row_says_its_target(finished: tuple[Path, str, str]) -> None:
    out, _, _ = finished
    table = pl.read_parquet(out / "build" / "sft.parquet")
    assert table["target"].value_counts()["count"].n_unique() == 1
    written = table["response"].str.extract(r"<confidence>(.*)</confidence>").to_list()
    exact = [Fraction(*pair) for pair in table.select("target_numerator", "target_denominator").iter_rows()]
    assert written == [FORMATS["probability"].render(target) for target in exact]
    rollouts = pl.read_parquet(out / "rollout" / "part-*.parquet").select("question_id", "sample", "response")
    joined = table.join(rollouts, on=("question_id", "sample"), suffix="_sampled")
    unchanged = r"^(.*)<confidence>"
    assert (
        joined["response"].str.extract(unchanged) == joined["response_sampled"].str.extract(unchanged)
    ).all()


def test_evaluation_rows_and_metrics_agree(finished: tuple[Path, str, str]) -> None:
    out, _, _ = finished
    for stage in EVALUATED:
        rows = pl.read_parquet(out / stage / "rows.parquet")
        metrics = json.loads((out / stage / "metrics.json").read_text())
        assert metrics["overall"]["n"] == len(rows) == 6 * 15 * 3
        assert metrics["overall"]["pass@1"] == pytest.approx(rows["correct"].mean())
        assert set(metrics["datasets"]) == set(rows["dataset"])


def test_a_second_run_skips_everything(finished: tuple[Path, str, str]) -> None:
    out, first, _ = finished
    stdout, stderr = run(out)
    assert skipped(stderr) == sorted(STAGES) and "done in" not in stderr
    assert stdout == first


def test_a_changed_setting_is_refused_by_name_and_redone_with_fresh(finished: tuple[Path, str, str]) -> None:
    out, _, _ = finished
    kept = {"base", "rollout", "verify", "eval-base", "prior-base", "rlcr", "eval-rlcr"}
    before = {stage: manifest(out, stage) for stage in kept}
    _, stderr = run(out, "targets.mix=0.25", status=2)
    assert "targets.mix was 0.5 and is now 0.25" in stderr and "--fresh" in stderr
    assert "Traceback" not in stderr
    _, stderr = run(out, "targets.mix=0.25", fresh=True)
    assert skipped(stderr) == sorted(kept)
    assert {stage: manifest(out, stage) for stage in kept} == before
    assert set(re.findall(r"^(\S+): done in", stderr, re.MULTILINE)) == STAGES - kept


def test_a_model_and_questions_of_ones_own(short_base: Path, tmp_path: Path) -> None:
    questions = [
        {"question_id": a, "question": f"{a}*{b}", "gold": f"{a * b:04d}", "kind": "exact"}
        for a, b in zip(range(10, 20), range(20, 30), strict=True)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    changes = (
        f"model={short_base}", f"questions.source={tmp_path / 'questions.jsonl'}", "questions.limit=10", "rollout.samples=30",
        "eval.benchmarks=[cross]", "pipelines=[[rlcr]]", "jobs=1",
    )  # fmt: skip
    stdout, _ = run(tmp_path / "run", *changes, until="verify")
    assert stdout == f"finished: {tmp_path / 'run' / 'verify'}\n"
    assert {path.parent.name for path in tmp_path.glob("run/*/manifest.json")} == {"rollout", "verify"}
    stdout, stderr = run(tmp_path / "run", *changes)
    assert skipped(stderr) == ["rollout", "verify"]
    assert "\nbase: " not in stderr and "Out of distribution" in stdout and "Base→RLCR" in stdout
    assert manifest(tmp_path / "run", "rlcr")["questions"] <= 10
    assert not (tmp_path / "run" / "build").exists()
    with (tmp_path / "questions.jsonl").open("a") as more:
        more.write(json.dumps(questions[0] | {"question_id": "new", "question": "12*13"}) + "\n")
    _, stderr = run(tmp_path / "run", *changes, status=2)
    assert "its input 'questions' has changed" in stderr


def test_training_seeds_share_all_but_the_trainings(short_base: Path, tmp_path: Path) -> None:
    out, changes = (
        tmp_path / "run",
        (f"model={short_base}", "eval.benchmarks=[cross]", "pipelines=[[calibsft]]"),
    )
    stdout, _ = run(out, *changes, "training_seeds=[0, 1]")
    trained = {f"{stage}-seed{seed}" for stage in ("sft", "eval-calibsft") for seed in (0, 1)}
    shared = {"rollout", "verify", "build", "eval-base"}
    assert {path.parent.name for path in out.glob("*/manifest.json")} == trained | shared | {"report"}
    assert "mean ± sd over 2 training seeds" in stdout and "± " in stdout
    first, other = (load_file(out / f"sft-seed{seed}" / "model" / "model.safetensors") for seed in (0, 1))
    assert any((first[name] != other[name]).any() for name in first)
    for seed in (0, 1):
        table = manifest(out, "build")["files"]["sft.parquet"]
        assert manifest(out, f"sft-seed{seed}")["inputs"]["data"] == table
        evaluated = manifest(out, f"eval-calibsft-seed{seed}")
        assert (evaluated["lineage"], evaluated["training_seed"]) == (["calibsft"], seed)
    assert all(f"CalibSFT, seed {seed}" in (out / "report/report.md").read_text() for seed in (0, 1))
    # One more seed costs its own trainings alone; the report is of other models then.
    _, stderr = run(out, *changes, "training_seeds=[0, 1, 2]", fresh=True)
    assert set(skipped(stderr)) == trained | shared
    assert set(re.findall(r"^(\S+): done in", stderr, re.MULTILINE)) == {
        "sft-seed2", "eval-calibsft-seed2", "report",
    }  # fmt: skip


def test_golds_that_cannot_be_read_are_told(short_base: Path, tmp_path: Path) -> None:
    rows = [
        {"question_id": a, "question": f"{a}*11", "gold": r"\frac{", "kind": "math"} for a in range(10, 13)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = (f"model={short_base}", f"questions.source={tmp_path / 'questions.jsonl'}", "questions.limit=3")
    _, stderr = run(tmp_path / "run", *changes, status=2)
    assert (
        "no gold answer could be read, so nothing is graded; fix the gold answers" in stderr
        and "Traceback" not in stderr
    )
