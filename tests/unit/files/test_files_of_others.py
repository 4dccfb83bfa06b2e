"""Files of another lab as they are, through whole commands: a CSV of percentages, gzipped chats, and what is wrong with them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from calibsft.metrics import evaluate
from command import Command

COLUMNS = ("--columns", "question_id=item,confidence=certainty (%),correct=is_right")
THEIRS = (*COLUMNS, "--scale", "percent")
# Certainties in percent, and how many of ten answers are right.
CERTAINTIES = {"35": 3, "62.5": 6, "90": 9, "99%": 10}


def csv_of_others(path: Path, questions: int = 400) -> pl.DataFrame:
    """Writes a file with their names and scale; returns the same as a table of ours."""
    said = [list(CERTAINTIES.items())[number % 4] for number in range(questions)]
    right = [number // 4 % 10 < solved for number, (_, solved) in enumerate(said)]
    items = [f"item-{number}" for number in range(questions)]
    table = {
        "item": items,
        "certainty (%)": [text for text, _ in said],
        "is_right": ["yes" if one else "no" for one in right],
    }
    pl.DataFrame(table).write_csv(path)
    values = [float(text.rstrip("%")) / 100 for text, _ in said]
    return pl.DataFrame({"question_id": items, "confidence": values, "correct": right})


def chats(responses: list[tuple[str, str]]) -> bytes:
    """Chats as JSONL, each with a gold: 7, 14 and so on."""
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number}*7?"},
                {
                    "role": "assistant",
                    "content": f"<think>so</think> <answer>{answer}</answer> <confidence>{confidence}</confidence>",
                },
            ],
            "gold": str(7 * number),
        }
        for number, (answer, confidence) in enumerate(responses, start=1)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_percentages_under_other_names_are_scored_like_our_own(calibsft: Command) -> None:
    csv_of_others(Path("lab.csv")).write_csv("ours.csv")
    (code, theirs, said), (_, ours, _) = (
        calibsft("score", "lab.csv", *THEIRS, "--json"),
        calibsft("score", "ours.csv", "--json"),
    )
    assert code == 0, said
    assert json.loads(theirs)["overall"] == json.loads(ours)["overall"]


def test_percentages_under_other_names_are_certified_plotted_and_reported(calibsft: Command) -> None:
    ours = csv_of_others(Path("lab.csv"))
    for words in (
        ("certify", "lab.csv", "--risk", "0.2"),
        ("plot", "reliability", "lab.csv", "--out", "figure.svg"),
        ("report", "lab.csv", "--out", "report.html"),
    ):
        code, _, said = calibsft(*words, *THEIRS)
        assert code == 0, said
    # With the answers at 35 % three in ten would be wrong.
    assert 0.35 < json.loads(Path("policy.json").read_text())["threshold"] <= 0.9
    assert "</svg>" in Path("figure.svg").read_text()
    brier = evaluate(ours["confidence"], ours["correct"])["brier"]
    assert f"{brier:.3f}" in Path("report.html").read_text()


def test_gzipped_chats_are_verified_and_scored_as_they_are(calibsft: Command) -> None:
    said = [("7", "0.90"), ("15", "0.35"), ("21", "sure"), ("28", "0.80")]
    Path("chats.jsonl.gz").write_bytes(gzip.compress(chats(said)))
    code, out, told = calibsft("verify", "chats.jsonl.gz", "--out", "verdicts")
    assert code == 0, told
    assert "1 bad_confidence" in out
    code, out, told = calibsft("score", "verdicts", "--json")
    assert code == 0, told
    found = json.loads(out)["overall"]
    assert (found["n"], found["pass@1"]) == (4, 0.75)
    # The response that states no number counts as 0.
    assert found["brier"] == pytest.approx((0.1**2 + 0.35**2 + 1 + 0.2**2) / 4)


def flipped(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 255]) + packed[middle + 1 :]


@pytest.mark.parametrize("command", [("score",), ("verify", "--out", "verdicts")], ids=lambda words: words[0])
@pytest.mark.parametrize(
    "damaged, said",
    [
        (lambda packed: packed[: len(packed) // 2], "damaged|cannot be read as .gz"),
        (flipped, "the gzip file is damaged|cannot be read as .gz"),
        (lambda _: b"no gzip\n", "its name ends in .gz, but it is not gzipped"),
        (lambda _: gzip.compress(b""), "the file has no rows"),
        (lambda _: gzip.compress(b"\n \n"), "the file has no rows"),
        (lambda _: b"", "the file is empty"),
    ],
    ids=["cut", "flipped", "plain", "nothing-packed", "blank", "empty"],
)
def test_a_gzip_that_is_none_is_told_as_such(
    calibsft: Command, command: tuple[str, ...], damaged: Callable[[bytes], bytes], said: str
) -> None:
    packed = gzip.compress(chats([(str(7 * number), "0.90") for number in range(1, 200)]))
    Path("chats.jsonl.gz").write_bytes(damaged(packed))
    code, _, told = calibsft(command[0], "chats.jsonl.gz", *command[1:])
    assert code == 2 and len(told.splitlines()) == 1 and told.startswith("calibsft: chats.jsonl.gz: ")
    assert any(part in told for part in said.split("|"))


@pytest.mark.parametrize(
    "command", [("score",), ("certify", "--risk", "0.2"), ("diagnose",)], ids=lambda words: words[0]
)
@pytest.mark.parametrize(
    "options, said",
    [
        (("--columns", "question_id=certainty (%),confidence=item,correct=is_right"), "none of 400 rows has a readable confidence"),
        ((*COLUMNS, "--scale", "digit"), "none of 400 rows has a readable confidence"),
        (COLUMNS, "add --scale percent"),
        ((), "add --columns"),
        (("--columns", "question_id=item,confidence=certainty (%),correct=item", "--scale", "percent"), "write true or false"),
    ],
    ids=["column", "scale", "no-scale", "no-columns", "correct"],
)  # fmt: skip
def test_a_wrong_column_or_scale_is_refused_with_the_option_that_mends_it(
    calibsft: Command, command: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    csv_of_others(Path("lab.csv"))
    code, out, told = calibsft(command[0], "lab.csv", *command[1:], *options)
    assert (code, out) == (2, "")
    assert len(told.splitlines()) == 1 and said in told


def test_a_model_that_never_states_a_confidence_can_be_counted(calibsft: Command) -> None:
    csv_of_others(Path("lab.csv"))
    columns = ("--columns", "confidence=item,correct=is_right")
    code, out, _ = calibsft("score", "lab.csv", *columns, "--malformed", "counted", "--json")
    assert code == 0 and json.loads(out)["overall"]["brier"] == json.loads(out)["overall"]["pass@1"]


def test_probabilities_that_are_read_as_percentages_are_warned_of(calibsft: Command) -> None:
    csv_of_others(Path("lab.csv")).write_csv("ours.csv")
    code, _, told = calibsft("score", "ours.csv", "--scale", "percent")
    assert code == 0 and "none of 400 confidences is above 1 %; leave --scale percent out" in told
    code, _, told = calibsft("score", "lab.csv", *THEIRS)
    assert code == 0 and "above 1 %" not in told
