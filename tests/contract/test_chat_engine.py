"""The engine `openai` with a real server of chat, `transformers serve`: texts, and what of the contract texts allow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sampled_by
from calibsft.engines import ENGINES, default_engine, load_engine
from calibsft.engines.engine import Completion, Engine, Sampling
from calibsft.errors import InputError
from calibsft.responses.spans import decode
from calibsft.settings import validated
from chat_servers import ChatServer, chat_server

GREEDY = Sampling(temperature=0, max_new_tokens=24)


@pytest.fixture(scope="module")
def server(short_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with chat_server(short_base, tmp_path_factory.mktemp("server")) as running:
        yield running


def engine_of(server: ChatServer, checkpoint: Path, **settings: Any) -> Engine:
    given = {"name": "openai", "urls": [server.url], "model": server.model, **settings}
    return load_engine(validated(ENGINES["openai"].settings, given, "engine"), str(checkpoint), "cpu")


def texts(engine: Engine, sampling: Sampling) -> list[list[str]]:
    return [[_text(engine, c) for c in row] for row in engine.generate(sampled_by.requests(engine), sampling)]


def _text(engine: Engine, completion: Completion) -> str:
    return decode(engine.tokenizer, [i for i in completion.token_ids if i not in engine.end_ids])


def test_greedy_texts_are_those_of_the_loaded_model(
    server: ChatServer, short_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load_engine(default_engine(), str(short_base), "cpu")
    served = engine_of(server, short_base)
    assert "texts only" in capsys.readouterr().err
    assert texts(served, GREEDY) == texts(loaded, GREEDY)
    assert served.end_ids == loaded.end_ids


def test_figures_that_texts_do_not_have_are_unknown(server: ChatServer, short_base: Path) -> None:
    served = engine_of(server, short_base)
    told: list[tuple[int, int]] = []
    rows = served.generate(sampled_by.requests(served), GREEDY, lambda i, j, _: told.append((i, j)))
    assert sorted(told) == [(i, j) for i in range(len(rows)) for j in range(len(sampled_by.SEEDS))]
    for completion in (completion for row in rows for completion in row):
        assert completion.error is None and completion.token_ids
        assert np.isnan(completion.logprobs).all() and np.isnan(completion.entropies).all()
        assert completion.finished == (completion.finish_reason == "stop")
    assert served.usage["completion_tokens"] > 0


def test_a_stop_string_ends_a_text_and_stays_in_it(server: ChatServer, short_base: Path) -> None:
    served, stop = engine_of(server, short_base), "</think>"
    for free, stopped in zip(
        texts(served, GREEDY), texts(served, Sampling(0, 1.0, 24, (stop,))), strict=True
    ):
        assert stopped == [text[: text.index(stop) + len(stop)] if stop in text else text for text in free]
        assert any(stop in text for text in free)


def test_a_model_that_the_server_does_not_have_is_refused_at_once(
    server: ChatServer, short_base: Path
) -> None:
    with pytest.raises(InputError, match="nobody"):
        engine_of(server, short_base, model="nobody")


def test_completions_are_refused_where_the_server_takes_no_token_ids(
    server: ChatServer, short_base: Path
) -> None:
    with pytest.raises(InputError, match=r"takes no prompts as token ids; set engine\.api to chat"):
        engine_of(server, short_base, api="completions")
