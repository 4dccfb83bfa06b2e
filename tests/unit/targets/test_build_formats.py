"""One pool, several training sets: other formats and fewer samples from the same responses, and what is refused."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.artifacts import QUESTIONS, SUPERVISION, StageFolder, file_hash, read_manifest, write_parquet
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.report.responses import Origin, set_of, trained_responses
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render
from calibsft.responses.prompts import Prompting
from calibsft.responses.spans import decode
from calibsft.rl.questions import read_questions
from calibsft.rollouts.collect import rollouts_frame
from calibsft.rollouts.plan import questions_frame
from calibsft.schema import KEYS, Question, Rollout
from calibsft.sft.fine_tune import encode_rows
from command import Command

FIRST = {"q1": "RRRW", "q2": "RWWW", "q3": "RRWW"}
# What differs between training sets in different formats.
TEXTS = ("response", "prompt", "completion")
NEW = ("integer", "linguistic", "probability-0.05")


def pool_rows(outcomes: dict[str, str] | None = None, stated: str = " 0.90\n") -> list[dict[str, Any]]:
    return [
        {
            "question_id": name,
            "question": f"What is {name}?",
            "sample": 3 * sample + 1,  # numbers with gaps, as they are in somebody's file
            "response": render(f" Grüße\r\n{sample} ", f"\t{name} ", stated),
            "correct": mark == "R",
        }
        for name, marks in (outcomes or FIRST).items()
        for sample, mark in enumerate(marks)
    ]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(pool_rows())), encoding="utf-8")
    return path


def around_the_value(text: str, name: str) -> tuple[str, str]:
    span = parse(text, name).value_span
    assert span is not None, text
    return text[: span[0]], text[span[1] :]


@pytest.mark.parametrize("name", NEW)
def test_another_format_changes_prompt_and_value_and_nothing_else(
    calibsft: Command, pool: Path, name: str
) -> None:
    assert calibsft("build", pool, "--out", "same")[0] == 0
    code, out, err = calibsft(
        "build", pool, "--from-format", "probability", "--format", name, "--out", "other"
    )
    assert code == 0, err
    assert f"confidences rewritten from probability to {name}" in out
    same, other = (pl.read_parquet(f"{folder}/sft.parquet") for folder in ("same", "other"))
    assert other.drop(TEXTS).equals(same.drop(TEXTS))
    for before, after in zip(same["response"], other["response"], strict=True):
        assert around_the_value(after, name) == around_the_value(before, "probability")
    for row in other.iter_rows(named=True):
        target = Fraction(row["target_numerator"], row["target_denominator"])
        assert parse(row["response"], name).value == FORMATS[name].read(FORMATS[name].render(target))
    chats = [json.loads(line) for line in Path("other/sft.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {chat["messages"][0]["content"] for chat in chats} == {FORMATS[name].system_prompt}
    summary = json.loads(Path("other/targets.json").read_text())
    assert (summary["format"], summary["from_format"]) == (name, "probability")


def test_a_pool_is_cut_to_its_first_samples(calibsft: Command, tmp_path: Path, pool: Path) -> None:
    assert calibsft("build", pool, "--samples", 3, "--no-balance", "--out", "cut")[0] == 0
    first = {name: marks[:3] for name, marks in FIRST.items()}
    alone = tmp_path / "alone.jsonl"
    alone.write_text("".join(json.dumps(row) + "\n" for row in reversed(pool_rows(first))), encoding="utf-8")
    assert calibsft("build", alone, "--no-balance", "--out", "alone")[0] == 0
    for name in ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json"):
        assert Path("cut", name).read_bytes() == Path("alone", name).read_bytes(), name
    cut = pl.read_parquet("cut/sft.parquet")
    assert set(cut["rollouts"]) == {3} and set(cut["sample"]) == {1, 4, 7}
    assert dict(cut.select("question_id", "successes").unique().iter_rows()) == {"q1": 3, "q2": 1, "q3": 2}


@pytest.mark.parametrize(
    "options, said",
    [
        (("--format", "integer"), "none of the 12 responses is well formed as 'integer' (bad_confidence: 12), but"),
        (("--format", "integer"), "they are as 'probability'; add --from-format probability"),
        (("--from-format", "linguistic"), "they are as 'probability'; add --from-format probability"),
        (("--from-format", "integr"), "unknown confidence format 'integr'; did you mean 'integer'?"),
        (("--samples", 5), "question 'q3' has 4 responses and samples is 5 (3 such questions); lower samples to 4"),
        (("--samples", 1), "samples = 1: input should be greater than or equal to 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_pool_is_refused_with_the_remedy(
    calibsft: Command, pool: Path, options: tuple[object, ...], said: str
) -> None:
    code, out, err = calibsft("build", pool, *options, "--out", "o")
    assert (code, out) == (2, "")
    assert said in err and "Traceback" not in err and "unexpected" not in err


# A run whose responses are of the playground's vocabulary.

TOKENIZER = build_tokenizer()
GOLD = {"a": "4389", "b": "0060"}
RIGHT, WRONG, OPEN, MENTIONED = "right", "wrong", "open", "mentioned"
# Question a: right once on its own, twice more when made to answer. Question b: always right when it ends.
SAID = {"a": (RIGHT, WRONG, OPEN, MENTIONED), "b": (RIGHT, RIGHT, WRONG, WRONG)}


def rollout(question: str, sample: int, kind: str, force: bool) -> Rollout:
    gold = GOLD[question]
    texts = {
        RIGHT: f"<think>57*77</think><answer>{gold}</answer><confidence>0.90</confidence>",
        WRONG: "<think>57*77</think><answer>1111</answer><confidence>0.90</confidence>",
        OPEN: "<think>57*77",
        MENTIONED: "<think><answer>1111</answer>57*77",  # a wrong answer in reasoning that never ended
    }
    finished = kind in (RIGHT, WRONG)
    ids = TOKENIZER(texts[kind], add_special_tokens=False)["input_ids"]
    assert decode(TOKENIZER, ids) == texts[kind]
    ids = (*ids, TOKENIZER.eos_token_id) if finished else tuple(ids)
    forced = gold if force and not finished else None
    return Rollout("d", question, sample, texts[kind], ids, finished, None, None, forced)


@pytest.fixture
def run(calibsft: Command, tmp_path: Path) -> Callable[..., None]:
    """Finished stages `rollout` and `verify`, of responses that were made to answer or not."""

    def make(force: bool = False) -> None:
        asked = [Question(name, f"{name}*77", (gold,), "exact", "d") for name, gold in GOLD.items()]
        rows = [
            rollout(question, i, kind, force)
            for question, kinds in SAID.items()
            for i, kind in enumerate(kinds)
        ]

        def work(folder: Path) -> dict[str, Any]:
            write_parquet(folder / QUESTIONS, questions_frame(asked))
            write_parquet(folder / "part-00000.parquet", rollouts_frame(rows))
            return {}

        StageFolder(tmp_path / "rollout", "rollout", {"format": "probability"}, {}).perform(work, fresh=False)
        code, _, err = calibsft("verify", "rollout", "--out", "verify")
        assert code == 0, err

    return make


def test_a_run_of_probabilities_becomes_a_training_set_of_digits(
    calibsft: Command, run: Callable[..., None]
) -> None:
    run()
    assert calibsft("build", "rollout", "--verdicts", "verify", "--out", "same")[0] == 0
    code, _, err = calibsft(
        "build", "rollout", "--verdicts", "verify", "--format", "integer", "--out", "other"
    )
    assert code == 0, err
    same, other = (pl.read_parquet(f"{folder}/sft.parquet") for folder in ("same", "other"))
    assert other.drop(TEXTS).equals(same.drop(TEXTS))
    assert all(parse(text, "integer").ok for text in other["response"])


def test_a_training_set_of_digits_is_trained_on_the_sampled_ids(
    calibsft: Command, run: Callable[..., None]
) -> None:
    run()
    assert (
        calibsft("build", "rollout", "--verdicts", "verify", "--format", "integer", "--out", "other")[0] == 0
    )
    rows = pl.read_parquet("other/sft.parquet")
    asking = Prompting(FORMATS["integer"])
    examples, kept = encode_rows(TOKENIZER, rows, asking, 64, Path("other"), 0)
    assert len(kept) == len(rows) > 0
    opening = TOKENIZER.convert_tokens_to_ids("<confidence>")
    for example, row in zip(examples, rows.iter_rows(named=True), strict=True):
        start = row["token_ids"].index(opening)
        assert list(example.response[:start]) == row["token_ids"][:start]
        assert example.confidence_at == start
        assert decode(TOKENIZER, example.response[:-1]) == row["response"]
        assert example.prompt == asking.ids(TOKENIZER, row["question"])
        assert decode(TOKENIZER, example.prompt).startswith("[integer]")


def test_verdicts_of_another_format_than_named_are_refused(
    calibsft: Command, run: Callable[..., None]
) -> None:
    run()
    code, out, err = calibsft(
        "build", "rollout", "--verdicts", "verify", "--from-format", "integer", "--out", "o"
    )
    assert (code, out) == (2, "")
    assert "verdicts are for the format 'probability', not 'integer'; leave --from-format out, or" in err
    assert (
        calibsft("build", "rollout", "--verdicts", "verify", "--from-format", "probability", "--out", "o")[0]
        == 0
    )


@pytest.mark.parametrize(
    "force, solved, said",
    [
        (False, 1, "success rates: truncated responses count as wrong (2)"),
        (
            True,
            3,
            "success rates: truncated responses count by the answer that the model was then made to give (2)",
        ),
    ],
)
def test_training_targets_and_rl_count_the_same_success_rate(
    calibsft: Command, run: Callable[..., None], force: bool, solved: int, said: str
) -> None:
    run(force)
    code, out, err = calibsft("build", "rollout", "--verdicts", "verify", "--no-balance", "--out", "b")
    assert code == 0 and said in out, err
    built = pl.read_parquet("b/sft.parquet")
    assert set(built.select(*KEYS).iter_rows()) == {
        ("d", name, i)
        for name, kinds in SAID.items()
        for i, kind in enumerate(kinds)
        if kind in (RIGHT, WRONG)
    }
    rates = {("d", name): q for name, q in built.select("question_id", "q").unique().iter_rows()}
    assert rates == {("d", "a"): solved / 4, ("d", "b"): 0.5}
    _, found = read_questions(Path("rollout"), Path("verify"))
    assert found == rates
    endings = json.loads(Path("b/targets.json").read_text())["endings"]
    assert endings == {"finished": 6, "forced" if force else "truncated": 2}


def test_a_report_shows_the_responses_that_a_cut_pool_used_with_their_targets(
    calibsft: Command, run: Callable[..., None], tmp_path: Path
) -> None:
    run()
    arguments = ("--no-balance", "--samples", 3, "--format", "integer", "--out", "build")
    assert calibsft("build", "rollout", "--verdicts", "verify", *arguments)[0] == 0
    built = pl.read_parquet("build/sft.parquet")
    nothing = {
        "tokens": [[""]] * len(built),
        "weights": [[0.0]] * len(built),
        "confidence_at": [0] * len(built),
    }
    trained = built.select(KEYS).with_columns(**{name: pl.Series(cells) for name, cells in nothing.items()})

    def work(folder: Path) -> dict[str, Any]:
        write_parquet(folder / SUPERVISION, trained)
        return {}

    inputs = {"data": file_hash(Path("build/sft.parquet"))}
    StageFolder(tmp_path / "sft", "sft", {}, inputs).perform(work, fresh=False)
    manifests = {name: read_manifest(tmp_path / name) for name in ("rollout", "verify", "build", "sft")}
    origin = set_of(tmp_path, manifests, "sft")
    assert origin == Origin("build", ("rollout",), ("verify",))
    shown = trained_responses(tmp_path, origin, "sft", "Base", most=100, most_bytes=10_000)
    assert shown.total == 6 and set(shown.rows["sample"]) == {0, 1, 2}
    targets = {tuple(keys): text for *keys, text in shown.rows.select(*KEYS, "target").iter_rows()}
    for *keys, text in built.select(*KEYS, "response").iter_rows():
        assert f"<confidence>{targets.pop(tuple(keys))}</confidence>" in text
    assert set(targets.values()) == {None}
