"""Collecting rollouts: what is planned, refused and recorded."""

from pathlib import Path

import polars as pl
import pytest
from transformers import AutoTokenizer

from calibsft.engines import default_engine, load_engine
from calibsft.engines.engine import Sampling
from calibsft.errors import InputError
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse
from calibsft.responses.prompts import Prompting
from calibsft.responses.spans import decode
from calibsft.rollouts.collect import Collector
from calibsft.schema import Question


def question(text: str, id_: str | None = None) -> Question:
    return Question(id_ or text, text, "0", "exact", "d")


QUESTIONS = [question(f"{a}*{a + 1}") for a in range(10, 22)]


@pytest.fixture(scope="module")
def collector(short_base: Path) -> Collector:
    engine = load_engine(default_engine(max_rows=50), str(short_base), "cpu")
    return Collector(engine, Prompting(FORMATS["probability"]), Sampling(max_new_tokens=30), 0)


def collect(
    collector: Collector, folder: Path, questions: list[Question] = QUESTIONS, size: int = 5
) -> pl.DataFrame:
    collector.collect(questions, lambda _: 6, folder, size, "rollout")
    return pl.read_parquet(folder / "part-*.parquet")


def test_every_planned_sample_is_there_once_with_exact_text(collector: Collector, tmp_path: Path) -> None:
    rows = collect(collector, tmp_path)
    assert len(rows) == 12 * 6 == rows.n_unique(("dataset", "question_id", "sample"))
    end = collector.tokenizer.eos_token_id
    for response, ids, finished in rows.select("response", "token_ids", "finished").iter_rows():
        assert finished == (ids[-1] == end)
        assert decode(collector.tokenizer, ids[:-1] if finished else ids) == response


def test_the_shard_size_changes_files_but_not_rows(collector: Collector, tmp_path: Path) -> None:
    few, many = collect(collector, tmp_path / "few", size=12), collect(collector, tmp_path / "many", size=2)
    columns = ("question_id", "sample", "response")
    assert (
        few.select(columns)
        .sort("question_id", "sample")
        .equals(many.select(columns).sort("question_id", "sample"))
    )


def test_confidence_entropy_is_recorded_exactly_where_a_confidence_is(
    collector: Collector, tmp_path: Path
) -> None:
    rows = collect(collector, tmp_path)
    for response, entropy in rows.select("response", "confidence_entropy").iter_rows():
        assert (entropy is not None) == parse(response).ok
    assert rows["confidence_entropy"].drop_nulls().len() > 0
    assert (rows["confidence_entropy"].drop_nulls() > 0).all()


def test_repeated_question_ids_are_refused(collector: Collector, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'same' occurs twice in d; give every question its own id"):
        collect(collector, tmp_path, [question("10*10", "same"), question("11*11", "same")])


def test_responses_to_other_questions_are_not_taken_for_these(collector: Collector, tmp_path: Path) -> None:
    collect(collector, tmp_path, [question("10*10", "0"), question("11*11", "1")])
    with pytest.raises(InputError, match=r"the questions have changed since its responses were sampled"):
        collect(collector, tmp_path, [question("12*12", "0"), question("13*13", "1")])
    assert pl.read_parquet(tmp_path / "questions.parquet")["question"].to_list() == ["10*10", "11*11"]


def test_a_prompt_that_fills_the_context_is_refused_before_any_work(
    collector: Collector, tmp_path: Path
) -> None:
    with pytest.raises(
        InputError, match=r"'long': its prompt has 1\d\d tokens and the model's context holds 64"
    ):
        collect(collector, tmp_path, [*QUESTIONS, question("1" * 150, "long")])
    assert not list(tmp_path.glob("part-*"))


def test_a_shard_that_was_not_planned_is_refused(collector: Collector, tmp_path: Path) -> None:
    collect(collector, tmp_path)
    (tmp_path / "part-00099.parquet").write_bytes((tmp_path / "part-00000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"part-00099\.parquet: this shard does not belong"):
        collect(collector, tmp_path)


def test_templates_without_a_system_role_get_the_prompt_in_the_user_turn(short_base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(short_base)
    tokenizer.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{{ '[integer]' if 'single integer' in messages[0].content else '[linguistic]' }}{{ messages | length }}"
    )
    assert decode(tokenizer, Prompting(FORMATS["integer"]).ids(tokenizer, "1*1")) == "[integer]1"


def test_tokenizers_without_a_template_get_plain_text(short_base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(short_base)
    tokenizer.chat_template = None
    ids = Prompting(FORMATS["probability"]).ids(tokenizer, "12*34")
    assert "12*34" in decode(tokenizer, ids)
