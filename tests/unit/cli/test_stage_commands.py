"""Stages on their own at the command line: chained by hand, and refused when something does not fit."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from calibsft.verify.verifier import grader_name
from command import Command


@pytest.fixture(autouse=True)
def _questions(tmp_path: Path) -> None:
    """A questions file in the folder where the command runs."""
    rows = [
        {"question_id": a, "question": f"{a}*11", "gold": f"{a * 11:04d}", "kind": "exact"}
        for a in range(10, 16)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


ROLLOUT = ("rollout", "--questions", "q.jsonl", "--max-new-tokens", 30, "--device", "cpu")


def test_stages_chain_by_hand(calibsft: Command, short_base: Path) -> None:
    assert calibsft(*ROLLOUT, "--model", short_base, "--out", "r", "-n", 20)[0] == 0
    assert calibsft("verify", "r", "--out", "v")[0] == 0
    verdicts = pl.read_parquet("v/part-*.parquet")
    golds = {str(a): f"{a * 11:04d}" for a in range(10, 16)}
    for question, answer, correct in verdicts.select("question_id", "answer", "correct").iter_rows():
        assert correct == (answer == golds[question])
    code, out, err = calibsft("build", "r", "--verdicts", "v", "--out", "b", "--json")
    assert code == 0, err
    assert json.loads(out)["responses"] == 120
    code, out, err = calibsft(
        "sft", "--model", short_base, "--data", "b", "--out", "s", "--device", "cpu", "--set", "steps=2",
        "--set", "batch_size=4", "--set", "micro_batch_size=4",
    )  # fmt: skip
    assert (code, out) == (0, "checkpoint: s/model\n"), err
    evaluate = (
        "eval",
        "--model",
        "s/model",
        "--benchmarks",
        "cross",
        "--limit",
        5,
        "--max-new-tokens",
        30,
        "--device",
        "cpu",
    )
    code, out, _ = calibsft(*evaluate, "--out", "e", "--json")
    assert code == 0 and json.loads(out)["overall"]["n"] == 5 * 8
    code, _, err = calibsft("score", "e/rows.parquet", "--malformed", "counted")
    assert code == 0, err


def test_an_offset_takes_the_questions_after_the_first(calibsft: Command, random_checkpoint: Path) -> None:
    sampled = (*ROLLOUT, "--model", random_checkpoint, "--out", "r", "-n", 2, "--offset", 3, "--limit", 2)
    code, _, err = calibsft(*sampled)
    assert code == 0, err
    assert pl.read_parquet("r/questions.parquet")["question"].to_list() == ["13*11", "14*11"]
    assert set(pl.read_parquet("r/part-*.parquet")["question_id"]) == {"13", "14"}


def test_rl_takes_questions_and_success_rates_from_rollouts_and_verdicts(
    calibsft: Command, short_base: Path
) -> None:
    integer = ("--format", "integer")
    assert calibsft(*ROLLOUT, "--model", short_base, "--out", "r", "-n", 4, *integer)[0] == 0
    assert calibsft("verify", "r", "--out", "v", *integer)[0] == 0
    settings = (
        "steps=2",
        "questions=3",
        "updates=1",
        "group_size=4",
        "max_new_tokens=30",
        "micro_batch_size=6",
    )
    changes = [word for setting in settings for word in ("--set", setting)]
    command = (
        "rl",
        "--model",
        short_base,
        "--method",
        "c3rl",
        "--data",
        "r",
        "--device",
        "cpu",
        *integer,
        *changes,
    )
    code, _, err = calibsft(*command, "--out", "alone")
    assert code == 2 and "c3rl needs every question's success rate before RL, and 6 have none" in err
    code, out, err = calibsft(*command, "--verdicts", "v", "--out", "o")
    assert (code, out) == (0, "checkpoint: o/model\n"), err
    found = {name: json.loads(Path(name, "manifest.json").read_text()) for name in ("r", "v", "o")}
    assert found["o"]["inputs"]["data"] == found["r"]["content_hash"]
    assert found["o"]["inputs"]["verdicts"] == found["v"]["content_hash"]
    assert [found["o"][key] for key in ("method", "questions", "steps", "updates")] == ["C3RL", 6, 2, 2]
    journal = [json.loads(line) for line in Path("o/metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["generated_groups"], row["kept_groups"]) for row in journal] == [
        (1, 3, 3),
        (2, 3, 3),
    ]
    assert "C3RL" in Path("o/model/README.md").read_text()
    assert calibsft(*ROLLOUT, "--model", "o/model", "--out", "again", "-n", 2, *integer)[0] == 0
    code, out, err = calibsft("report", "o")
    assert (code, out) == (0, "report: report.html\n"), err
    assert "Calibration during RL" in Path("report.html").read_text()
    assert found["o"]["reward_graders"] == found["v"]["verifier"] == [grader_name("exact")]
    Path("o/manifest.json").write_text(json.dumps(found["o"] | {"reward_graders": ["exact-0"]}))
    code, _, err = calibsft(*command, "--verdicts", "v", "--out", "o")
    assert code == 2 and "o: its rewards were graded by exact-0 and this program has exact-" in err


def test_rollouts_of_a_subset(calibsft: Command, random_checkpoint: Path) -> None:
    command = (*ROLLOUT, "--model", random_checkpoint, "--out", "r", "-n", 1)
    assert calibsft(*command, "--subset", 3)[0] == 0
    found = pl.read_parquet("r/part-*.parquet")["question_id"].to_list()
    assert len(found) == 3 and found == sorted(found), "in the order of the file"
    rows = Path("q.jsonl").read_text().splitlines()
    Path("q.jsonl").write_text("\n".join(rows[::-1]) + "\n")
    assert calibsft(*command, "--subset", 3, "--fresh")[0] == 0
    assert pl.read_parquet("r/part-*.parquet")["question_id"].to_list() == found[::-1]
    code, _, err = calibsft(*command, "--subset", 3, "--subset-seed", 4)
    assert code == 2 and "questions.subset_seed was 0 and is now 4" in err


def test_a_replaced_checkpoint_is_noticed(
    calibsft: Command, short_base: Path, random_checkpoint: Path
) -> None:
    shutil.copytree(short_base, "m")
    evaluate = (
        "eval",
        "--model",
        "m",
        "--out",
        "e",
        "--benchmarks",
        "cross",
        "--limit",
        2,
        "--max-new-tokens",
        30,
        "--device",
        "cpu",
    )
    assert calibsft(*evaluate)[0] == 0
    assert "skipped" in calibsft(*evaluate)[2]
    shutil.copy(random_checkpoint / "model.safetensors", "m/model.safetensors")
    code, _, err = calibsft(*evaluate)
    assert code == 2 and "its input 'model' has changed" in err


def test_a_folder_with_one_rollout_a_question_gives_no_targets(calibsft: Command, short_base: Path) -> None:
    assert calibsft(*ROLLOUT, "--model", short_base, "--out", "r", "-n", 1)[0] == 0
    assert calibsft("verify", "r", "--out", "v")[0] == 0
    code, _, err = calibsft("build", "r", "--verdicts", "v", "--out", "b")
    assert code == 2 and "question '10' has a single rollout" in err and "(6 such questions)" in err


@pytest.mark.parametrize(
    "change, told",
    [
        (("--dtype", "float12"), "dtype = 'float12'; did you mean 'float32'?"),
        (("--stop", ""), "stop.0 = ''"),
        (("--limit", "0"), "limit = 0"),
        (("--limit", "-1"), "limit = -1"),
        (("--offset", "0"), "offset = 0"),
        (
            ("--offset", "6"),
            "q.jsonl has 6 questions and questions.offset is 6, so that none is left; lower it",
        ),
        (("--device", "nowhere"), "device 'nowhere' cannot be used here; choose auto or cpu"),
        (("--format", "percent"), "unknown confidence format 'percent'"),
        (("--questions", "none.jsonl"), "none.jsonl: no such file"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_sentence(
    calibsft: Command, short_base: Path, change: tuple[str, str], told: str
) -> None:
    code, out, err = calibsft(*ROLLOUT, "--model", short_base, "--out", "r", "-n", 2, *change)
    assert (code, out) == (2, "")
    assert told in err and len(err.splitlines()) == 1 and "Traceback" not in err


def test_an_unknown_grader_names_file_and_row(calibsft: Command, short_base: Path) -> None:
    rows = [
        {"question_id": i, "question": "1*1", "gold": "1", "kind": kind}
        for i, kind in enumerate(("exact", "guess"))
    ]
    Path("bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = calibsft("rollout", "--questions", "bad.jsonl", "--model", short_base, "--out", "r")
    assert (
        code == 2
        and "bad.jsonl, row 2: unknown grader 'guess' in column 'kind'; write one of exact, math" in err
    )


def test_arguments_of_the_chat_template_are_given_one_by_one_and_recorded(
    calibsft: Command, random_checkpoint: Path
) -> None:
    shutil.copytree(random_checkpoint, "m")
    with Path("m/chat_template.jinja").open("a") as template:
        template.write("{{ '<think>' if thinking else '' }}{{ level }}")
    sampled = (*ROLLOUT, "--model", "m", "--out", "r", "-n", 2)
    code, _, err = calibsft(*sampled, "--template", "thinking=true", "--template", "level=3")
    assert code == 0, err
    recorded = yaml.safe_load(Path("r/recipe.resolved.yaml").read_text())["settings"]
    assert recorded["template"] == {"thinking": True, "level": 3}
    code, _, err = calibsft(*sampled, "--template", "level=3", "--set", "template.thinking=true")
    assert code == 0 and "done before, skipped" in err
    code, _, err = calibsft(*sampled, "--template", "level=3")
    assert code == 2 and "template.thinking was True and is now None" in err


@pytest.mark.parametrize(
    "given, told",
    [
        ("thinking", "--template thinking: write it as key=value"),
        ("=3", "--template =3: write it as key=value"),
        ("level={", "--template level={: not a valid value"),
        ("level=", "template.level is not true, false, a number or a text"),
        ("tools=x", "template.tools is set by calibsft itself, for every prompt; leave it out"),
        ("levle=3", "the chat template of this model has no argument 'levle'; leave it out of template"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_in_one_sentence(
    calibsft: Command, random_checkpoint: Path, given: str, told: str
) -> None:
    code, out, err = calibsft(
        *ROLLOUT, "--model", random_checkpoint, "--out", "r", "-n", 2, "--template", given
    )
    assert (code, out) == (2, "")
    assert told in err and len(err.splitlines()) == 1 and "Traceback" not in err


@pytest.mark.parametrize("broken", ["no such folder", "empty folder", "torn weights", "no tokenizer"])
def test_a_model_that_cannot_be_loaded_is_refused_with_its_name(
    calibsft: Command, short_base: Path, broken: str
) -> None:
    if broken == "empty folder":
        Path("m").mkdir()
    elif broken != "no such folder":
        shutil.copytree(short_base, "m")
    if broken == "torn weights":
        Path("m/model.safetensors").write_bytes(Path("m/model.safetensors").read_bytes()[:1000])
    if broken == "no tokenizer":
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            Path("m", name).unlink(missing_ok=True)
    code, _, err = calibsft(*ROLLOUT, "--model", "m", "--out", "r", "-n", 2)
    last = err.splitlines()[-1]
    assert (
        code == 2
        and last.startswith("calibsft: ")
        and ("m:" in last or "'m'" in last)
        and "unexpected" not in last
    )


def test_a_report_cannot_go_where_a_file_is(calibsft: Command, tmp_path: Path) -> None:
    code, _, err = calibsft("report", "nowhere")
    assert code == 2 and "nowhere: no such run folder" in err
    Path("empty").mkdir()
    code, _, err = calibsft("report", "empty")
    assert code == 2 and "no finished evaluation there" in err


def test_balancing_options_without_balance_are_refused(calibsft: Command) -> None:
    code, _, err = calibsft("build", "q.jsonl", "--out", "b", "--no-balance", "--redraws", 3)
    assert code == 2 and "mean nothing without balance" in err


def test_a_rank_left_in_the_environment_does_not_silence_anything(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calibsft", "build", "none.csv", "--out", str(tmp_path / "b")]
    done = subprocess.run(command, env={"RANK": "1", "PATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "none.csv: no such file" in done.stderr
