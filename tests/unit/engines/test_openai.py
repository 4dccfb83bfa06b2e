"""The engine `openai` over real sockets, against servers of every kind: what is sent, what is read, what is refused."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibsft.engines import load_engine
from calibsft.engines.engine import Completion, Engine, Request, Sampling
from calibsft.engines.openai import OpenAiSettings
from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.responses.spans import decode
from calibsft.served import fleet as fleet_module
from calibsft.served import server as server_module
from scripted_server import Asked, Scripted, Sent, completion, fails, nobody, scripted_server, sends

KEY = "sk-very-secret-0123456789"
TEXT = "<think>1</think><answer>7</answer><confidence>0.50</confidence>"
TOKENIZER = build_tokenizer()
IDS = (*TOKENIZER(TEXT)["input_ids"], TOKENIZER.eos_token_id)
ASKING = Prompting(FORMATS["probability"], {"enable_thinking": False})
Answer = Callable[[dict[str, Any]], Sent]


@pytest.fixture
def model(tmp_path: Path) -> str:
    TOKENIZER.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(server_module, "FIRST_REST", 0.01)
    monkeypatch.setattr(fleet_module, "FIRST_PAUSE", 0.01)
    with scripted_server(vllm(lambda body: exact(IDS)), "m") as found:
        yield found


def exact(ids: tuple[int, ...], finish: str = "stop", logprobs: Any = ...) -> Sent:
    """A completion as vLLM gives it."""
    known = [-0.25] * len(ids) if logprobs is ... else logprobs
    choice = {
        "text": "",
        "token_ids": list(ids),
        "finish_reason": finish,
        "logprobs": {"token_logprobs": known},
    }
    return sends({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": len(ids)}})


def vllm(answer: Answer) -> Callable[[Asked], Sent]:
    """A server of completions by token ids, which passes the check at the start."""

    def reply(asked: Asked) -> Sent:
        if asked.path != "/v1/completions":
            return fails(404)
        if isinstance(asked.body["prompt"], list):
            return answer(asked.body)
        ids = TOKENIZER(asked.body["prompt"])["input_ids"]
        choice = {"text": "1", "token_ids": [1], "prompt_token_ids": ids, "finish_reason": "length"}
        return sends({"choices": [choice]})

    return reply


def chat_only(answer: Answer) -> Callable[[Asked], Sent]:
    return lambda asked: answer(asked.body) if asked.path == "/v1/chat/completions" else fails(404)


def engine(server: Scripted, checkpoint: str, **settings: Any) -> Engine:
    return load_engine(
        OpenAiSettings(urls=(server.url,), **{"retries": 2, "timeout": 20, **settings}), checkpoint
    )


def request(seeds: tuple[int, ...] = (-5, 7)) -> Request:
    return Request((1, 2, 3), seeds, turns=ASKING.turns("7*8"), template=ASKING.template)


def one(engine: Engine, sampling: Sampling = Sampling(max_new_tokens=40)) -> Completion:
    ((found,),) = engine.generate([request((3,))], sampling)
    return found


# Completions of token ids


def test_a_request_has_the_ids_the_seed_and_no_hidden_defaults(server: Scripted, model: str) -> None:
    sampler = engine(server, model, extra={"top_k": 20})
    server.asked.clear()
    drawn = sampler.generate([request()], Sampling(0.5, 0.9, 12, ("</answer>",)))
    assert [c.token_ids for c in drawn[0]] == [IDS, IDS] and all(c.finished for c in drawn[0])
    assert np.allclose(drawn[0][0].logprobs, -0.25) and np.isnan(drawn[0][0].entropies).all()
    bodies = sorted((asked.body for asked in server.asked), key=lambda body: int(body["seed"]))
    for body, seed in zip(bodies, (7, (-5) % 2**31), strict=True):
        assert body == {
            "model": "m", "prompt": [1, 2, 3], "max_tokens": 12, "temperature": 0.5, "top_p": 0.9, "seed": seed,
            "stop": ["</answer>"], "include_stop_str_in_output": True, "return_token_ids": True, "logprobs": 1,
            "stop_token_ids": [TOKENIZER.eos_token_id], "top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0,
        }  # fmt: skip


def test_the_key_goes_to_the_server_and_into_no_message(
    server: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBSFT_ENGINE_API_KEY", KEY)
    sampler = engine(server, model, retries=0)
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    server.answer = lambda asked: fails(401, f"{KEY} is wrong")
    with pytest.raises(
        InputError, match=r"refuses the API key \(401\); set the right one in CALIBSFT_ENGINE"
    ) as said:
        one(sampler)
    assert KEY not in str(said.value)


@pytest.mark.parametrize(
    "reply",
    [
        sends({}),
        sends({"choices": []}),
        sends({"choices": ["x"]}),
        sends([]),
        sends(b"<html>"),
        sends(b"[" * 100_000),
        exact((-1,)),
        exact((10**6,)),
        exact((1.5,)),  # type: ignore[arg-type]
        exact((True,)),  # type: ignore[arg-type]
        Sent(200, [b'{"choices": ['], cut=True),
        Sent(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{"),
        Sent(raw=b"\0"),
        fails(500),
        fails(429, retry_after="0"),
        fails(404),
    ],
)
def test_what_is_no_reply_is_asked_for_again(server: Scripted, model: str, reply: Sent) -> None:
    sampler, replies = engine(server, model), iter([reply, reply])
    server.answer = vllm(lambda body: next(replies, exact(IDS)))
    assert one(sampler).token_ids == IDS


@pytest.mark.parametrize(
    "logprobs", [None, [], [-1.0], ["x"] * len(IDS), [math.inf] * len(IDS), [None] * len(IDS), {}]
)
def test_log_probabilities_that_are_none_are_unknown(server: Scripted, model: str, logprobs: Any) -> None:
    server.answer = vllm(lambda body: exact(IDS, logprobs=logprobs))
    found = one(engine(server, model))
    assert found.token_ids == IDS and np.isnan(found.logprobs).all()


def test_a_refused_request_is_an_empty_response_with_its_error(
    server: Scripted, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = vllm(lambda body: fails(400, "too long\x1b[31m") if body["seed"] == 7 else exact(IDS))
    ((first, second),) = engine(server, model).generate([request()], Sampling())
    assert first.error is None and first.finish_reason == "stop"
    assert second.token_ids == () and not second.finished and second.finish_reason == "error"
    assert (
        second.error is not None
        and second.error.startswith("refused: too long")
        and "\x1b" not in second.error
    )
    assert "1 of 2 requests were refused" in capsys.readouterr().err


def test_the_servers_own_reason_for_an_end_is_kept(server: Scripted, model: str) -> None:
    server.answer = vllm(lambda body: exact(IDS[:4], "content_filter"))
    found = one(engine(server, model))
    assert (found.finish_reason, found.finished) == ("content_filter", False)


@pytest.mark.parametrize("named", [{"max_model_len": 10}, {"meta": {"n_ctx": 10}}], ids=["vLLM", "llama.cpp"])
def test_a_response_fits_into_the_context_that_the_server_names(
    server: Scripted, model: str, named: dict[str, Any]
) -> None:
    server.models = sends({"data": [{"id": "m", **named}]})
    sampler = engine(server, model)
    one(sampler)
    assert sampler.context == 10 and server.asked[-1].body["max_tokens"] == 7


def test_tokens_as_llama_cpp_names_them(server: Scripted, model: str) -> None:
    """No token ids of its own, but in the log-probabilities; the end token is left out, and stop strings are cut off."""
    content = [{"id": i, "token": "", "logprob": -0.5} for i in IDS[:-1]]
    choice = {"text": TEXT, "finish_reason": "stop", "logprobs": {"content": content}}
    server.answer = lambda asked: sends({"choices": [choice], "usage": {}})
    sampler = engine(server, model)
    found = one(sampler)
    assert found.token_ids == IDS and found.finished
    assert np.allclose(found.logprobs[:-1], -0.5) and np.isnan(found.logprobs[-1])
    stopped = one(sampler, Sampling(max_new_tokens=40, stop=("</answer>",)))
    assert "stop" not in server.asked[-1].body
    assert decode(TOKENIZER, stopped.token_ids) == "<think>1</think><answer>7</answer>" and stopped.finished


@pytest.mark.parametrize("fault", [fails(503), fails(429, retry_after="0"), Sent(cut=True, parts=[b"{"])])
def test_the_check_asks_a_server_again_that_fails_now_and_then(
    server: Scripted, model: str, fault: Sent
) -> None:
    replies, usual = iter([fault, fault]), server.answer
    server.answer = lambda asked: next(replies, None) or usual(asked)
    assert one(engine(server, model)).token_ids == IDS
    replies = iter([fault] * 3)
    with pytest.raises(InputError, match=r"fails \(503|wants fewer|cannot be reached"):
        engine(server, model)


# Chat


def test_chat_sends_the_turns_and_gives_texts(
    server: Scripted, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = chat_only(lambda body: sends(completion(TEXT)))
    sampler = engine(server, model)
    assert "no log-probabilities" in capsys.readouterr().err
    found = one(sampler, Sampling(max_new_tokens=40))
    assert found.token_ids == IDS and found.finished and np.isnan(found.logprobs).all()
    sent = server.asked[-1].body
    assert sent["messages"] == ASKING.turns("7*8") and sent["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    assert (sent["max_tokens"], sent["seed"], sent["model"]) == (40, 3, "m")
    with pytest.raises(InputError, match="gives texts and no probabilities of tokens"):
        sampler.next_logprobs([(1,)], [2])
    with pytest.raises(InputError, match="a chat endpoint cannot continue a response"):
        sampler.generate([Request((1, 2), (0,))], Sampling())


def test_reasoning_that_the_server_took_out_is_put_back(server: Scripted, model: str) -> None:
    rest = TEXT.removeprefix("<think>1</think>")
    for name in ("reasoning_content", "reasoning"):
        server.answer = chat_only(lambda body, name=name: sends(completion(rest, **{name: "1"})))  # type: ignore[misc]
        assert one(engine(server, model)).token_ids == IDS


def test_a_text_that_the_tokenizer_cannot_write_is_an_error_of_its_own(server: Scripted, model: str) -> None:
    server.answer = chat_only(lambda body: sends(completion("été")))
    found = one(engine(server, model))
    assert found.token_ids == () and found.error is not None and "does not reproduce" in found.error


def test_a_server_that_knows_only_the_newer_field_is_asked_with_it(server: Scripted, model: str) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        known = {
            "model",
            "messages",
            "max_completion_tokens",
            "temperature",
            "top_p",
            "seed",
            "chat_template_kwargs",
        }
        return sends(completion(TEXT)) if set(body) <= known else fails(400, "unknown field")

    server.answer = chat_only(answer)
    assert one(engine(server, model)).token_ids == IDS
    assert server.asked[-1].body["max_completion_tokens"] == 40


# The check at the start


@pytest.mark.parametrize(
    "settings, models, answer, sentence",
    [
        ({"model": "x"}, ..., None, r"has no model 'x' \(it lists 'm'\); correct engine.model"),
        ({}, sends({"data": [{"id": "a"}, {"id": "b"}]}), None, r"has no model '.*' \(it lists 'a', 'b'\)"),
        ({}, sends({"data": []}), None, r"\(it lists none\)"),
        ({}, fails(401), None, r"refuses the API key \(401\)"),
        ({}, sends(b"<html>"), None, r"does not reply with completions; correct engine.urls"),
        ({"api": "completions"}, ..., lambda asked: fails(400), r"takes no prompts as token ids; set engine.api to chat"),
        ({}, ..., lambda asked: fails(400, "no"), r"refuses what it is asked \(400: no\)"),
        ({}, ..., lambda asked: fails(503), r"fails \(503"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_used_is_refused_at_once(
    server: Scripted, model: str, settings: dict[str, Any], models: Any, answer: Any, sentence: str
) -> None:
    server.models = server.models if models is ... else models
    server.answer = answer or server.answer
    with pytest.raises(InputError, match=sentence):
        engine(server, model, **settings)


def test_another_tokenizer_is_noticed_by_its_ids_or_its_count(server: Scripted, model: str) -> None:
    other: list[dict[str, Any]] = [
        {"choices": [{"text": "", "token_ids": [1], "prompt_token_ids": [1, 2, 3]}]},
        {"choices": [{"text": ""}], "usage": {"prompt_tokens": 3}},
    ]
    for reply in other:
        server.answer = lambda asked, reply=reply: sends(reply)  # type: ignore[misc]
        with pytest.raises(InputError, match="has another tokenizer than"):
            engine(server, model)


def test_servers_of_different_kinds_are_refused(server: Scripted, model: str) -> None:
    chat = chat_only(lambda body: sends(completion(TEXT)))
    with scripted_server(chat, "m") as other, pytest.raises(InputError, match="use servers of one kind"):
        load_engine(OpenAiSettings(urls=(server.url, other.url)), model)


def test_nobody_there_is_told_at_once(model: str) -> None:
    with (
        nobody() as url,
        pytest.raises(InputError, match=r"cannot be reached; start its server"),
    ):
        load_engine(OpenAiSettings(urls=(url,)), model)


# The fleet


def test_a_server_that_dies_leaves_its_work_to_the_other(server: Scripted, model: str) -> None:
    with scripted_server(vllm(lambda body: exact(IDS)), "m") as other:
        sampler = load_engine(OpenAiSettings(urls=(server.url, other.url), concurrency=2, retries=8), model)
        server.answer = lambda asked: Sent(raw=b"")
        (found,) = sampler.generate([request(tuple(range(30)))], Sampling())
    assert [c.token_ids for c in found] == [IDS] * 30
    assert 1 <= sum(isinstance(asked.body, dict) for asked in server.asked) < 20, (
        "it rests between its trials"
    )


def test_concurrency_is_kept_to_at_each_server(server: Scripted, model: str) -> None:
    sampler = engine(server, model, concurrency=3)
    server.most = 0
    server.answer = vllm(lambda body: Sent(200, _slowly(exact(IDS))))
    sampler.generate([request(tuple(range(12)))], Sampling())
    assert server.most == 3


def _slowly(sent: Sent) -> Iterator[bytes]:
    import time

    for part in sent.parts:
        time.sleep(0.05)
        yield part


def test_a_pause_that_the_server_asks_for_is_kept_to(
    server: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, refusals = engine(server, model), iter([fails(429, retry_after="7")])
    server.answer = vllm(lambda body: next(refusals, exact(IDS)))
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        monkeypatch.setattr(server_module, "monotonic", lambda: 1e12)
        await sleep(0)

    monkeypatch.setattr(server_module.asyncio, "sleep", noted)
    assert one(sampler).token_ids == IDS
    assert 6 < max(slept) <= 7


def test_a_cost_budget_counts_both_prices(server: Scripted, model: str) -> None:
    sampler = engine(server, model, price=(1e6, 2e6), cost_budget=3 * (5 + 2 * len(IDS)) - 1, concurrency=1)
    seen: list[int] = []
    with pytest.raises(InputError, match=r"engine.cost_budget, .* is spent \(15 tokens of prompts"):
        sampler.generate([request(tuple(range(9)))], Sampling(), lambda i, j, c: seen.append(j))
    assert seen == [0, 1, 2]
    assert dict(sampler.usage) == {"prompt_tokens": 15, "completion_tokens": 3 * len(IDS)}


def test_it_works_inside_a_running_event_loop(server: Scripted, model: str) -> None:
    async def notebook() -> Completion:
        return one(engine(server, model))

    assert asyncio.run(notebook()).token_ids == IDS


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"urls": ()}, "urls"),
        ({"urls": ("http://h/v1", "http://h/v1")}, "names a server twice"),
        ({"urls": ("http://h/v1",), "cost_budget": 1.0}, "belong together"),
        ({"urls": ("http://h/v1",), "price": (1.0,), "cost_budget": 1.0}, "two prices"),
        ({"urls": ("http://h/v1",), "price": (1.0, 2.0)}, "belong together"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        OpenAiSettings(**settings)


def test_what_else_is_asked_shapes_the_result_and_the_address_does_not() -> None:
    assert OpenAiSettings(urls=("http://h/v1",)).inputs() == {}
    given = {"urls": ("http://h/v1",), "extra": {"top_k": 3}}
    assert json.loads(OpenAiSettings(**given).inputs()["engine.extra"]) == {"top_k": 3}
