"""Worked examples of rollouts: what a file may hold, who sees it, and what it leaves alone."""

import json
from pathlib import Path

import polars as pl
import pytest

from calibsft.engines.engine import Request, Sampling
from calibsft.engines.scripted import ScriptedEngine
from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting, Shot
from calibsft.responses.spans import decode
from calibsft.rollouts.collect import Collector
from calibsft.rollouts.shots import read_shots
from calibsft.schema import Question
from calibsft.sft.fine_tune import encode_rows
from command import Command

PROBABILITY = FORMATS["probability"]
WHOLE = "<think>0120+012</think><answer>0132</answer><confidence>0.{}</confidence>"
ROWS = [{"question": "12*11", "response": WHOLE.format(90)}, {"question": "7", "response": WHOLE.format(10)}]
SHOTS = tuple(Shot(**row) for row in ROWS)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        frame = pl.DataFrame(rows)
        frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_gives_its_rows_in_order_as_texts(tmp_path: Path, ending: str) -> None:
    assert read_shots(write(tmp_path / f"s.{ending}", ROWS), PROBABILITY) == SHOTS


@pytest.mark.parametrize(
    "row, told",
    [
        (
            {"question": "1", "response": "1"},
            r"row 3: the response is not well formed as 'probability' \(missing_think",
        ),
        (
            {"question": "1", "response": WHOLE.format(5)},
            r"row 3: .* \(bad_confidence\); correct it, or set the format",
        ),
        ({"question": "1", "response": None}, "row 3: 'response' is empty"),
    ],
)
def test_a_row_that_is_no_example_is_named(tmp_path: Path, row: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_shots(write(tmp_path / "s.jsonl", [*ROWS, row]), PROBABILITY)


def test_a_file_without_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        read_shots(tmp_path / "none.csv", PROBABILITY)
    with pytest.raises(InputError, match="column 'response' is missing"):
        read_shots(write(tmp_path / "s.csv", [{"question": "1"}]), PROBABILITY)


class Listening(ScriptedEngine):
    """Keeps the prompts that it is asked."""

    def texts(self, request: Request) -> list[str]:
        self.prompts = [*getattr(self, "prompts", []), decode(self.tokenizer, request.prompt_ids)]
        return list(super().texts(request))


def test_the_model_sees_them_before_each_question_and_the_rows_do_not(tmp_path: Path) -> None:
    questions = [Question(text, text, "0", "exact", "d") for text in ("57*77", "12*11")]
    engine = Listening(build_tokenizer(), {q.text: [WHOLE.format(20)] for q in questions})
    asking = Prompting(PROBABILITY, shots=SHOTS[:1])
    Collector(engine, asking, Sampling(), 0).collect(questions, lambda _: 1, tmp_path, 1, "rollout")
    example = f"[probability]12*11={WHOLE.format(90)}<|end|>"
    assert engine.prompts == [f"{example}[probability]57*77=", "[probability]12*11="]
    rows = pl.read_parquet(tmp_path / "part-*.parquet")
    assert rows["response"].to_list() == [WHOLE.format(20)] * 2
    assert set(pl.read_parquet(tmp_path / "questions.parquet")["question"]) == {"57*77", "12*11"}


@pytest.fixture
def sampled(tmp_path: Path) -> tuple[str, ...]:
    """The command that samples with examples, in the folder where it runs."""
    rows = [
        {"question_id": a, "question": f"{a}*13", "gold": f"{a * 13:04d}", "kind": "exact"}
        for a in range(10, 14)
    ]
    write(tmp_path / "q.jsonl", rows)
    write(tmp_path / "s.jsonl", ROWS[:1])
    return (
        "rollout",
        "--questions",
        "q.jsonl",
        "-n",
        "4",
        "--max-new-tokens",
        "24",
        "--device",
        "cpu",
        "--out",
        "r",
    )


def test_their_content_shapes_the_rollouts_and_not_the_name_of_the_file(
    calibsft: Command, short_base: Path, tmp_path: Path, sampled: tuple[str, ...]
) -> None:
    command = (*sampled, "--model", short_base)
    code, _, err = calibsft(*command, "--shots", "s.jsonl")
    assert code == 0, err
    (tmp_path / "s.jsonl").rename(tmp_path / "t.jsonl")
    code, _, err = calibsft(*command, "--shots", "t.jsonl")
    assert code == 0 and "done before, skipped" in err
    write(tmp_path / "t.jsonl", [{**ROWS[0], "question": "12*12"}])
    code, _, err = calibsft(*command, "--shots", "t.jsonl")
    assert code == 2 and "its input 'shots' has changed" in err
    code, _, err = calibsft(*command)
    assert code == 2 and "its input 'shots' has changed" in err


def test_training_is_on_the_plain_prompt(
    calibsft: Command, random_checkpoint: Path, tmp_path: Path, sampled: tuple[str, ...]
) -> None:
    says = "<think></think><answer>{:04d}</answer><confidence>0.50</confidence>"
    script = [(f"{a}*13", says.format(a * 13 + wrong)) for a in range(10, 14) for wrong in (0, 0, 1, 2)]
    write(tmp_path / "script.jsonl", [{"question": q, "response": r} for q, r in script])
    replayed = (
        *sampled,
        "--model",
        random_checkpoint,
        "--engine",
        "scripted",
        "--engine-responses",
        "script.jsonl",
    )
    assert calibsft(*replayed, "--shots", "s.jsonl")[0] == 0
    assert calibsft("verify", "r", "--out", "v")[0] == 0
    code, _, err = calibsft("build", "r", "--verdicts", "v", "--out", "b")
    assert code == 0, err
    rows, tokenizer = pl.read_parquet("b/sft.parquet"), build_tokenizer()
    examples, kept = encode_rows(tokenizer, rows, Prompting(PROBABILITY), 64, Path("b"), 0)
    assert len(kept) == len(rows) > 0
    for example, question in zip(examples, rows["question"], strict=True):
        assert decode(tokenizer, example.prompt) == f"[probability]{question}="
    for line in Path("b/sft.jsonl").read_text().splitlines():
        assert [turn["role"] for turn in json.loads(line)["messages"]] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    "shots, told",
    [
        (ROWS * 2, "prompt has 1"),
        (
            [{"question": "1", "response": "1"}],
            "s.jsonl, row 1: the response is not well formed as 'probability'",
        ),
    ],
)
def test_examples_that_do_not_fit_are_refused_before_anything_is_sampled(
    calibsft: Command,
    random_checkpoint: Path,
    tmp_path: Path,
    sampled: tuple[str, ...],
    shots: list[dict[str, str]],
    told: str,
) -> None:
    write(tmp_path / "s.jsonl", shots)
    code, out, err = calibsft(*sampled, "--model", random_checkpoint, "--shots", "s.jsonl")
    assert (code, out) == (2, "") and told in err and len(err.splitlines()) == 1
    assert not list(tmp_path.glob("r/part-*"))
