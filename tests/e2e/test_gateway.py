"""The gateway between the official client and two real servers: what it decides, 2,000 requests, and servers that fail.

The local server states 0.d5 where d is a question's first digit, so the policy of 0.50 answers 5… to 9… and defers 1… to 4….
The strong server has another checkpoint and sends its reasoning apart. Both decode greedily, so what they say is known.
"""

import asyncio
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from http.client import HTTPConnection
from math import floor
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import aiohttp
import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from chat_servers import ChatServer, chat_server
from gateway_process import Running, gateway, policy_file

REQUESTS, AT_ONCE = 2000, 32
SPARE = 800
# Far longer than anything takes: a request that hangs fails its test, and nothing else depends on it.
PATIENCE = 90.0
# Two tokens nearer than this may change places with what else is in a batch.
LEVEL = 1e-3
WELL_FORMED = re.compile("<think>([^<]*)</think><answer>([^<]*)</answer><confidence>([^<]*)</confidence>")
# What the gateway reads as a confidence: anything else that the model writes there is malformed.
READABLE = re.compile(r"[01]\.?|0?\.[0-9]{1,20}|1\.0{1,20}")
SURE, UNSURE = "57*77", "12*34"


@dataclass(frozen=True)
class Said:
    """What a model says to a question, empty where it is malformed."""

    text: str

    @property
    def parts(self) -> tuple[str, str, str] | None:
        found = WELL_FORMED.fullmatch(self.text)
        return (found[1], found[2], found[3]) if found and READABLE.fullmatch(found[3]) else None

    @property
    def apart(self) -> tuple[str, str]:
        """Reasoning and content, as a server sends them that takes them apart."""
        reasoning, _, content = self.text.removeprefix("<think>").partition("</think>")
        return reasoning, content


@dataclass(frozen=True)
class Told:
    """One reply as it came."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["choices"][0]["message"]
        return found

    @property
    def decision(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["calibsft"]
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def both(varied_base: Path, short_base: Path, folder: Path) -> Iterator[dict[str, ChatServer]]:
    with ExitStack() as cleanup, ThreadPoolExecutor() as pool:

        def start(name: str, model: Path, think_apart: bool) -> ChatServer:
            return cleanup.enter_context(chat_server(model, folder, name, think_apart=think_apart))

        local = pool.submit(start, "local", varied_base, False)
        strong = pool.submit(start, "strong", short_base, True)
        yield {"local": local.result(), "strong": strong.result()}


@pytest.fixture
def local(both: dict[str, ChatServer]) -> ChatServer:
    return revived(both["local"])


@pytest.fixture
def strong(both: dict[str, ChatServer]) -> ChatServer:
    return revived(both["strong"])


def revived(server: ChatServer) -> ChatServer:
    """The server, started again if an earlier test killed it."""
    if not server.alive:
        server.start()
        server.wait()
    return server


@pytest.fixture
def deferring(local: ChatServer, strong: ChatServer, one_gateway: Running) -> Running:
    """The gateway that most tests use, with both servers alive."""
    return one_gateway


@pytest.fixture(scope="module")
def one_gateway(both: dict[str, ChatServer], folder: Path) -> Iterator[Running]:
    with between(policy_file(folder, model="small"), both["local"], both["strong"]) as running:
        yield running
        assert running.process.poll() is None, "it went through all of this in one life"


@contextmanager
def between(
    policy: Path, local: ChatServer, strong: ChatServer | None = None, **options: object
) -> Iterator[Running]:
    """A gateway in front of the servers; it never meets anything that it does not foresee."""
    models = {"local_model": local.model} | ({"strong_model": strong.model} if strong else {})
    with gateway(policy, local.url, strong.url if strong else None, **models, **options) as running:
        yield running
        said = running.said()
        assert "Traceback" not in said and "unexpected" not in said, said[-3000:]
        assert "exception was never retrieved" not in said, said[-3000:]


def client(running: Running, key: str = "any") -> OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False)
    return OpenAI(base_url=running.url, api_key=key, max_retries=0, timeout=PATIENCE, http_client=http)


def chat(question: str, model: str = "small", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 32, **more}


def endless(tokens: int) -> dict[str, Any]:
    """What makes the strong server write `tokens` tokens, some milliseconds each; the local one never sees it."""
    return {
        "generation_config": json.dumps({"eos_token_id": -1, "max_new_tokens": tokens}),
        "max_tokens": tokens,
    }


def asked(running: Running, question: str, **more: Any) -> Told:
    """One reply of a gateway, over a connection of its own."""
    body = chat(question, running.model, **more)
    reply = httpx2.post(f"{running.url}/chat/completions", json=body, trust_env=False, timeout=PATIENCE)
    return Told(reply.status_code, reply.headers, reply.json())


def ask_all(
    running: Running,
    questions: Sequence[str],
    at_once: int = AT_ONCE,
    on_reply: Callable[[int], None] = lambda count: None,
    **more: Any,
) -> list[Told]:
    """A reply to every question, in their order; `on_reply` is told how many there are."""
    replies: dict[int, Told] = {}
    turns = iter(enumerate(questions))

    async def work(session: aiohttp.ClientSession) -> None:
        for number, question in turns:
            body = chat(question, running.model, **more)
            async with session.post(f"{running.url}/chat/completions", json=body) as reply:
                told = Told(reply.status, reply.headers, await reply.json())
            assert number not in replies
            replies[number] = told
            on_reply(len(replies))

    async def run() -> None:
        connector, limit = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
            await asyncio.gather(*(work(session) for _ in range(at_once)))

    asyncio.run(run())
    return [replies[number] for number in range(len(questions))]


def greedy(folder: Path, questions: Sequence[str]) -> list[Said | None]:
    """What a checkpoint says, without any server; None where two tokens are level and either may come."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from calibsft.responses.formats import get_format, messages

    tokenizer, model = (kind.from_pretrained(folder) for kind in (AutoTokenizer, AutoModelForCausalLM))
    chats = [messages(question, get_format("probability")) for question in questions]
    prompts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    batch = tokenizer(prompts, return_tensors="pt")
    made = model.generate(
        **batch, do_sample=False, max_new_tokens=32, output_logits=True, return_dict_in_generate=True
    )
    new_B_T = made.sequences[:, batch.input_ids.shape[1] :]
    best_B_T_2 = torch.stack(made.logits, 1).topk(2).values
    lead_B_T = (best_B_T_2[..., 0] - best_B_T_2[..., 1]).masked_fill(new_B_T == tokenizer.pad_token_id, 1.0)
    texts = tokenizer.batch_decode(new_B_T)
    ends = [text.partition(tokenizer.eos_token)[0] for text in texts]
    return [
        Said(text) if clear else None
        for text, clear in zip(ends, (lead_B_T.min(1).values > LEVEL).tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def known(varied_base: Path, short_base: Path) -> dict[str, tuple[Said, Said]]:
    """2,000 questions, no two alike, and what the local and the strong model say to them."""
    from calibsft.playground.world import OPERANDS, multiply

    every = [multiply(a, b).text for a in OPERANDS for b in OPERANDS]
    drawn = Random(0).sample(every, REQUESTS + SPARE)
    said = zip(greedy(varied_base, drawn), greedy(short_base, drawn), strict=True)
    clear = {
        question: (mine, theirs)
        for question, (mine, theirs) in zip(drawn, said, strict=True)
        # A server that sends reasoning apart has no rule for reasoning that never ends.
        if mine is not None and theirs is not None and "</think>" in theirs.text
    }
    assert len(clear) >= REQUESTS
    return {question: clear[question] for question in list(clear)[:REQUESTS]}


def expected(mine: Said, theirs: Said) -> tuple[Any, ...]:
    """Decision, reason, confidence, reasoning and content, as `told_as` puts them."""
    if mine.parts is None:
        return "deferred", "malformed", None, *theirs.apart
    reasoning, answer, stated = mine.parts
    if float(stated) >= 0.5:
        return "answered", "confident", float(stated), reasoning, answer
    return "deferred", "not_confident", float(stated), *theirs.apart


def told_as(told: Told) -> tuple[Any, ...]:
    decision = told.decision
    message = told.message
    return (
        decision["decision"],
        decision["reason"],
        decision["confidence"],
        message["reasoning_content"],
        message["content"],
    )


def said_by(server: ChatServer, question: str) -> dict[str, Any]:
    """What a server says when it is asked past the gateway."""
    reply = server.ask(question, max_tokens=32)
    assert reply.status_code == httpx2.codes.OK
    found: dict[str, Any] = reply.json()
    return found


def text_of(completion: dict[str, Any]) -> Said:
    return Said(completion["choices"][0]["message"]["content"])


def without_identity(completion: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in completion.items() if name not in ("id", "created", "calibsft")}


def pieces(stream: Iterator[Any], field: str = "content") -> list[str]:
    deltas = (chunk.choices[0].delta for chunk in stream if chunk.choices)
    return [piece for delta in deltas if (piece := getattr(delta, field, None))]


def test_the_official_client_gets_the_local_models_answer_and_what_was_decided(
    deferring: Running, local: ChatServer, strong: ChatServer
) -> None:
    direct, before = said_by(local, SURE), strong.answered
    parts = text_of(direct).parts
    assert parts is not None and parts[2] == "0.55"
    completion = client(deferring).chat.completions.create(**chat(SURE))
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == (parts[1], "stop")
    assert choice.message.role == "assistant"
    assert choice.message.model_extra == {"reasoning_content": parts[0]}
    assert completion.usage is not None and completion.usage.to_dict() == direct["usage"]
    policy = httpx2.get(deferring.url.removesuffix("/v1") + "/healthz", trust_env=False).json()["policy"]
    assert completion.model_extra == {
        "calibsft": {
            "decision": "answered", "reason": "confident", "confidence": 0.55, "threshold": 0.5,
            "guarantee": "high-probability", "policy": policy, "id": completion.id,
        }
    }  # fmt: skip
    assert strong.answered == before


def test_the_official_client_gets_exactly_what_the_strong_model_says_where_the_local_one_is_unsure(
    deferring: Running, strong: ChatServer
) -> None:
    direct = said_by(strong, UNSURE)
    completion = client(deferring).chat.completions.create(**chat(UNSURE)).to_dict()
    assert without_identity(completion) == without_identity(direct)
    decision = completion["calibsft"]
    assert (decision["decision"], decision["reason"]) == ("deferred", "not_confident")  # type: ignore[index]
    assert decision["confidence"] == 0.15  # type: ignore[index]


def test_headers_say_the_same_to_clients_that_see_no_extra_fields(deferring: Running) -> None:
    for question in (SURE, UNSURE):
        raw = client(deferring).chat.completions.with_raw_response.create(**chat(question))
        extension = raw.parse().model_extra["calibsft"]  # type: ignore[index]
        told = {name.removeprefix("x-calibsft-"): value for name, value in raw.headers.items()}
        assert {name: told[name] for name in extension} == {
            name: str(value) for name, value in extension.items()
        }
        assert len(raw.headers["x-request-id"]) == 32


def test_a_local_answer_streams_with_the_decision_in_its_first_chunk(
    deferring: Running, local: ChatServer
) -> None:
    parts = text_of(said_by(local, SURE)).parts
    assert parts is not None
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client(deferring).chat.completions.create(**chat(SURE), **options))
    assert "".join(pieces(iter(chunks))) == parts[1]
    assert "".join(pieces(iter(chunks), "reasoning_content")) == parts[0]
    decisions = [(chunk.model_extra or {}).get("calibsft") for chunk in chunks]
    assert decisions[0]["decision"] == "answered" and not any(decisions[1:])
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 30
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_deferred_stream_is_the_strong_models_own_with_the_decision_in_its_first_chunk(
    deferring: Running, strong: ChatServer
) -> None:
    direct = OpenAI(
        base_url=strong.url, api_key="any", http_client=openai.DefaultHttpxClient(trust_env=False)
    )
    theirs = list(direct.chat.completions.create(**chat(UNSURE, strong.model), stream=True))
    ours = list(client(deferring).chat.completions.create(**chat(UNSURE), stream=True))
    for field in ("content", "reasoning_content"):
        assert pieces(iter(ours), field) == pieces(iter(theirs), field) != []
    decisions = [(chunk.model_extra or {}).get("calibsft") for chunk in ours]
    assert decisions[0]["decision"] == "deferred" and not any(decisions[1:])
    assert ours[-1].choices[0].finish_reason == "stop"


def test_the_clients_own_gathering_of_a_stream_works(deferring: Running) -> None:
    for question in (SURE, UNSURE):
        whole = client(deferring).chat.completions.create(**chat(question))
        with client(deferring).chat.completions.stream(**chat(question)) as stream:
            gathered = stream.get_final_completion()
        assert gathered.choices[0].message.content == whole.choices[0].message.content
        assert gathered.choices[0].finish_reason == "stop"


def test_the_async_client_gets_each_reply_to_its_own_question(
    deferring: Running, known: dict[str, tuple[Said, Said]]
) -> None:
    questions = list(known)[:24]

    async def content(api: AsyncOpenAI, question: str, stream: bool) -> str | None:
        if not stream:
            return (await api.chat.completions.create(**chat(question))).choices[0].message.content
        chunks = await api.chat.completions.create(**chat(question), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    async def run() -> list[str | None]:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with AsyncOpenAI(base_url=deferring.url, api_key="any", http_client=http) as api:
            asks = (content(api, question, i % 2 == 0) for i, question in enumerate(questions))
            return await asyncio.gather(*asks)

    assert asyncio.run(run()) == [expected(*known[question])[-1] for question in questions]


def test_the_one_model_is_listed_and_found_by_its_name(deferring: Running) -> None:
    models = client(deferring).models
    assert [model.id for model in models.list()] == ["small"]
    assert models.retrieve("small").owned_by == "calibsft"
    with pytest.raises(openai.NotFoundError):
        models.retrieve("local")


def test_errors_are_the_clients_own_classes_with_one_sentence(deferring: Running, strong: ChatServer) -> None:
    create = client(deferring).chat.completions.create
    with pytest.raises(openai.NotFoundError, match="no such model here") as unknown:
        create(**chat(SURE, strong.model))
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="n is not supported here") as several:
        create(**chat(SURE), n=2)
    assert several.value.type == "invalid_request_error"
    before = strong.answered
    with pytest.raises(
        openai.BadRequestError, match=r"strong model's server refuses .*unheard_of"
    ) as refused:
        create(**chat(UNSURE), extra_body={"unheard_of": 1})
    assert refused.value.code == "upstream_refused" and strong.answered == before


def test_a_token_is_asked_of_clients_and_servers_never_see_it(
    local: ChatServer, strong: ChatServer, folder: Path
) -> None:
    secrets = {"CALIBSFT_SERVE_TOKEN": "sk-for-clients-77", "CALIBSFT_STRONG_API_KEY": "sk-for-strong-88"}
    with between(policy_file(folder, model="small"), local, strong, environment=secrets) as running:
        right = client(running, "sk-for-clients-77")
        assert right.chat.completions.create(**chat(UNSURE)).model == "strong@main"
        for key in ("any", "sk-for-strong-88", "sk-for-clients-7"):
            with pytest.raises(openai.AuthenticationError, match="bearer token is missing or wrong"):
                client(running, key).chat.completions.create(**chat(SURE))
            with pytest.raises(openai.AuthenticationError):
                client(running, key).models.list()
        assert not any(secret in running.said() for secret in (*secrets.values(), UNSURE))


def test_what_the_model_is_sure_of_stays_local_and_the_rest_is_deferred(
    deferring: Running, local: ChatServer, strong: ChatServer
) -> None:
    for digit in range(1, 10):
        question = f"{digit}3*48"
        mine, told = text_of(said_by(local, question)).parts, asked(deferring, question)
        assert mine is not None and mine[2] == f"0.{digit}5"
        assert told.decision["confidence"] == (digit * 10 + 5) / 100
        if digit >= 5:
            assert (told.decision["decision"], told.message["content"]) == ("answered", mine[1])
        else:
            assert told.decision["decision"] == "deferred"
            assert without_identity(told.body) == without_identity(said_by(strong, question))


def test_a_policy_that_abstains_withholds_the_answer_and_needs_no_strong_model(
    local: ChatServer, folder: Path
) -> None:
    with between(policy_file(folder, otherwise="abstain", model="small"), local) as running:
        for question, sure in ((SURE, True), (UNSURE, False)):
            parts, told = text_of(said_by(local, question)).parts, asked(running, question)
            assert parts is not None
            streamed = client(running).chat.completions.create(**chat(question), stream=True)
            assert "".join(pieces(streamed)) == told.message["content"]
            assert told.decision["decision"] == ("answered" if sure else "abstained")
            assert (told.message["content"] == parts[1]) is sure
            assert sure or not any(part in json.dumps(told.message) for part in parts)
        assert running.count("calibsft_decisions_total", 'decision="abstained"') == 2


def test_a_local_server_that_sends_reasoning_apart_is_read_as_any_other(
    strong: ChatServer, folder: Path
) -> None:
    message = said_by(strong, UNSURE)["choices"][0]["message"]
    found = re.fullmatch("<answer>(.*)</answer><confidence>(.*)</confidence>", message["content"])
    assert found is not None and READABLE.fullmatch(found[2]), "the base keeps to the layout"
    with between(policy_file(folder, otherwise="abstain"), strong) as running:
        told = asked(running, UNSURE)
    # The base is over-confident: it says far more than the policy asks for.
    assert told_as(told) == ("answered", "confident", float(found[2]), message["reasoning_content"], found[1])


def test_of_2000_requests_each_is_answered_once_and_to_its_own_question(
    local: ChatServer, strong: ChatServer, folder: Path, known: dict[str, tuple[Said, Said]]
) -> None:
    wanted = [expected(*said) for said in known.values()]
    assert len(set(wanted)) > REQUESTS / 2, "or replies that change places would not be noticed"
    counts = Counter(floor(100 * Fraction(repr(row[2]))) for row in wanted if row[2] is not None)
    stated = {reached / 100: count for reached, count in counts.items()}
    calibrated = {"confidences": stated, "never_confident": REQUESTS - counts.total()}
    before = local.answered, strong.answered
    with between(policy_file(folder, **calibrated), local, strong) as running:
        replies = ask_all(running, list(known))
        deferred = sum(row[0] == "deferred" for row in wanted)
        assert [told.status for told in replies] == [200] * REQUESTS
        assert [told_as(told) for told in replies] == wanted
        assert len({told.body["id"] for told in replies}) == REQUESTS
        assert len({told.headers["x-request-id"] for told in replies}) == REQUESTS
        assert (local.answered - before[0], strong.answered - before[1]) == (REQUESTS, deferred)
        assert running.count("calibsft_decisions_total") == REQUESTS
        assert running.count("calibsft_decisions_total", 'decision="deferred"') == deferred
        assert running.count("calibsft_requests_total", 'status="200"') == REQUESTS
        assert running.count("calibsft_confidence_count") == counts.total()
        assert running.count("calibsft_in_flight") == running.count("calibsft_waiting") == 0
        assert running.count("calibsft_drift_distance") > 0 == running.count("calibsft_drifted")


def test_a_policy_made_of_a_models_own_responses_can_be_served_as_it_is(
    calibsft: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    local: ChatServer,
    known: dict[str, tuple[Said, Said]],
) -> None:
    """Responses → verdicts → policy → gateway; the gold is the model's answer where it is sure, so there it is right."""
    rows = [
        {"question_id": question, "response": mine.text, "gold": mine.parts[1] if question[0] > "4" else "1"}
        for question, (mine, _) in known.items()
        if mine.parts
    ]
    (tmp_path / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:600]))
    assert calibsft("verify", "responses.jsonl", "--out", "verdicts")[0] == 0
    code, out, err = calibsft("certify", "verdicts", "--risk", "0.1", "--model", "small")
    assert code == 0, err
    policy = json.loads((tmp_path / "policy.json").read_text())
    assert 0.36 <= policy["threshold"] <= 0.55, out
    with between(tmp_path / "policy.json", local) as running:
        assert asked(running, SURE).decision["decision"] == "answered"
        assert asked(running, UNSURE).decision["decision"] == "abstained"
        assert running.model == "small"


def test_a_policy_made_of_two_models_verdicts_can_be_served_as_it_is(
    calibsft: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    local: ChatServer,
    strong: ChatServer,
    known: dict[str, tuple[Said, Said]],
) -> None:
    stated = {question: mine.parts[2] for question, (mine, _) in known.items() if mine.parts}
    rows = [f"{question},{confidence},{question[0] > '4'},true" for question, confidence in stated.items()]
    lines = ["question_id,confidence,local_correct,strong_correct", *rows]
    (tmp_path / "both.csv").write_text("\n".join(lines))
    code, _, err = calibsft("route", "both.csv", "--epsilon", "0.05")
    assert code == 0, err
    with between(tmp_path / "policy.json", local, strong) as running:
        assert asked(running, SURE).decision["decision"] == "answered"
        assert asked(running, UNSURE).decision["decision"] == "deferred"
        assert running.model == "calibsft"


@contextmanager
def in_background(*works: Callable[[], Any]) -> Iterator[list[Any]]:
    """Work that is under way while the block runs; its results are there when the block ends."""
    results: list[Any] = []
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        yield results
        results.extend(future.result() for future in futures)


def until(true: Callable[[], bool]) -> None:
    """Wait for something that is bound to come."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def under_way(running: Running, count: int) -> Callable[[], bool]:
    return lambda: running.count("calibsft_in_flight") >= count


@pytest.mark.parametrize("stop, status", [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
def test_a_gateway_that_is_told_to_stop_finishes_what_is_under_way(
    local: ChatServer, strong: ChatServer, folder: Path, stop: signal.Signals, status: int
) -> None:
    with between(policy_file(folder, model="small"), local, strong) as running:
        begun = client(running).chat.completions.create(**chat(UNSURE), extra_body=endless(500), stream=True)
        with in_background(lambda: asked(running, UNSURE, **endless(500))) as replies:
            until(under_way(running, 2))
            running.process.send_signal(stop)
            *_, last = begun
        assert last.choices[0].finish_reason == "length"
        assert last.usage.completion_tokens == replies[0].body["usage"]["completion_tokens"] == 500
        assert running.ended() == status


def test_a_killed_gateway_can_be_started_again_at_once_on_the_same_port(
    local: ChatServer, strong: ChatServer, folder: Path
) -> None:
    policy = policy_file(folder, model="small")
    with between(policy, local, strong) as running:
        begun = client(running).chat.completions.create(**chat(UNSURE), extra_body=endless(4000), stream=True)
        next(begun)
        running.process.kill()
        with pytest.raises((openai.APIError, httpx2.HTTPError)):
            list(begun)
    with between(policy, local, strong, port=httpx2.URL(running.url).port) as again:
        assert again.url == running.url and asked(again, SURE).status == 200


def test_a_client_that_goes_away_gives_its_place_back_while_the_server_is_still_silent(
    deferring: Running, local: ChatServer, strong: ChatServer
) -> None:
    body = chat(SURE)
    with local.paused():
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(f"{deferring.url}/chat/completions", json=body, trust_env=False, timeout=1)
        until(lambda: deferring.count("calibsft_in_flight") == 0)
    begun = client(deferring).chat.completions.create(**chat(UNSURE), extra_body=endless(4000), stream=True)
    next(begun)
    with strong.paused():
        begun.close()
        until(lambda: deferring.count("calibsft_in_flight") == 0)
    assert asked(deferring, UNSURE).decision["decision"] == "deferred"


@contextmanager
def idle_connection(running: Running) -> Iterator[None]:
    """A client's connection that is used before and after the block, and not during it."""
    address = httpx2.URL(running.url)
    connection = HTTPConnection(address.host, address.port, timeout=PATIENCE)
    connection.request("GET", "/v1/models")
    connection.getresponse().read()
    yield
    connection.request("GET", "/v1/models")  # raises if the gateway has closed it
    assert json.loads(connection.getresponse().read())["object"] == "list"
    connection.close()


def test_servers_that_fall_silent_get_504_after_the_time_limit_and_are_asked_again_later(
    local: ChatServer, strong: ChatServer, folder: Path
) -> None:
    policies = [policy_file(folder, model="small", on_local_failure=choice) for choice in ("defer", "error")]
    with (
        between(policies[0], local, strong, timeout=3) as deferring,
        between(policies[1], local, strong, timeout=3, concurrency=1, queue=0) as failing,
        idle_connection(failing),  # for two time limits, and so for longer than most servers keep one
    ):
        with (
            local.paused(),
            in_background(lambda: asked(failing, SURE), lambda: asked(deferring, SURE)) as replies,
        ):
            until(under_way(failing, 1))
            with pytest.raises(openai.RateLimitError, match="too many requests are waiting"):
                client(failing).chat.completions.create(**chat(SURE))
        silent, deferred = replies
        assert (silent.status, silent.body["error"]["code"]) == (504, "upstream_timeout")
        assert "the local model took more than 3 seconds" in silent.body["error"]["message"]
        assert (deferred.decision["decision"], deferred.decision["reason"]) == ("deferred", "local_failed")
        begun = client(deferring).chat.completions.create(
            **chat(UNSURE), extra_body=endless(4000), stream=True
        )
        next(begun)
        with strong.paused(), in_background(lambda: asked(deferring, UNSURE, stream=True)) as replies:
            with pytest.raises(openai.APIError, match="the strong model took more than 3 seconds"):
                list(begun)
            assert asked(deferring, SURE).decision["decision"] == "answered"
        assert (replies[0].status, replies[0].body["error"]["code"]) == (504, "upstream_timeout")
        assert asked(failing, SURE).decision["decision"] == "answered"
        assert asked(deferring, UNSURE).decision["decision"] == "deferred"
        until(lambda: deferring.count("calibsft_in_flight") == 0)


def test_a_local_server_killed_in_the_middle_costs_no_request_its_reply(
    local: ChatServer, strong: ChatServer, folder: Path, known: dict[str, tuple[Said, Said]]
) -> None:
    questions, enough = list(known)[:200], [Event(), Event()]
    policies = [policy_file(folder, model="small", on_local_failure=choice) for choice in ("defer", "error")]
    with (
        between(policies[0], local, strong, retries=1) as deferring,
        between(policies[1], local, strong, retries=1) as failing,
    ):
        loads = [
            lambda running=running, event=event: ask_all(
                running, questions, 16, lambda count: event.set() if count == 60 else None
            )
            for running, event in zip((deferring, failing), enough, strict=True)
        ]
        with in_background(*loads) as replies:
            assert all(event.wait(PATIENCE) for event in enough)
            with local.paused():  # so that it is killed with requests in its hands
                until(lambda: all(under_way(running, 16)() for running in (deferring, failing)))
                local.kill()
        check_all_deferred(questions, replies[0], known)
        check_answer_or_error(questions, replies[1], known)
        revived(local)
        assert [asked(running, SURE).decision["reason"] for running in (deferring, failing)] == [
            "confident"
        ] * 2


def check_all_deferred(
    questions: Sequence[str], replies: Sequence[Told], known: Mapping[str, tuple[Said, Said]]
) -> None:
    assert [told.status for told in replies] == [200] * len(questions)
    reasons = Counter(told.decision["reason"] for told in replies)
    assert reasons["confident"] > 0 and reasons["local_failed"] >= 16, reasons
    for question, told in zip(questions, replies, strict=True):
        if told.decision["reason"] == "local_failed":
            assert told_as(told) == ("deferred", "local_failed", None, *known[question][1].apart)
        else:
            assert told_as(told) == expected(*known[question])


def check_answer_or_error(
    questions: Sequence[str], replies: Sequence[Told], known: Mapping[str, tuple[Said, Said]]
) -> None:
    statuses = Counter(told.status for told in replies)
    assert set(statuses) == {200, 502} and statuses[502] >= 16, statuses
    for question, told in zip(questions, replies, strict=True):
        if told.status == 200:
            assert told_as(told) == expected(*known[question])
        else:
            assert told.body["error"]["code"] == "upstream_unreachable"
            assert told.body["error"]["message"] == "the local model's server cannot be reached; try again"


def test_a_strong_server_killed_in_the_middle_is_told_also_in_the_middle_of_a_stream(
    deferring: Running, strong: ChatServer
) -> None:
    begun = client(deferring).chat.completions.create(**chat(UNSURE), extra_body=endless(4000), stream=True)
    assert next(begun).model_extra["calibsft"]["decision"] == "deferred"  # type: ignore[index]
    with in_background(lambda: asked(deferring, UNSURE, **endless(4000))) as replies:
        until(under_way(deferring, 2))
        next(begun)
        strong.kill()
        with pytest.raises(openai.APIError, match="the strong model's server stopped in the middle"):
            list(begun)
    assert (replies[0].status, replies[0].body["error"]["code"]) == (502, "upstream_unreachable")
    with pytest.raises(openai.InternalServerError, match="strong model's server cannot be reached") as error:
        client(deferring).chat.completions.create(**chat(UNSURE))
    assert (error.value.status_code, error.value.type) == (502, "api_error")
    assert asked(deferring, SURE).decision["decision"] == "answered"
    assert deferring.count("calibsft_upstream_failures_total", 'upstream="strong"') >= 3
    assert deferring.count("calibsft_in_flight") == 0


def test_a_local_server_that_answers_with_errors_is_asked_again_and_then_told_of(
    local: ChatServer, folder: Path
) -> None:
    with between(policy_file(folder, otherwise="abstain", model="small"), local, retries=1) as running:
        local.break_down()
        with pytest.raises(
            openai.InternalServerError, match="local model's server is busy or fails"
        ) as error:
            client(running).chat.completions.create(**chat(SURE))
        local.kill()  # nothing else brings it back
        assert (error.value.status_code, error.value.code) == (503, "upstream_busy")
        assert running.count("calibsft_upstream_retries_total", 'upstream="local"') == 1
