"""Token probabilities from a served copy of the model, over real sockets: the same figures, and what is refused."""

import math
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from calibsft.engines.next_tokens import ESTIMATOR, ServedProbabilities
from calibsft.errors import InputError
from calibsft.served.fleet import Fleet
from command import Command
from hub_cache import OLD, HubCache
from judge_server import KEY, Server, refused

Answer = Callable[[dict[str, Any]], tuple[int, Any]]

EVAL = (
    "eval", "--benchmarks", "cross,multiply-1", "--limit", 4, "-n", 3, "--device", "cpu", "--max-new-tokens", 30,
    "--temperature", 1, "--estimators", "token-probability",
)  # fmt: skip
PROMPTS = [(9, 16, 17, 30), (9, 18), (9, 16, 17, 30)]


def completion(top: Any) -> dict[str, Any]:
    logprobs = {"tokens": ["0"], "token_logprobs": [-1.0], "top_logprobs": [top], "text_offset": [0]}
    choice = {"index": 0, "text": "0", "finish_reason": "length", "logprobs": logprobs}
    return {"id": "1", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}


def served(checkpoint: Path, left_out: list[float]) -> Answer:
    """Answers as vLLM does, from a real checkpoint: the most probable tokens after the ids of the prompt.

    What the other tokens weigh is put into `left_out`.
    """
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(checkpoint)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(checkpoint)
    turn = threading.Lock()

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        with turn, torch.no_grad():
            logprobs = model(torch.tensor([body["prompt"]])).logits[0, -1].log_softmax(-1)
        values, ids = logprobs.topk(body["logprobs"])
        left_out.append(1 - values.exp().sum().item())
        words = [tokenizer.decode([i]) for i in ids.tolist()]
        return 200, completion(dict(zip(words, values.tolist(), strict=True)))

    return answer


@pytest.fixture
def completions(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("CALIBSFT_ESTIMATOR_API_KEY", KEY)
    server.path = "/v1/completions"
    server.answer = lambda body: (200, completion({"0": -0.1, "x": -3.0}))
    return server


@pytest.fixture
def asked(completions: Server, random_checkpoint: Path) -> Callable[..., Any]:
    """What a served model gives for the digits 0 and 1."""
    tokenizer = AutoTokenizer.from_pretrained(random_checkpoint)

    def ask(prompts: list[tuple[int, ...]] = PROMPTS, **options: Any) -> Any:
        options = {"retries": 0, "timeout": 10.0, **options}
        fleet = Fleet(ESTIMATOR, (completions.url,), "m", 8, options["timeout"], options["retries"])
        model = ServedProbabilities(fleet, tokenizer)
        return model.next_logprobs(prompts, tokenizer.convert_tokens_to_ids(["0", "1"]))

    return ask


def test_the_served_copy_gives_the_figures_of_the_loaded_model(
    calibsft: Command, completions: Server, short_base: Path
) -> None:
    assert calibsft(*EVAL, "--model", short_base, "--out", "loaded")[0] == 0
    left_out: list[float] = []
    completions.answer = served(short_base, left_out)
    code, out, err = calibsft(
        *EVAL, "--model", short_base, "--out", "served", "--estimator-url", completions.url
    )
    assert code == 0 and "token-probability" in out, err
    loaded, ours = (
        pl.read_parquet(f"{run}/estimators/token-probability.parquet") for run in ("loaded", "served")
    )
    assert loaded["confidence"].is_not_null().sum() > 12 and loaded["confidence"].n_unique() > 3
    assert loaded.drop("confidence").equals(ours.drop("confidence"))
    # A digit that is not among the tokens sent counts as impossible: it weighs no more than all that were not sent.
    unknown = max(left_out)
    assert unknown < 0.01, "or the comparison would say little"
    assert ours["confidence"].to_numpy() == pytest.approx(
        loaded["confidence"].to_numpy(), abs=unknown + 1e-6, nan_ok=True
    )
    assert {body["model"] for body in completions.bodies} == {str(short_base)}


def test_a_pinned_model_is_asked_for_by_its_name_alone(
    calibsft: Command, completions: Server, short_base: Path, hub_cache: HubCache
) -> None:
    hub_cache.add_model("org/model", OLD, short_base, "v1")
    command = (*EVAL, "--model", "org/model@v1", "--out", "e", "--estimator-url", completions.url)
    code, _, err = calibsft(*command)
    assert code == 0, err
    assert {body["model"] for body in completions.bodies} == {"org/model"}


def test_one_token_with_its_rivals_is_asked_for_once_per_prompt(
    completions: Server, asked: Callable[..., Any]
) -> None:
    found = asked()
    assert found.shape == (3, 2) and np.array_equal(found[0], found[2])
    assert sorted(body["prompt"] for body in completions.bodies) == [[9, 16, 17, 30], [9, 18]]
    for body in completions.bodies:
        assert (body["model"], body["max_tokens"], body["temperature"], body["logprobs"]) == ("m", 1, 1, 20)
    assert set(completions.keys) == {f"Bearer {KEY}"}


def test_a_digit_that_is_not_named_has_probability_zero(asked: Callable[..., Any]) -> None:
    assert asked()[:, 0].tolist() == pytest.approx([-0.1] * 3)
    assert asked()[:, 1].tolist() == [-math.inf] * 3


def test_one_refused_prompt_costs_its_own_probabilities_only(
    completions: Server, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, refused("too long")) if len(body["prompt"]) > 2 else (200, completion({"0": -0.1}))

    completions.answer = answer
    assert np.isfinite(asked()).any(axis=1).tolist() == [False, True, False]
    assert "refused 1 of 2 prompts" in capsys.readouterr().err


NO_LOGPROBS = {**completion({}), "choices": [{"index": 0, "text": "0", "finish_reason": "length"}]}


@pytest.mark.parametrize(
    "status, reply, sentence",
    [
        (400, refused("prompt must be text\x1b[31m"), r"refuses .*\(400: prompt must be text .*must take token ids"),
        (401, refused(f"bad key {KEY}"), r"refuses the API key \(401\); set the right one in CALIBSFT_ESTIMATOR_API_KEY"),
        (404, refused("The model `m` does not exist."), r"no completions of a model 'm' .*correct eval.estimator_model"),
        (429, refused("slow down"), r"wants fewer requests \(429: slow down\); run again later"),
        (500, {}, r"fails \(500\)"),
        (200, b"<html>", r"does not reply with completions; correct eval.estimator_url"),
        (200, {"choices": {"0": 1}}, r"does not reply with completions"),
        (200, NO_LOGPROBS, r"gives no log-probabilities; serve it with vLLM or SGLang, or leave out"),
        (200, completion(None), r"gives no log-probabilities"),
        (200, completion({"0": "high"}), r"gives no log-probabilities"),
        (200, completion({"0": math.nan}), r"gives no log-probabilities"),
        (200, completion({"0": math.inf}), r"gives no log-probabilities"),
        (200, completion([-1.0]), r"gives no log-probabilities"),
    ],
)  # fmt: skip
def test_a_server_that_fails_is_explained_in_one_sentence(
    completions: Server, asked: Callable[..., Any], status: int, reply: Any, sentence: str
) -> None:
    completions.answer = lambda body: (status, reply)
    with pytest.raises(InputError, match=sentence) as caught:
        asked()
    said = str(caught.value)
    assert completions.url in said and "\n" not in said and "\x1b" not in said
    assert KEY[:8] not in "".join(traceback.format_exception(caught.value)), "nor in what --debug prints"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", None])
def test_a_server_that_cannot_help_is_noticed_before_anything_is_sampled(
    calibsft: Command, completions: Server, short_base: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    completions.answer = lambda body: (200, NO_LOGPROBS)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.0)
    code, out, err = calibsft(
        *EVAL, "--model", short_base, "--out", "e", "--estimator-url", url or completions.url
    )
    assert code == 2 and not out and err.count("\n") == 1, err
    assert "cannot be reached" in err if url else "gives no log-probabilities" in err
    assert not list(Path("e").rglob("*.parquet"))


def test_a_server_that_ends_halfway_leaves_what_it_gave_and_is_asked_for_the_rest(
    calibsft: Command, completions: Server, short_base: Path
) -> None:
    real, arguments = served(short_base, []), (*EVAL, "--model", short_base, "--out", "e")

    def ending(body: dict[str, Any]) -> tuple[int, Any]:
        return real(body) if len(completions.bodies) < 150 else (401, refused("gone"))

    completions.answer = ending
    many = ("--limit", 120, "-n", 1, "--estimator-url", completions.url)
    code, _, err = calibsft(*arguments, *many)
    assert code == 2 and "refuses the API key" in err
    kept = list(Path("e/estimators/digits").glob("part-*"))
    completions.answer, before = real, len(completions.bodies)
    code, _, err = calibsft(*arguments, *many)
    assert code == 0 and kept, err
    already = sum(len(pl.read_parquet(part)) for part in kept)
    wanted = len(pl.read_parquet("e/estimators/digits/part-*.parquet"))
    assert 0 < already < wanted
    assert len(completions.bodies) - before <= 1 + wanted - already, "one more is asked for at the start"
