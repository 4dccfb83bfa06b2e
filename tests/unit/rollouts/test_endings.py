"""Responses that are made to end: what stays, what is asked for, and what is recorded."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from calibsft.engines import default_engine, load_engine
from calibsft.engines.engine import Sampling
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse
from calibsft.responses.prompts import Prompting
from calibsft.responses.spans import decode
from calibsft.rollouts.budgets import cut_rollouts
from calibsft.rollouts.collect import Collector
from calibsft.rollouts.endings import Cut, _body, force_endings
from calibsft.schema import Question

QUESTIONS = [Question(f"{a}*{a + 1}", f"{a}*{a + 1}", "0", "exact", "d") for a in range(10, 16)]
# The playground's tokenizer has no words for the sentence that ends the thinking, only tags.
ENDED = "</think><answer>"
WHOLE = "<think>12*3=36</think><answer>0036</answer><confidence>0.80</confidence>"


@pytest.fixture(scope="module")
def collector(short_base: Path) -> Collector:
    engine = load_engine(default_engine(max_rows=50), str(short_base), "cpu")
    return Collector(engine, Prompting(FORMATS["probability"]), Sampling(max_new_tokens=60), 0)


def end(collector: Collector, text: str, **options: object) -> str:
    prompt = collector.prompting.ids(collector.tokenizer, "12*3")
    cut = Cut(prompt, tuple(collector.tokenizer(text, add_special_tokens=False)["input_ids"]), 7)
    (ended,) = force_endings(collector.engine, [cut], Sampling(temperature=0), **options)  # type: ignore[arg-type]
    return decode(collector.tokenizer, ended.token_ids)


@pytest.mark.parametrize(
    "text, asked",
    [
        ("", ENDED),
        ("12*3", ENDED),
        ("<think>12*3", ENDED),
        ("<think>12*3=36</think>", "<answer>"),
        ("<think>12*3=36</think><answer>", ""),
        ("<think>12*3=36</think><answer>00", ""),
        ("<think>12*3=36</think><answer>0036</answer>", "<confidence>"),
        ("<think>12*3=36</think><answer>0036</answer><confidence>0.", ""),
    ],
)
def test_what_was_written_stays_and_only_what_is_missing_is_asked_for(
    collector: Collector, text: str, asked: str
) -> None:
    ended = end(collector, text)
    assert ended.startswith(text + asked)
    assert parse(ended).answer is not None and "<confidence>" in ended


@pytest.mark.parametrize(
    "text, inside",
    [("x <ans", True), ("x<", True), ("x</confiden", True), ("x<answer>", False), ("a < b", False)],
)
def test_a_tag_that_was_cut_in_two_does_not_stay(text: str, inside: bool) -> None:
    letters = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({c: i for i, c in enumerate("<>/ abcdefinorswx")}, "x"))
    )
    letters.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    letters.backend_tokenizer.decoder = decoders.Fuse()
    ids = tuple(letters(text, add_special_tokens=False)["input_ids"])
    assert decode(letters, ids) == text
    kept = decode(letters, _body(letters, Cut((), ids, 0), None).token_ids)
    assert kept == (text[: text.index("<")] if inside else text)


def test_a_whole_response_is_left_alone(collector: Collector) -> None:
    assert end(collector, WHOLE) == WHOLE


def test_an_answer_alone_is_asked_for_without_a_confidence(collector: Collector) -> None:
    ended = end(collector, "<think>12*3", confidence=False)
    assert "</answer>" in ended and "<confidence>" not in ended


def test_an_answer_that_does_not_end_in_time_is_closed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibsft.rollouts import endings

    monkeypatch.setattr(endings, "_ANSWER", endings._Element("answer", 1, endings._answer_opening))
    begun = "<think>12*3=36</think><answer>"
    ended = end(collector, begun)
    one_token = "(.|</?[a-z]+>)"
    assert re.match(f"{re.escape(begun)}{one_token}</answer><confidence>", ended), ended


def test_the_ending_fits_into_the_context(collector: Collector) -> None:
    prompt = collector.prompting.ids(collector.tokenizer, "12*3")
    long = tuple(collector.tokenizer("<think>" + "12*3=36" * 9, add_special_tokens=False)["input_ids"])
    (ended,) = force_endings(collector.engine, [Cut(prompt, long, 1)], Sampling(temperature=0))
    assert collector.engine.context == 64
    assert len(prompt) + len(ended.token_ids) <= 64 + 1  # a closing tag is written, not sampled
    assert parse(decode(collector.tokenizer, ended.token_ids)).answer is not None


@pytest.fixture(scope="module")
def rollouts(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rollouts")
    collector.collect(QUESTIONS, lambda _: 6, folder, 2, "rollout")
    return folder


def read(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "part-*.parquet").sort("question_id", "sample")


@pytest.mark.parametrize("budget", [1, 4, 9, 14])
def test_a_budget_cuts_what_is_longer_and_leaves_the_rest(
    collector: Collector, rollouts: Path, tmp_path: Path, budget: int
) -> None:
    cut_rollouts(collector, QUESTIONS, rollouts, budget, tmp_path, "cut")
    before, after = read(rollouts), read(tmp_path)
    whole = before.filter(pl.col("finished") & (pl.col("token_ids").list.len() <= budget))
    assert after.filter(~pl.col("forced")).drop("forced").equals(whole)
    assert after["forced"].any()
    texts = zip(before["token_ids"], after["response"], after["forced"], strict=True)
    for ids, response, forced in texts:
        if forced:
            kept = decode(collector.tokenizer, ids[:budget])
            assert response.startswith(kept if "</think>" in kept else kept + ENDED)
            assert parse(response).answer is not None


def test_budgets_resume_with_the_same_rows(collector: Collector, rollouts: Path, tmp_path: Path) -> None:
    cut_rollouts(collector, QUESTIONS, rollouts, 5, tmp_path, "cut")
    before = read(tmp_path)
    (tmp_path / "part-00001.parquet").unlink()
    cut_rollouts(collector, QUESTIONS, rollouts, 5, tmp_path, "cut")
    assert read(tmp_path).equals(before)


def test_the_confidence_of_an_ended_response_has_its_entropy(
    collector: Collector, rollouts: Path, tmp_path: Path
) -> None:
    cut_rollouts(collector, QUESTIONS, rollouts, 5, tmp_path, "cut")
    forced = read(tmp_path).filter(pl.col("forced"))
    assert forced["mean_logprob"].null_count() == len(forced)
    for response, entropy in forced.select("response", "confidence_entropy").iter_rows():
        known = entropy is not None and np.isfinite(entropy)
        assert known == (parse(response).actionable is not None), response


def test_a_truncated_training_response_keeps_its_text_and_gets_an_answer(
    short_base: Path, tmp_path: Path
) -> None:
    engine = load_engine(default_engine(), str(short_base), "cpu")
    drawing = Sampling(max_new_tokens=4)
    plain = Collector(engine, Prompting(FORMATS["probability"]), drawing, 0)
    forcing = Collector(engine, Prompting(FORMATS["probability"]), drawing, 0, force_answer=True)
    for name, collector in (("plain", plain), ("forcing", forcing)):
        collector.collect(QUESTIONS, lambda _: 3, tmp_path / name, 3, "rollout")
    before, after = read(tmp_path / "plain"), read(tmp_path / "forcing")
    assert after.drop("forced_answer").equals(before.drop("forced_answer"))
    assert before["forced_answer"].null_count() == len(before)
    unfinished = after.filter(~pl.col("finished"))
    assert len(unfinished) > 0 and unfinished["forced_answer"].null_count() == 0
