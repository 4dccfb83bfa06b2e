"""A file of another lab, with its names and its scale, goes through every command that reads responses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibsft as library
from calibsft.decisions.policy import read_policy
from command import Command

NAMES = {"confidence": "prob", "correct": "is_correct", "question_id": "qid", "dataset": "benchmark"}
COLUMNS = ",".join(f"{ours}={theirs}" for ours, theirs in NAMES.items())
OPTIONS = ("--columns", COLUMNS, "--scale", "percent")


def ours(questions: int = 600) -> pl.DataFrame:
    """Responses that are right more often where they are confident."""
    rng = np.random.default_rng(0)
    hundredths = rng.choice([30, 55, 80, 97], questions)
    return pl.DataFrame(
        {
            "question_id": [f"{number:03d}" for number in range(questions)],
            "confidence": hundredths / 100,
            "correct": rng.random(questions) < hundredths / 100,
            "dataset": rng.choice(["algebra", "trivia"], questions),
        }
    )


@pytest.fixture
def rows(calibsft: Command, tmp_path: Path) -> pl.DataFrame:
    """The responses in our names as ours.csv, and as another lab would write them as theirs.csv, where the command runs."""
    found = ours()
    found.write_csv(tmp_path / "ours.csv")
    theirs = found.with_columns(
        confidence=pl.format("{}%", (100 * pl.col("confidence")).round().cast(pl.Int64)),
        correct=pl.when("correct").then(pl.lit("yes")).otherwise(pl.lit("no")),
    )
    theirs.rename(NAMES).write_csv(tmp_path / "theirs.csv")
    return found


def data(calibsft: Command, *words: object) -> Any:
    code, out, err = calibsft(*words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    "command",
    [("score", "--intervals"), ("diagnose",), ("certify", "--risk", 0.1, "--force")],
    ids=lambda command: command[0],
)
def test_the_result_is_that_of_the_same_responses_in_our_names(
    calibsft: Command, rows: pl.DataFrame, command: tuple[object, ...]
) -> None:
    name, *more = command
    assert data(calibsft, name, "theirs.csv", *more, *OPTIONS) == data(calibsft, name, "ours.csv", *more)


def test_another_labs_file_is_scored_plotted_reported_and_certified_in_one_command_each(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    for words in (
        ("score", "theirs.csv"),
        ("plot", "reliability", "theirs.csv"),
        ("report", "theirs.csv"),
        ("certify", "theirs.csv", "--risk", 0.2),
    ):
        code, _, err = calibsft(*words, *OPTIONS)
        assert code == 0 and "warning" not in err, (words, err)
    assert (tmp_path / "reliability.svg").stat().st_size and read_policy(tmp_path / "policy.json").threshold
    page = (tmp_path / "report.html").read_text()
    assert "algebra" in page and "trivia" in page
    assert "--columns" in page and "--scale percent" in page  # how to make the page again


def test_a_policy_knows_how_its_data_were_read(calibsft: Command, rows: pl.DataFrame, tmp_path: Path) -> None:
    hashes = []
    for options in (OPTIONS, (*OPTIONS, "--where", "benchmark=trivia")):
        data(calibsft, "certify", "theirs.csv", "--risk", 0.1, "--force", *options)
        hashes.append(read_policy(tmp_path / "policy.json").data_hash)
    assert len({*hashes, None}) == 3


def test_conditions_take_their_names_and_ours(calibsft: Command, rows: pl.DataFrame) -> None:
    theirs, same = (
        data(calibsft, "score", "theirs.csv", *OPTIONS, "--where", f"{name}=trivia")["overall"]
        for name in ("benchmark", "dataset")
    )
    assert theirs == same and theirs["n"] == rows.filter(dataset="trivia").height


def test_batches_keep_their_own_columns(calibsft: Command, rows: pl.DataFrame, tmp_path: Path) -> None:
    batch = pl.DataFrame({"qid": ["007", "8"], "prob": [97, 30], "confidence": ["kept", "as it is"]})
    batch.write_csv(tmp_path / "batch.csv")
    found = data(calibsft, "select", "theirs.csv", "batch.csv", "--risk", 0.2, "--out", "kept.csv", *OPTIONS)
    assert found["kept"] == 1
    assert (tmp_path / "kept.csv").read_text() == "qid,prob,confidence\n007,97,kept\n"


def test_routes_and_watches_read_both_files_alike(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    strong = rows.select(qid="question_id", benchmark="dataset", is_correct=pl.lit(True))
    strong.write_csv(tmp_path / "strong.csv")
    both = ("theirs.csv", "--strong", "strong.csv")
    data(calibsft, "route", *both, "--epsilon", 0.2, *OPTIONS)
    found = data(calibsft, "monitor", *both, "--policy", "policy.json", *OPTIONS)
    assert found["questions"] == len(rows) and found["alarm"] is None


def test_verify_and_build_take_their_names(calibsft: Command, tmp_path: Path) -> None:
    said = "<think>t</think> <answer>{}</answer> <confidence>0.70</confidence>"
    pool = [
        {"qid": str(asked), "prompt": f"what is {asked}?", "text": said.format(asked + sample), "target": str(asked),
         "ok": not sample, "prob": 70}
        for asked in range(4) for sample in range(2)
    ]  # fmt: skip
    pl.DataFrame(pool).write_ndjson(tmp_path / "pool.jsonl")
    texts = "question_id=qid,question=prompt,response=text"
    graded = data(
        calibsft, "verify", "pool.jsonl", "--out", "verdicts", "--columns", f"{texts},gold=target",
        "--columns", "confidence=prob", "--scale", "percent",
    )  # fmt: skip
    assert graded["overall"]["correct"] == 0.5
    verdicts = pl.read_parquet(tmp_path / "verdicts" / "part-*.parquet")
    assert verdicts["confidence"].unique().to_list() == [0.7]
    made = data(
        calibsft, "build", "pool.jsonl", "--out", "data", "--columns", f"{texts},correct=ok", "--no-balance"
    )
    assert made["rows"] == 8
    code, _, err = calibsft("verify", "verdicts", "--out", "again", "--columns", "gold=target")
    assert code == 2 and "a folder of a stage has our names" in err


def test_python_takes_a_mapping(rows: pl.DataFrame, tmp_path: Path) -> None:
    theirs, mine, more = (
        tmp_path / "theirs.csv",
        tmp_path / "ours.csv",
        {"columns": NAMES, "scale": "percent"},
    )
    assert library.score(theirs, **more) == library.score(mine)
    assert library.diagnose(theirs, **more) == library.diagnose(mine)
    assert library.certify(theirs, risk=0.1, **more) == library.certify(mine, risk=0.1)
    chosen = library.select(theirs, theirs, risk=0.2, **more)
    assert (chosen.keep == library.select(mine, mine, risk=0.2).keep).all()
    assert "trivia" in library.report(theirs, out=tmp_path / "page.html", **more).read_text()


def test_following_the_complaints_leads_to_scores(calibsft: Command, rows: pl.DataFrame) -> None:
    words: list[str] = ["score", "theirs.csv"]
    for remedy in ("--columns confidence=prob,correct=is_correct", "--scale percent"):
        code, _, err = calibsft(*words)
        assert code == 2 and remedy in err
        words += remedy.split()
    assert calibsft(*words)[0] == 0


def test_intervals_stand_in_the_plain_table(calibsft: Command, rows: pl.DataFrame) -> None:
    code, out, _ = calibsft("score", "ours.csv", "--intervals")
    assert code == 0
    found = data(calibsft, "score", "ours.csv", "--intervals")["overall"]["intervals"]
    lines = out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("all rows"))
    for line, end in zip(lines[place + 1 : place + 3], (0, 1), strict=True):
        assert f"{found['brier'][end]:.4f}" in line.split()
    assert "95 % intervals, by drawing questions" in out
    assert "intervals" not in calibsft("score", "ours.csv")[1]


def test_a_model_has_no_columns_of_another_program(calibsft: Command) -> None:
    code, _, err = calibsft(
        "diagnose", "org/model", "--scale", "percent", "--benchmarks", "gsm8k", "--out", "d"
    )
    assert code == 2 and "--columns and --scale are for files" in err
