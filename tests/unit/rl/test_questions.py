"""The questions that RL trains on: where they and their success rates come from, and which are left out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from calibsft.rl.questions import TrainingQuestion, read_questions, training_questions
from calibsft.schema import Question
from calibsft.verify.verdicts import VERDICT_SCHEMA

ASKED = [
    Question(id_, text, "1", "exact", "d") for id_, text in (("a", "57*77"), ("b", "7*7+11"), ("c", "9"))
]


def table(path: Path, columns: dict[str, list[object]]) -> Path:
    frame = pl.DataFrame(columns, strict=False)
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": frame.write_csv,
        ".jsonl": frame.write_ndjson,
        ".parquet": frame.write_parquet,
    }
    writers[path.suffix](path)
    return path


def asked_with(rates: list[object]) -> dict[str, list[object]]:
    return {
        "question_id": ["a", "b", "c"],
        "question": ["57*77", "7*7+11", "9"],
        "gold": ["4389", "60", "9"],
        "success_rate": rates,
    }


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_file_may_bring_its_success_rates(tmp_path: Path, suffix: str) -> None:
    questions, rates = read_questions(table(tmp_path / f"pool.{suffix}", asked_with([0, 0.25, 1])))
    assert [(question.id, question.text, question.gold) for question in questions] == [
        ("a", "57*77", "4389"), ("b", "7*7+11", "60"), ("c", "9", "9"),
    ]  # fmt: skip
    assert rates == {("pool", "a"): 0, ("pool", "b"): 0.25, ("pool", "c"): 1}


def test_a_file_without_success_rates_is_a_file_of_questions(tmp_path: Path) -> None:
    columns = asked_with([0, 0, 0])
    del columns["success_rate"]
    questions, rates = read_questions(table(tmp_path / "pool.jsonl", columns))
    assert len(questions) == 3 and rates == {}


@pytest.mark.parametrize(
    "rates, row, value",
    [
        ([0.5, 1.5, 0.5], 2, "1.5"),
        ([0.5, 0.5, -0.1], 3, "-0.1"),
        ([None, 0.5, 0.5], 1, "None"),
        ([0.5, float("nan"), 0.5], 2, "nan"),
        ([0.5, float("inf"), 0.5], 2, "inf"),
        (["0.5", "often", "0.5"], 2, "'often'"),
    ],
)
def test_a_success_rate_that_is_none_is_named_with_its_row(
    tmp_path: Path, rates: list[object], row: int, value: str
) -> None:
    path = table(tmp_path / "pool.parquet", asked_with(rates))
    with pytest.raises(InputError, match=f"row {row}: success_rate {value} is not a number in"):
        read_questions(path)


def rollout_folder(folder: Path) -> Path:
    folder.mkdir()
    columns = {
        "dataset": ["d", "e"],
        "question_id": ["a", "a"],
        "question": ["57*77", "9"],
        "gold": [["4389", "4,389"], ["9"]],
        "grader": ["exact", "math"],
        "tolerance": ["", "0.1"],
    }
    pl.DataFrame(columns).write_parquet(folder / "questions.parquet")
    return folder


def test_a_rollout_folder_holds_questions_of_several_datasets_with_their_aliases(tmp_path: Path) -> None:
    questions, rates = read_questions(rollout_folder(tmp_path / "rollouts"))
    assert questions == [
        Question("a", "57*77", ("4389", "4,389"), "exact", "d"),
        Question("a", "9", ("9",), "math", "e", "0.1"),
    ]
    assert rates == {}


def test_a_folder_without_rollouts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no questions\.parquet there; give the folder that calibsft rollout"
    ):
        read_questions(tmp_path)


def verdict_folder(folder: Path) -> Path:
    """Two shards of finished responses but for one; question b is half ungraded, question c wholly."""
    folder.mkdir()
    rows = [
        [("d", "a", True), ("d", "a", False), ("d", "b", True), ("d", "b", None), ("d", "c", None)],
        [("d", "a", False), ("d", "a", False), ("e", "a", False), ("d", "d", True)],
    ]
    for number, shard in enumerate(rows):
        columns: dict[str, list[object]] = {name: [None] * len(shard) for name in VERDICT_SCHEMA}
        for i, name in enumerate(("dataset", "question_id", "correct")):
            columns[name] = [row[i] for row in shard]
        columns["ending"] = ["truncated" if row == ("d", "d", True) else "finished" for row in shard]
        pl.DataFrame(columns, schema=VERDICT_SCHEMA).write_parquet(folder / f"part-{number:05d}.parquet")
    return folder


def test_verdicts_take_precedence_over_the_rates_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "d.parquet", asked_with([0.5, 0.5, 0.5]))
    questions, rates = read_questions(path, verdict_folder(tmp_path / "verdicts"))
    assert rates == {("d", "a"): 0.25, ("e", "a"): 0, ("d", "d"): 0}
    assert [question.id for question in questions] == ["a"], "b and c are not wholly graded"
    shown = capsys.readouterr().err
    assert "2 questions have ungraded responses and are left out" in shown
    assert "rl: success rates: truncated responses count as wrong (1)" in shown


def chosen(
    method: str, rates: dict[tuple[str, str], float], limit: int = 2048, **settings: Any
) -> list[TrainingQuestion]:
    asking = Prompting(FORMATS["integer" if method == "c3rl" else "probability"])
    given = METHODS[method].settings(name=method, **settings)
    return training_questions(ASKED, rates, METHODS[method], given, build_tokenizer(), asking, limit)


RATES = {("d", "a"): 1.0, ("d", "b"): 0.98, ("d", "c"): 0.0}


@pytest.mark.parametrize("method", ["rlvr", "rlcr", "coca", "dcpo", "redoubt"])
def test_questions_that_are_always_solved_are_left_out_and_said(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [(question.id, question.success_rate) for question in chosen(method, RATES)] == [
        ("b", 0.98),
        ("c", 0.0),
    ]
    assert "1 of 3 questions are always solved and left out" in capsys.readouterr().err


def test_c3rl_trains_on_solved_questions_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert [question.id for question in chosen("c3rl", RATES)] == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["rlvr", "rlcr", "coca", "dcpo", "redoubt"])
def test_solved_questions_stay_for_a_training_on_all_groups(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [question.id for question in chosen(method, RATES, all_groups=True)] == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_solved_questions_are_left_out_if_confidence_alone_learns_from_all_groups() -> None:
    assert [question.id for question in chosen("coca", RATES, keep_unanimous=True)] == ["b", "c"]


def test_questions_of_unknown_difficulty_are_kept() -> None:
    assert [question.id for question in chosen("dcpo", {("e", "a"): 1.0})] == ["a", "b", "c"]
    assert {question.success_rate for question in chosen("dcpo", {})} == {None}


def test_a_question_is_asked_with_the_prompt_of_its_format() -> None:
    tokenizer = build_tokenizer()
    for method, mark in (("rlcr", "[probability]"), ("c3rl", "[integer]")):
        first = chosen(method, dict.fromkeys(RATES, 0.5))[0]
        assert tokenizer.decode(first.prompt_ids) == f"{mark}57*77="
        assert (first.dataset, first.golds, first.kind) == ("d", ("1",), "exact")


def test_prompts_that_are_too_long_are_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    # one token for the format, one per character, one for the equals sign
    assert [question.id for question in chosen("dcpo", {}, limit=8)] == ["a", "b", "c"]
    assert [question.id for question in chosen("dcpo", {}, limit=7)] == ["a", "c"]
    assert "warning: rl: 1 prompts exceed 7 tokens and are left out" in capsys.readouterr().err


def test_nothing_left_to_train_on_is_refused() -> None:
    with pytest.raises(InputError, match=r"no question is left .* raise rl\.max_prompt_tokens"):
        chosen("dcpo", dict.fromkeys(RATES, 1.0))
    with pytest.raises(InputError, match="no question is left"):
        chosen("dcpo", {}, limit=2)


def test_c3rl_names_a_question_without_a_success_rate() -> None:
    partial = {key: rate for key, rate in RATES.items() if key[1] != "b"}
    with pytest.raises(InputError, match=r"c3rl needs .* and 1 have none \(first: 'b'\).* --verdicts"):
        chosen("c3rl", partial)


def test_prompts_have_the_arguments_of_the_chat_template() -> None:
    tokenizer = build_tokenizer()
    tokenizer.chat_template += "{{ '<think>' if thinking else '' }}"
    for thinking, end in ((True, "<think>"), (False, "=")):
        asking = Prompting(FORMATS["probability"], {"thinking": thinking})
        found = training_questions(
            ASKED, RATES, METHODS["rlcr"], METHODS["rlcr"].settings(), tokenizer, asking, 2048
        )
        assert all(tokenizer.decode(question.prompt_ids).endswith(end) for question in found)


def test_a_question_that_fills_the_context_is_left_out_before_training(
    random_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibsft.rl.train import train_policy

    long = Question("long", "1" * 80, "1", "exact", "d")  # the model sees 64 tokens
    settings = METHODS["dcpo"].settings(
        steps=1, questions=1, group_size=2, updates=1, max_batches=1, max_new_tokens=30
    )
    with pytest.raises(InputError, match="no question is left"):
        train_policy(
            str(random_checkpoint),
            [long],
            {},
            settings,
            Prompting(FORMATS["probability"]),
            0,
            tmp_path,
            "cpu",
        )
    assert "1 prompts exceed" in capsys.readouterr().err
