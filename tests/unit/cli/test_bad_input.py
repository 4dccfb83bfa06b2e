"""Bad input at the command line: exit code 2, one sentence that names file, row and remedy, nothing destroyed."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from calibsft.artifacts import COST
from calibsft.cli import app as frame
from calibsft.cli import main
from calibsft.recipe import load_recipe
from calibsft.responses.parse import render

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Calibsft = Callable[..., Outcome]


@pytest.fixture
def calibsft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calibsft:
    """The command, run in process inside an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["calibsft", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return Outcome(int(end.value.code or 0), shown.out, shown.err)

    return run


@pytest.fixture
def refused(calibsft: Calibsft) -> Callable[..., str]:
    """Run a command that must be refused with one printable sentence; returns the sentence."""

    def run(*arguments: str) -> str:
        found = calibsft(*arguments)
        assert found.code == 2, found
        assert found.out == ""
        assert "Traceback" not in found.err and "unexpected" not in found.err
        line = found.err.removesuffix("\n")
        assert line.startswith("calibsft: ") and line.isprintable(), repr(found.err)
        return line.removeprefix("calibsft: ")

    return run


Refused = Callable[..., str]


def pool(marks: dict[str, str] | None = None) -> list[Row]:
    return [
        {
            "question_id": name,
            "question": f"{name}?",
            "sample": sample,
            "response": render("t", "a", "0.50"),
            "correct": mark == "R",
        }
        for name, outcomes in (marks or {"q1": "RRW", "q2": "RWW"}).items()
        for sample, mark in enumerate(outcomes)
    ]


def jsonl(rows: list[Row], name: str = "pool.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def test_a_missing_pool(refused: Refused) -> None:
    assert refused("build", "none.csv", "--out", "o").startswith("none.csv: no such file; give a .csv")


def test_a_missing_column_names_the_nearest(refused: Refused) -> None:
    rows = [{("responses" if key == "response" else key): v for key, v in row.items()} for row in pool()]
    said = refused("build", jsonl(rows), "--out", "o")
    assert (
        "pool.jsonl: column 'response' is missing, but 'responses' is there; add --columns response=responses"
        in said
    )


def test_an_unknown_extension(refused: Refused) -> None:
    Path("pool.txt").write_text("x")
    assert "unknown file type '.txt'; use .csv" in refused("build", "pool.txt", "--out", "o")


def test_a_broken_line(refused: Refused) -> None:
    with Path(jsonl(pool())).open("a") as out:
        out.write('{"question_id": "q2", "resp\n')
    assert refused("build", "pool.jsonl", "--out", "o").startswith(
        "pool.jsonl, row 7: not a JSON object; write"
    )


@pytest.mark.parametrize("name", ["pool.csv", "pool.jsonl", "pool.parquet"])
def test_an_empty_file(refused: Refused, name: str) -> None:
    Path(name).touch()
    assert refused("build", name, "--out", "o").startswith(f"{name}: the file is empty; write")


@pytest.mark.parametrize(
    "change, said",
    [
        ({"correct": "maybe"}, "row 2: correct 'maybe' is neither true nor false (1 such rows); write true or false"),
        ({"correct": None}, "row 2: 'correct' is empty (1 such rows); fill it or remove the row"),
        ({"question_id": None}, "row 2: 'question_id' is empty"),
        ({"question": None}, "row 2: 'question' is empty"),
        ({"question": "other?"}, "row 1: question_id 'q1' stands for different questions; give every question its own"),
        ({"sample": None}, "row 2: 'sample' is empty"),
        ({"sample": "b"}, "row 2: sample 'b' is not a whole number (1 such rows); number the samples"),
        ({"sample": 0}, "row 1: question 'q1' has more than one row with sample 0; give the samples of a question different numbers"),
        ({"question_id": "q3", "question": "q3?"}, "row 2: question 'q3' has a single rollout, which gives no success"),
        ({"finished": "perhaps"}, "row 2: finished 'perhaps' is neither true nor false"),
        ({"correct": "\x1b]0;owned\x07\x1b[2J"}, r"row 2: correct '\x1b]0;owned\x07\x1b[2J' is neither"),
        ({"question_id": "\x1b[31mq", "question": "x"}, r"row 2: question '\x1b[31mq' has a single rollout"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named(refused: Refused, change: Row, said: str) -> None:
    rows = pool()
    if "finished" in change:
        rows = [row | {"finished": "yes"} for row in rows]
    if isinstance(change.get("correct"), str):
        rows = [row | {"correct": "yes"} for row in rows]
    rows[1] |= change
    message = refused("build", jsonl(rows), "--out", "o")
    assert message.startswith("pool.jsonl, ") and said in message
    assert not Path("o").exists()


def test_token_ids_that_are_none(refused: Refused) -> None:
    rows = [row | {"token_ids": "a b c"} for row in pool()]
    assert "column 'token_ids' holds something else than lists" in refused("build", jsonl(rows), "--out", "o")


def test_control_characters_in_column_names_do_not_reach_the_terminal(refused: Refused) -> None:
    rows = [{"\x1b[2Jresponse\x07": 1, "question_id": 1, "question": 1, "correct": 1}]
    assert "column 'response' is missing" in refused("build", jsonl(rows), "--out", "o")


def test_an_unknown_format(refused: Refused) -> None:
    said = refused("build", jsonl(pool()), "--out", "o", "--format", "probabilty")
    assert said.startswith("build: unknown confidence format 'probabilty'; did you mean 'probability'?")


def test_an_unknown_target(refused: Refused) -> None:
    said = refused("build", jsonl(pool()), "--out", "o", "--target", "csf")
    assert said.startswith("build: unknown target 'csf'; did you mean 'csft'?")


@pytest.mark.parametrize("mark, word, remedy", [("R", "correct", "harder"), ("W", "incorrect", "easier")])
def test_a_pool_with_one_outcome_has_nothing_to_teach(
    refused: Refused, mark: str, word: str, remedy: str
) -> None:
    said = refused("build", jsonl(pool({"q1": mark * 3, "q2": mark * 2})), "--out", "o")
    assert f"pool.jsonl: every one of the 5 responses is {word}" in said and f"add {remedy} questions" in said


def test_unfinished_correct_responses_do_not_make_a_pool_useful(refused: Refused) -> None:
    rows = [row | {"finished": not row["correct"]} for row in pool()]
    assert "every one of the 6 responses is incorrect" in refused("build", jsonl(rows), "--out", "o")


def test_no_well_formed_response(refused: Refused) -> None:
    rows = [row | {"response": "forty-two"} for row in pool()]
    said = refused("build", jsonl(rows), "--out", "o")
    assert (
        "none of the 6 responses is well formed as 'probability' (missing_think_end: 6); check that" in said
    )


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan", "inf"])
def test_lambda_out_of_range(refused: Refused, value: str) -> None:
    assert refused("build", jsonl(pool()), "--out", "o", "--lambda", value).startswith(
        f"build: targets.mix = {value}"
    )


def test_lambda_that_is_no_number(refused: Refused) -> None:
    assert "'--mix' / '--lambda'" in refused("build", jsonl(pool()), "--out", "o", "--lambda", "half")


def test_a_minimum_that_no_group_reaches_can_be_corrected_in_the_same_folder(
    refused: Refused, calibsft: Calibsft
) -> None:
    said = refused("build", jsonl(pool()), "--out", "o", "--min-group", "9")
    assert (
        said
        == "pool.jsonl: no target group has 9 responses (the largest has 2); lower --min-group or add rollouts"
    )
    assert calibsft("build", "pool.jsonl", "--out", "o", "--min-group", "2").code == 0


def test_a_rollout_folder_without_verdicts(refused: Refused) -> None:
    Path("rollouts").mkdir()
    assert "needs its verdicts; add --verdicts" in refused("build", "rollouts", "--out", "o")


def test_a_folder_that_is_no_finished_stage(refused: Refused) -> None:
    Path("rollouts").mkdir()
    said = refused("build", "rollouts", "--verdicts", "rollouts", "--out", "o")
    assert said.startswith("rollouts: no manifest.json, so this is not a finished stage; run the stage")
    assert refused("verify", "rollouts", "--out", "o") == said


def test_verdicts_on_other_rollouts(refused: Refused) -> None:
    from calibsft.artifacts import StageFolder, write_text

    for name, stage, inputs in (
        ("rollouts", "rollout", {}), ("verdicts", "verify", {"rollout": "0123"}),
    ):  # fmt: skip
        folder = StageFolder(Path(name), stage, {}, inputs)
        folder.begin()
        write_text(folder.path / "part-00000.parquet", "")
        folder.finish()
    said = refused("build", "rollouts", "--verdicts", "verdicts", "--out", "o")
    assert said.startswith(
        "verdicts: these are not verdicts on the rollouts in rollouts; run calibsft verify"
    )


def test_a_foreign_folder_is_left_alone_even_with_fresh(refused: Refused) -> None:
    Path("o").mkdir()
    Path("o/thesis.tex").write_text("years of work")
    for option in ((), ("--fresh",)):
        said = refused("build", jsonl(pool()), "--out", "o", *option)
        assert said == "o: the folder is not empty and not a stage of calibsft; choose another one with --out"
    assert [path.name for path in Path("o").iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_left_alone(refused: Refused) -> None:
    Path("o").write_text("mine")
    assert "o: cannot be created as a folder" in refused("build", jsonl(pool()), "--out", "o")
    assert Path("o").read_text() == "mine"


def test_a_changed_setting_is_refused_by_name_and_allowed_with_fresh(
    refused: Refused, calibsft: Calibsft
) -> None:
    assert calibsft("build", jsonl(pool()), "--out", "o").code == 0
    before = Path("o/sft.parquet").read_bytes()
    said = refused("build", "pool.jsonl", "--out", "o", "--lambda", "0.25")
    assert said.startswith(
        "o: targets.mix was 0.5 and is now 0.25; choose another folder with --out, or start"
    )
    assert Path("o/sft.parquet").read_bytes() == before
    assert calibsft("build", "pool.jsonl", "--out", "o", "--lambda", "0.25", "--fresh").code == 0
    assert Path("o/sft.parquet").read_bytes() != before


def test_a_changed_pool_is_refused(refused: Refused, calibsft: Calibsft) -> None:
    assert calibsft("build", jsonl(pool()), "--out", "o").code == 0
    jsonl(pool({"q1": "RRW", "q2": "RRW"}))
    assert "its input 'pool' has changed" in refused("build", "pool.jsonl", "--out", "o")


def test_fresh_does_not_delete_another_stage(refused: Refused) -> None:
    from calibsft.artifacts import StageFolder

    folder = StageFolder(Path("o"), "rollout", {"seed": 3})
    folder.begin()
    Path("o/part-00000.parquet").write_text("hours of sampling")
    said = refused("build", jsonl(pool()), "--out", "o", "--fresh")
    assert said.startswith("o: the folder holds stage 'rollout', not 'build'")
    assert Path("o/part-00000.parquet").read_text() == "hours of sampling"


def test_a_finished_stage_is_skipped(calibsft: Calibsft) -> None:
    assert calibsft("build", jsonl(pool()), "--out", "o").code == 0
    again = calibsft("build", "pool.jsonl", "--out", "o", "--json")
    assert again.code == 0 and again.err == "build: done before, skipped (o)\n"
    assert json.loads(again.out)["responses"] == 6


def test_a_finished_stage_that_lost_a_file_is_not_skipped(refused: Refused, calibsft: Calibsft) -> None:
    assert calibsft("build", jsonl(pool()), "--out", "o").code == 0
    Path("o/sft.parquet").write_bytes(Path("o/sft.parquet").read_bytes()[:-1])
    said = refused("build", "pool.jsonl", "--out", "o")
    assert said.startswith(
        "o/sft.parquet: damaged, not as manifest.json describes it; remove it and o/manifest.json"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("rollout", "--model", "r/model", "--questions", "pool.jsonl"),
        ("verify", "r"),
        ("build", "r", "--verdicts", "v"),
        ("sft", "--model", "r/model", "--data", "pool.jsonl"),
        ("sft", "--model", "m", "--data", "r/sft.parquet"),
        ("rl", "--model", "m", "--method", "rlcr", "--data", "r", "--verdicts", "v"),
        ("eval", "--model", "r/model", "--benchmarks", "cross"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_damaged_file_of_another_stage_is_not_read_unless_asked(
    refused: Refused, calibsft: Calibsft, words: tuple[str, ...]
) -> None:
    from calibsft.artifacts import StageFolder, write_text

    jsonl([{"question_id": "1", "question": "?", "gold": "1"}])
    settings = {"format": "probability"}
    rollout, verify = StageFolder(Path("r"), "rollout", settings), StageFolder(Path("v"), "verify", settings)
    for stage in (rollout, verify):
        stage.begin()
        for file in ("sft.parquet", "model/config.json"):
            write_text(stage.path / file, "{ }")
        stage.finish()
        verify.inputs = {"rollout": rollout.manifest()["content_hash"]}
    for file in ("sft.parquet", "model/config.json"):
        Path("r", file).write_text("{}.")
    said = refused(*words, "--out", "o")
    assert said.startswith("r/") and "damaged, not as manifest.json describes it" in said
    assert "damaged" not in calibsft(*words, "--out", "o", "--no-hash-check").err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "tiny"),
        ("rollout", "--model", "m", "--questions", "questions.jsonl"),
        ("verify", "pool.jsonl"),
        ("build", "pool.jsonl"),
        ("eval", "--model", "m", "--benchmarks", "cross"),
    ],
    ids=lambda words: words[0],
)
def test_work_that_processes_cannot_share_is_refused_under_a_launcher(
    calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    jsonl([{**row, "gold": "1"} for row in pool()])
    jsonl([{"question_id": "1", "question": "?", "gold": "1"}], "questions.jsonl")
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    found = calibsft(*words, "--out", "o")
    said = f"calibsft: calibsft {words[0]} works in one process and a launcher has started 2 (WORLD_SIZE)"
    assert found.code == 2 and found.err.splitlines()[-1].startswith(said)
    assert not Path("o").exists()


@pytest.mark.parametrize(
    "override, said",
    [
        ("rollout.sampels=8", "unknown key 'rollout.sampels'; did you mean 'rollout.samples'?"),
        ("sft.steps=0", "sft.steps = 0: input should be greater than or equal to 1; correct that key"),
        ("sft.steps", "--set sft.steps: write it as key=value, for example --set rollout.samples=8"),
        ("sft.steps=[", "--set sft.steps=[: not a valid value"),
    ],
)
def test_a_bad_override(refused: Refused, override: str, said: str) -> None:
    assert said in refused("run", "tiny", "--dry-run", "--set", override)


def test_a_recipe_that_is_not_yaml(refused: Refused) -> None:
    Path("mine.yaml").write_text("sft:\n  steps: {\n")
    assert refused("run", "mine.yaml", "--dry-run").startswith("mine.yaml, line 3: not valid YAML")


def test_an_unknown_recipe(refused: Refused) -> None:
    assert refused("run", "tinny").startswith("no recipe is called 'tinny'; did you mean 'tiny'?")


@pytest.mark.parametrize(
    "seeds, said",
    [
        ("0,x", "training_seeds.1 = 'x': input should be a valid integer"),
        ("0,-1", "training_seeds.1 = -1: input should be greater than or equal to 0"),
        ("1,0,1", "training_seeds names a seed twice"),
        ("4294967296", "training_seeds.0 = 4294967296: input should be less than"),
        ("0]", "not a valid value"),
    ],
)
def test_seeds_that_are_none(refused: Refused, seeds: str, said: str) -> None:
    assert said in refused("run", "tiny", "--seeds", seeds, "--dry-run")


@pytest.mark.parametrize(
    "given, said",
    [
        (["--until", "rolout"], "unknown stage 'rolout'; did you mean 'rollout'?"),
        (["--until", " , "], "--until names no stage"),
        (["--until", "build", "--dry-run"], "give one of the two"),
    ],
)
def test_a_run_up_to_stages_that_are_not_there_is_refused(
    refused: Refused, given: list[str], said: str
) -> None:
    assert said in refused("run", "tiny", *given)


def test_a_dry_run_prints_a_recipe_that_loads_to_the_same_and_makes_nothing(calibsft: Calibsft) -> None:
    found = calibsft("run", "tiny", "--dry-run", "--set", "sft.lora.rank=4", "--set", "seed=7")
    assert found.code == 0 and list(Path().iterdir()) == []
    assert found.err.startswith("stages: base, eval-base, rollout, verify, build, sft, eval-calibsft, ")
    assert found.err.endswith(", calibsft-rlcr, eval-calibsft-rlcr, report\n")
    Path("printed.yaml").write_text(found.out)
    assert load_recipe("printed.yaml") == load_recipe("tiny", ["sft.lora.rank=4", "seed=7"])
    assert yaml.safe_load(found.out)["sft"]["lora"]["rank"] == 4


def scores(*cells: str, header: str = "confidence,correct") -> str:
    Path("s.csv").write_text("\n".join([header, *cells]) + "\n", encoding="utf-8")
    return "s.csv"


@pytest.mark.parametrize(
    "cell, shown",
    [
        ("nan", "'nan'"),
        ("1.5", "'1.5'"),
        ("-0.1", "'-0.1'"),
        ("inf", "'inf'"),
        ("", "''"),
        ("high", "'high'"),
        ("٠.٥", "'٠.٥'"),
    ],
)
def test_score_refuses_what_is_no_probability(refused: Refused, cell: str, shown: str) -> None:
    said = refused("score", scores("0.5,1", f"{cell},0"), "--malformed", "error")
    assert said.lower() == (
        f"s.csv, row 2: confidence {shown} is not a number in [0, 1]; run with --malformed drop to skip such rows"
        " (1 found)"
    )


def test_score_without_its_column(refused: Refused) -> None:
    said = refused("score", scores("0.5,1", header="confidences,correct"))
    assert said == (
        "s.csv: column 'confidence' is missing, but 'confidences' is there; add --columns confidence=confidences"
    )


def test_score_with_an_unknown_policy(refused: Refused) -> None:
    said = refused("score", scores("0.5,1"), "--malformed", "dropp")
    assert "did you mean 'drop'?" in said


def test_score_prints_json_and_nothing_else(calibsft: Calibsft) -> None:
    found = calibsft("score", scores("0.5,1", "nan,0", "0.2,0"), "--malformed", "drop", "--json")
    assert found.code == 0 and found.err == ""
    parsed = json.loads(found.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert parsed["overall"]["n"] == 2 and parsed["dropped"] == 1


def test_names_of_datasets_reach_the_terminal_without_control_characters(calibsft: Calibsft) -> None:
    found = calibsft("score", scores("0.5,1,\x1b[2Ja", "0.4,0,b", header="confidence,correct,dataset"))
    assert found.code == 0 and "\x1b" not in found.out and "[2Ja" in found.out


def test_sft_without_its_training_set(refused: Refused) -> None:
    said = refused("sft", "--model", "m", "--data", "none.parquet", "--out", "o")
    assert said == "none.parquet: no such training set; make one with calibsft build"
    Path("folder").mkdir()
    said = refused("sft", "--model", "m", "--data", "folder", "--out", "o")
    assert said.startswith("folder/sft.parquet: no such training set")


def test_sft_with_an_unknown_setting(refused: Refused) -> None:
    said = refused("sft", "--model", "m", "--data", "x", "--out", "o", "--set", "step=3")
    assert said == "sft: unknown key 'sft.step'; did you mean 'sft.steps'?"


def rl(data: str, *words: str, model: object = "m", method: str = "rlcr") -> tuple[str, ...]:
    """A small training, if nothing is wrong with it."""
    settings = ("steps=1", "questions=2", "updates=1", "max_batches=2", "max_new_tokens=30", "warmup_steps=0")
    changes = [word for setting in settings for word in ("--set", setting)]
    paths = ("--model", str(model), "--data", data, "--out", "o", "--device", "cpu")
    return ("rl", "--method", method, *paths, *changes, *words)


def questions(name: str = "q.jsonl", **changes: Any) -> str:
    """Multiples of ten, which a short training solves now and then."""
    rows = [
        {"question_id": str(a), "question": f"{a}*10", "gold": f"{a * 10:04d}", "kind": "exact"} | changes
        for a in range(10, 30)
    ]
    return jsonl(rows, name)


def left() -> list[str]:
    """The files with anything in them that a refused command has left, but for what it cost."""
    files = (path for path in Path("o").rglob("*") if path.is_file() and path.name != COST)
    return sorted(path.name for path in files if path.stat().st_size)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--method", "rlcrr"], "unknown method 'rlcrr'; did you mean 'rlcr'? (known: rlvr, rlcr, coca, dcpo, c3rl, redoubt)"),
        (["--method", "c3rl"], "c3rl is defined for the integer format, not for 'probability'; choose the format 'integer' and"),
        (["--format", "percent"], "unknown confidence format 'percent'"),
        (["--set", "group_size=1"], "rl: rl.group_size = 1: input should be greater than or equal to 2; correct that key"),
        (["--set", "stepss=1"], "rl: unknown key 'rl.stepss'; did you mean 'rl.steps'?"),
        (["--set", "updates=4"], "rl: rl.questions 2 is not a multiple of rl.updates 4; change either"),
        (["--set", "micro_batch_size=7"], "are not a multiple of rl.micro_batch_size 7; change either"),
        (["--set", "keep_unanimous=true"], "rl.keep_unanimous means nothing here, it is for coca, dcpo, redoubt; leave it out"),
        (["--set", "overlong_buffer=31"], "rl.overlong_buffer is larger than rl.max_new_tokens"),
        (["--set", "eval_every=1"], "eval_every needs benchmarks to evaluate on"),
        (["--benchmarks", "cross"], "benchmarks mean nothing without --eval-every; give both"),
        (["--set", "eval_every=1", "--benchmarks", "crss"], "unknown benchmark 'crss'; did you mean 'cross'?"),
        (["--set", "report_to=[tensorbored]"], "unknown name in report_to 'tensorbored'; did you mean 'tensorboard'?"),
        (["--data", "none.jsonl"], "none.jsonl: no such file; check the path"),
        (["--data", "folder"], "folder: no manifest.json, so this is not a finished stage"),
        (["--verdicts", "folder"], "folder: no manifest.json, so this is not a finished stage"),
    ],
)  # fmt: skip
def test_rl_is_refused_before_it_begins(refused: Refused, words: list[str], said: str) -> None:
    Path("folder").mkdir()
    assert said in refused(*rl(questions(), *words))
    assert not Path("o").exists()


def test_rl_without_golds(refused: Refused) -> None:
    rows = [{"question_id": 1, "question": "1*1", "golds": "1"}]
    said = refused(*rl(jsonl(rows, "q.jsonl")))
    assert said.startswith("q.jsonl: column 'gold' is missing (there is 'golds': rename it)")
    assert left() == ["recipe.resolved.yaml"]


def finished_stage(name: str, stage: str) -> str:
    from calibsft.artifacts import StageFolder, write_parquet

    folder = StageFolder(Path(name), stage, {})
    folder.begin()
    if stage == "rollout":
        write_parquet(
            Path(name, "part-00000.parquet"), pl.DataFrame({"question_id": ["1"], "dataset": ["q"]})
        )
    folder.finish()
    return name


def test_rl_from_another_stage_than_rollouts(refused: Refused) -> None:
    said = refused(*rl(finished_stage("v", "verify")))
    assert said.startswith("v: no questions.parquet there; give the folder that calibsft rollout wrote")


@pytest.mark.parametrize("stage", ["rollout", "build"])
def test_rl_with_verdicts_that_are_none(refused: Refused, stage: str) -> None:
    said = refused(*rl(questions(), "--verdicts", finished_stage("f", stage)))
    assert said.startswith("f: ") and "verif" in said


@pytest.mark.parametrize("rate", ["often", 1.5, -0.1, None, "", [0.5]])
def test_a_success_rate_that_is_none(refused: Refused, rate: Any) -> None:
    fine = [0.5] if isinstance(rate, list) else "0.5" if isinstance(rate, str) else 0.5
    rows = [
        {
            "question_id": i,
            "question": "1*1",
            "gold": "1",
            "success_rate": rate if i == 1 or rate == [0.5] else fine,
        }
        for i in range(3)
    ]
    said = refused(*rl(jsonl(rows, "q.jsonl")))
    assert said.startswith("q.jsonl") and "success_rate" in said
    if rate != [0.5]:
        assert said.startswith(
            f"q.jsonl, row 2: success_rate {rate!r} is not a number in [0, 1]; correct it or"
        )
    assert left() == ["recipe.resolved.yaml"]


def test_a_success_rate_of_nan_in_a_table(refused: Refused) -> None:
    Path("q.csv").write_text("question_id,question,gold,success_rate\n1,1*1,1,0.5\n2,1*2,2,nan\n")
    assert refused(*rl("q.csv")).startswith("q.csv, row 2: success_rate 'nan' is not a number in [0, 1]")


def test_c3rl_without_success_rates(refused: Refused, random_checkpoint: Path) -> None:
    said = refused(*rl(questions(), "--format", "integer", model=random_checkpoint, method="c3rl"))
    assert said.startswith(
        "c3rl needs every question's success rate before RL, and 20 have none (first: '10'); add a column success_rate"
    )
    assert left() == ["recipe.resolved.yaml"]


def test_rl_on_nothing_but_solved_questions(calibsft: Calibsft, random_checkpoint: Path) -> None:
    found = calibsft(*rl(questions(success_rate=1.0), model=random_checkpoint))
    assert found.code == 2 and found.out == ""
    assert found.err.splitlines() == [
        "rl: 20 of 20 questions are always solved and left out",
        "calibsft: no question is left to train on: all are always solved or have too long a prompt; give harder or shorter"
        " questions, or raise rl.max_prompt_tokens",
    ]


def test_rl_on_questions_that_are_never_solved(
    refused: Refused, calibsft: Calibsft, short_base: Path
) -> None:
    said = refused(*rl(questions(gold="none"), model=short_base))
    assert said == (
        "no question had both right and wrong responses in 4 groups (0 all right, 4 all wrong); take questions nearer to what"
        " the model can do, or larger groups"
    )
    assert left() == ["recipe.resolved.yaml"]
    found = calibsft(*rl(questions(), "--set", "max_batches=20", model=short_base))
    assert found.code == 0, (
        f"nothing was trained, so nothing stands in the way of mended questions: {found.err}"
    )


def test_rl_with_golds_that_cannot_be_read(calibsft: Calibsft, short_base: Path) -> None:
    found = calibsft(*rl(questions(gold=r"\frac{", kind="math"), model=short_base))
    assert found.code == 2 and found.out == ""
    warning, refusal = found.err.splitlines()
    assert warning.startswith("warning: rl: the gold answer of question '") and "cannot be read" in warning
    assert refusal.startswith("calibsft: no gold answer of the questions asked could be read")
    assert "so nothing is graded; fix the gold answers" in refusal
    assert left() == ["recipe.resolved.yaml"]


def test_rl_of_a_model_that_does_not_keep_to_the_format(refused: Refused, random_checkpoint: Path) -> None:
    said = refused(*rl(questions(), model=random_checkpoint))
    assert said.startswith("all 32 responses of this rollout step are malformed (most often: ")
    assert said.endswith("start from a model that keeps to the format, for example after calibsft sft")
    assert left() == ["recipe.resolved.yaml"]


def test_rl_says_when_it_was_done_before_and_refuses_other_settings_by_name(
    refused: Refused, calibsft: Calibsft, short_base: Path
) -> None:
    command = rl(questions(), "--set", "max_batches=20", model=short_base)
    first = calibsft(*command)
    assert (first.code, first.out) == (0, "checkpoint: o/model\n"), first.err
    weights = Path("o/model/model.safetensors").read_bytes()
    again = calibsft(*command)
    assert again == Outcome(0, "checkpoint: o/model\n", "rl: done before, skipped (o)\n")
    for words, said in (
        (
            ("--set", "learning_rate=1e-2"),
            "o: rl.learning_rate was 2e-06 and is now 0.01; choose another folder",
        ),
        (("--set", "lora.rank=4"), "o: rl.lora"),
        (("--method", "coca"), "o: rl.name was 'rlcr' and is now 'coca'"),
        (("--format", "integer"), "o: format was 'probability' and is now 'integer'"),
        (("--seed", "1"), "o: seed was 0 and is now 1"),
        (
            ("--benchmarks", "cross", "--set", "eval_every=1"),
            "o: rl.eval_every was None and is now 1",
        ),
    ):
        assert refused(*command, *words).startswith(said)
    questions(dataset="other")
    assert refused(*command).startswith("o: its input 'data' has changed")
    assert Path("o/model/model.safetensors").read_bytes() == weights
    assert calibsft(*command, "--fresh", "--set", "learning_rate=1e-2").code == 0
    assert Path("o/model/model.safetensors").read_bytes() != weights


def test_the_help_of_rl_names_every_method(calibsft: Calibsft) -> None:
    from calibsft.rl.methods import METHODS

    shown = calibsft("rl", "--help").out
    assert all(name in shown for name in METHODS)


def test_rollout_without_its_questions(refused: Refused) -> None:
    said = refused("rollout", "--model", "m", "--questions", "none.csv", "--out", "o")
    assert said.startswith("none.csv: no such file")


def test_rollout_with_a_repeated_question(refused: Refused) -> None:
    Path("q.csv").write_text("question_id,question,gold\n1,a,1\n1,b,2\n")
    said = refused("rollout", "--model", "m", "--questions", "q.csv", "--out", "o")
    assert said.startswith("q.csv, row 1: question_id '1' is repeated")


def test_report_of_nothing(refused: Refused) -> None:
    assert refused("report", "none").startswith("none: no such run folder")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["bild"], "No such command 'bild'"),
        (["build"], "Missing argument 'source'; see calibsft build --help"),
        (["build", "x.csv"], "Missing option '--out'"),
        (["build", "x.csv", "--out", "o", "--lamda", "1"], "No such option: --lamda"),
        (["--debug"], "Missing command"),
    ],
)
def test_wrong_words_are_told_in_one_sentence(refused: Refused, arguments: list[str], said: str) -> None:
    assert said.lower() in refused(*arguments).lower()


def test_no_words_at_all_show_the_help(calibsft: Calibsft) -> None:
    found = calibsft()
    assert found.code == 2 and "Usage" in found.out + found.err and "unexpected" not in found.err


def test_help_and_version_succeed(calibsft: Calibsft) -> None:
    from calibsft import __version__

    assert calibsft("--version") == Outcome(0, f"{__version__}\n", "")
    for command in ((), *((name,) for name in frame.COMMANDS)):
        found = calibsft(*command, "--help")
        assert found.code == 0 and "Usage" in found.out


def test_debug_shows_the_traceback(calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibsft.errors import InputError

    monkeypatch.setattr(sys, "argv", ["calibsft", "--debug", "score", "none.csv"])
    with pytest.raises(InputError):
        main()


def failing(error: BaseException) -> Callable[..., None]:
    def score_file(*_: object) -> None:
        raise error

    return score_file


def test_an_interrupt_says_how_to_go_on(calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibsft.metrics.score_file", failing(KeyboardInterrupt()))
    found = calibsft("score", "x.csv")
    assert found == Outcome(130, "", "interrupted; run the same command again to go on\n")


def test_a_bug_is_told_as_one_and_exits_with_one(calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibsft.metrics.score_file", failing(RuntimeError("boom")))
    found = calibsft("score", "x.csv")
    assert found.code == 1
    assert (
        found.err
        == "calibsft: unexpected RuntimeError: boom; run with calibsft --debug … for the traceback\n"
    )
