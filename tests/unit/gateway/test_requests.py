"""What clients send: what is read, what is refused and how, and what of it goes to which model."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.gateway.failures import Refusal
from calibsft.gateway.requests import PLAIN, ChatRequest, read_request
from calibsft.responses.formats import FORMATS, messages
from gateway_process import policy
from scripted_server import QUESTION

SERVED = "served"
USER = {"role": "user", "content": QUESTION}
IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}
PROBABILITY = FORMATS["probability"]


def body(**fields: Any) -> dict[str, Any]:
    return {"model": SERVED, "messages": [USER], **fields}


def read(**fields: Any) -> ChatRequest:
    return read_request(json.dumps(body(**fields)).encode(), SERVED)


def refusal(data: bytes) -> Refusal:
    with pytest.raises(Refusal) as raised:
        read_request(data, SERVED)
    return raised.value


def asked_of_local(request: ChatRequest, **fields: Any) -> dict[str, Any]:
    return request.for_local("m", PROBABILITY, policy(**fields))


NOT_JSON = [
    b"",
    b"{",
    b"hello",
    b"\xff\xfe\xff",
    b"{'model': 1}",
    b'{"model": "served",}',
    b'{"model": "a\nb"}',
    b'{"temperature": NaN}',
    b'{"temperature": Infinity}',
    b'{"temperature": -Infinity}',
    b'{"temperature": 1e999}',
    b'{"seed": ' + b"1" * 5000 + b"}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("data", NOT_JSON, ids=lambda data: repr(data[:24]))
def test_what_is_not_json_is_refused(data: bytes) -> None:
    found = refusal(data)
    assert (found.status, found.code) == (400, "invalid_request")
    assert "not JSON" in found.message


@pytest.mark.parametrize("data", [b"[]", b"null", b"1", b'"text"', b"true"])
def test_json_that_is_no_object_is_refused(data: bytes) -> None:
    found = refusal(data)
    assert found.status == 400 and "not a JSON object" in found.message


@pytest.mark.parametrize("model", [None, 1, ["served"], {"id": "served"}])
def test_a_model_that_is_no_text_is_refused(model: Any) -> None:
    found = refusal(json.dumps(body(model=model)).encode())
    assert found.status == 400 and "/v1/models" in found.message


@pytest.mark.parametrize("model", ["", "gpt-5", "served ", "SERVED", "served\r\nx: y", "\ud800"])
def test_another_model_is_not_found_and_its_name_is_not_repeated(model: str) -> None:
    found = refusal(json.dumps(body(model=model)).encode())
    assert (found.status, found.code) == (404, "model_not_found")
    assert not model or model not in found.message


BEYOND_TEXT = {
    "n": 2,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "functions": [{"name": "f"}],
    "tool_choice": "required",
    "function_call": {"name": "f"},
    "response_format": {"type": "json_object"},
    "modalities": ["text", "audio"],
    "logprobs": True,
    "top_logprobs": 5,
    "audio": {"voice": "x"},
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {},
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_asks_for_more_than_one_text_is_refused_by_name(name: str) -> None:
    found = refusal(json.dumps(body(**{name: BEYOND_TEXT[name]})).encode())
    assert found.status == 400 and found.message.startswith(f"{name} is not supported here")


@pytest.mark.parametrize(
    "name, value",
    [
        ("n", 1),
        ("tools", []),
        ("functions", []),
        ("tool_choice", "none"),
        ("tool_choice", "auto"),
        ("function_call", "auto"),
        ("response_format", {"type": "text"}),
        ("modalities", ["text"]),
        ("logprobs", False),
        ("top_logprobs", 0),
        *((name, None) for name in PLAIN),
    ],
)
def test_the_same_fields_are_welcome_where_they_ask_for_one_text(name: str, value: Any) -> None:
    assert read(**{name: value}).turns == (USER,)


BAD_MESSAGES: list[Any] = [
    None,
    [],
    "text",
    {"role": "user"},
    ["text"],
    [USER, None],
    [{"role": "user"}],
    [{"content": "x"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": 1}],
    [{"role": "user", "content": {"type": "text", "text": "x"}}],
    [{"role": "user", "content": [IMAGE]}],
    [{"role": "user", "content": [{"type": "text", "text": "x"}, IMAGE]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "text", "text": 1}]}],
    [{"role": "user", "content": ["x"]}],
    [{"role": "user", "content": [{"type": "input_audio", "text": "x"}]}],
    [{"role": "tool", "content": "x"}, USER],
    [{"role": "USER", "content": "x"}],
    [{"role": ["user"], "content": "x"}],
    [{"role": {}, "content": "x"}],
    [{"role": "system", "content": "x"}],
    [USER, {"role": "assistant", "content": "x"}],
    [USER, {"role": "system", "content": "x"}],
    [USER, {"role": "assistant", "content": None, "tool_calls": []}, USER],
]


@pytest.mark.parametrize("given", BAD_MESSAGES, ids=lambda given: json.dumps(given)[:60])
def test_conversations_that_are_not_texts_ending_with_the_user_are_refused(given: Any) -> None:
    found = refusal(json.dumps(body(messages=given)).encode())
    assert (found.status, found.code) == (400, "invalid_request")


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
@pytest.mark.parametrize(
    "written", [b'"a\\ud800b"', b'"a\xed\xa0\x80b"', b'[{"type":"text","text":"\\udfff"}]']
)
def test_half_a_character_is_refused_since_no_model_reads_it(role: str, written: bytes) -> None:
    first = b'{"role":"%s","content":%s}' % (role.encode(), written)
    found = refusal(b'{"model":"served","messages":[%s,{"role":"user","content":"x"}]}' % first)
    assert found.status == 400 and "Unicode" in found.message


def test_whole_characters_beyond_the_first_plane_are_read() -> None:
    data = rb'{"model":"served","messages":[{"role":"user","content":"\ud83d\ude00"}]}'
    assert read_request(data, SERVED).turns[0]["content"] == "😀"


@pytest.mark.parametrize(
    "fields", [{"stream": "yes"}, {"stream": 1}, {"stream": True, "stream_options": "usage"}]
)
def test_stream_settings_of_another_type_are_refused(fields: dict[str, Any]) -> None:
    assert "stream" in refusal(json.dumps(body(**fields)).encode()).message


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, (False, False)),
        ({"stream": None, "stream_options": None}, (False, False)),
        ({"stream": True}, (True, False)),
        ({"stream": True, "stream_options": {}}, (True, False)),
        ({"stream": True, "stream_options": {"include_usage": True}}, (True, True)),
        ({"stream": True, "stream_options": {"include_usage": 1}}, (True, False)),
    ],
)
def test_stream_settings_are_read(fields: dict[str, Any], expected: tuple[bool, bool]) -> None:
    request = read(**fields)
    assert (request.stream, request.include_usage) == expected


def test_every_refusal_has_the_form_of_the_api() -> None:
    assert refusal(b"[]").body() == {
        "error": {
            "message": "the body is not a JSON object; send one with model and messages",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_request",
        }
    }
    assert Refusal(502, "x", "y").body()["error"]["type"] == "api_error"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("question", [QUESTION, " \n x\t", "", "naïve 😀\r\n\0", "{question} %s <answer>"])
def test_the_local_model_is_asked_as_in_calibration_byte_for_byte(name: str, question: str) -> None:
    request = read(messages=[{"role": "user", "content": question}])
    asked = request.for_local("m", FORMATS[name], policy(format=name))
    assert asked["model"] == "m"
    assert asked["messages"] == messages(question, FORMATS[name])


def test_a_clients_instructions_follow_those_of_the_format() -> None:
    request = read(
        messages=[
            {"role": "system", "content": "Be brief."},
            {
                "role": "developer",
                "content": [{"type": "text", "text": "In "}, {"type": "text", "text": "French."}],
            },
            USER,
        ]
    )
    system, question = asked_of_local(request)["messages"]
    assert system == {"role": "system", "content": f"{PROBABILITY.system_prompt}\n\nBe brief.\n\nIn French."}
    assert question == messages(QUESTION, PROBABILITY)[1]


def test_a_conversation_stays_as_it_is_and_only_its_last_question_is_framed() -> None:
    before = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    asked = asked_of_local(read(messages=[*before, USER]))
    system, question = messages(QUESTION, PROBABILITY)
    assert asked["messages"] == [system, *before, question]


def test_instructions_in_the_middle_of_a_conversation_move_to_the_front() -> None:
    before = {"role": "user", "content": "Hello"}
    asked = asked_of_local(read(messages=[before, {"role": "system", "content": "Be brief."}, USER]))
    assert [turn["role"] for turn in asked["messages"]] == ["system", "user", "user"]
    assert asked["messages"][0]["content"].endswith("\n\nBe brief.")


def test_text_parts_are_one_text() -> None:
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "57*77?", "cache_control": {}}]
    request = read(messages=[{"role": "user", "content": parts, "name": "Ada"}])
    assert asked_of_local(request)["messages"] == messages(QUESTION, PROBABILITY)


SAMPLED = {
    "temperature": 0.3,
    "top_p": 0.8,
    "max_tokens": 9,
    "max_completion_tokens": 10,
    "seed": 5,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
}


def test_only_sampling_goes_on_to_the_local_model() -> None:
    others = {
        "stop": ["</think>"],
        "logit_bias": {"5": 100},
        "user": "ada",
        "stream": True,
        "guided_regex": "x",
    }
    assert set(asked_of_local(read(**SAMPLED, **others))) == {"model", "messages", *SAMPLED}
    assert SAMPLED.items() <= asked_of_local(read(**SAMPLED)).items()
    assert set(asked_of_local(read(**dict.fromkeys(SAMPLED)))) == {"model", "messages"}


def test_the_server_is_asked_for_the_chat_template_of_calibration() -> None:
    asked = asked_of_local(
        read(chat_template_kwargs={"enable_thinking": True}), template={"enable_thinking": False}
    )
    assert asked["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in asked_of_local(read(chat_template_kwargs={"enable_thinking": True}))


def test_a_policy_that_knows_its_sampling_overrules_all_but_the_seed() -> None:
    fixed = {"temperature": 1.0, "top_p": 0.9, "max_tokens": 64}
    asked = asked_of_local(read(**SAMPLED), sampling={**fixed, "stop": ("</s>",)})
    assert {name: asked[name] for name in asked.keys() - {"model", "messages"}} == {
        **fixed,
        "stop": ["</s>"],
        "seed": 5,
    }
    without = asked_of_local(read(temperature=0.3), sampling=fixed)
    assert without.keys() == {"model", "messages", *fixed}, "no empty list of stops, no seed"


def test_the_strong_model_gets_what_the_client_sent_but_for_the_models_name() -> None:
    sent = body(
        **SAMPLED, stream=True, stop=["x"], unknown={"deep": [1, None]}, messages=[{**USER, "name": "Ada"}]
    )
    request = read_request(json.dumps(sent).encode(), SERVED)
    assert request.for_strong("big") == {**sent, "model": "big"}


def test_of_a_key_given_twice_the_last_one_is_checked_and_sent() -> None:
    data = (
        b'{"model":"evil","n":2,"model":"served","n":1,"messages":[],"messages":%s}'
        % json.dumps([USER]).encode()
    )
    request = read_request(data, SERVED)
    assert request.for_strong("big") == {"model": "big", "n": 1, "messages": [USER]}
    assert refusal(b'{"model":"served","model":"evil","messages":[]}').status == 404


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]) | ANYTHING, "content": st.text() | ANYTHING}
    )
    | ANYTHING,
    max_size=3,
)
FIELDS = st.dictionaries(
    st.sampled_from([*PLAIN, *SAMPLED, "stream", "stream_options", "messages", "model"]), ANYTHING, max_size=4
)


@given(FIELDS, MESSAGES)
def test_any_json_is_a_request_or_a_refusal(fields: dict[str, Any], said: list[Any]) -> None:
    try:
        request = read_request(json.dumps({"model": SERVED, "messages": said, **fields}).encode(), SERVED)
    except Refusal:
        return
    json.dumps(asked_of_local(request), allow_nan=False, ensure_ascii=False).encode()


@given(st.binary(max_size=40))
def test_any_bytes_are_a_refusal(data: bytes) -> None:
    assert refusal(data).status in (400, 404)
