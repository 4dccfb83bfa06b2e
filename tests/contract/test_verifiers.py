"""The environment in a real `verifiers`: rollouts against a scripted model, rewarded as this package rewards."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from calibsft.errors import InputError
from calibsft.responses.formats import get_format, messages
from calibsft.rl.reward_functions import trl_reward
from scripted_server import Asked, Scripted, Sent, says

pytest.importorskip("verifiers.v1", reason="scripts/plugins-env makes an environment with it")

import verifiers.v1 as vf
from verifiers.v1.env import RunSlot
from verifiers.v1.utils.loaders import load_environment, taskset_class

from calibsft.integrations.verifiers import registered

NAME = "calibsft-verifiers"
# The question's number, what the model answers to it, and how sure it says it is.
SAID = {2: ("14", "0.90"), 3: ("20", "0.80"), 4: ("28", "none")}


def written(answer: str, confidence: str) -> str:
    return f"<think>so</think> <answer>{answer}</answer> <confidence>{confidence}</confidence>"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    rows = [{"question_id": f"q{i}", "question": f"What is {i}*7?", "gold": 7 * i} for i in SAID]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answer(asked: Asked) -> Sent:
    number = int(asked.body["messages"][-1]["content"].split("What is ")[1].split("*")[0])
    return says(written(*SAID[number]))


async def run(environment: vf.Env[Any], url: str) -> list[vf.Trace]:
    client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY_IS_NEEDED")
    context = vf.ModelContext(client=client, model="scripted")

    async def done(episode: vf.Episode) -> None:
        pass

    async with environment.serving():
        slots = [RunSlot(task) for task in environment.taskset]
        episodes = [await environment.run_slot(slot, context, None, done) for slot in slots]
    return [episode.traces[0] for episode in episodes]


@pytest.mark.parametrize("method", ["rlcr", "rlvr"])
def test_rollouts_are_asked_and_rewarded_as_in_this_package(
    own: Path, local_server: Scripted, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_KEY_IS_NEEDED", "none")
    local_server.reset(answer)
    taskset = {"id": NAME, "questions": str(own), "task": {"method": method}}
    narrowed = taskset_class(NAME)
    environment = load_environment(
        vf.SingleAgentEnvConfig(
            taskset=narrowed_config(narrowed).model_validate(taskset),
            agent=vf.AgentConfig(
                harness=vf.HarnessConfig(id="scripted-harness"), runtime=vf.SubprocessConfig()
            ),
        )
    )
    traces = asyncio.run(run(environment, local_server.url))
    assert not [trace.errors for trace in traces if trace.errors]
    asked = {body["messages"][-1]["content"]: body["messages"] for body in local_server.bodies}
    for number in SAID:
        turns = messages(f"What is {number}*7?", get_format("probability"))
        assert asked[turns[-1]["content"]] == turns
    texts = [written(*said) for said in SAID.values()]
    expected = trl_reward(method)([""] * 3, texts, gold=[str(7 * number) for number in SAID])
    assert [trace.reward for trace in traces] == pytest.approx(expected)
    assert [trace.metrics["correct"] for trace in traces] == [1.0, 0.0, 1.0]
    assert [trace.metrics["well_formed"] for trace in traces] == [1.0, 1.0, 0.0]


def narrowed_config(taskset: type[vf.Taskset[Any, Any]]) -> type[vf.TasksetConfig]:
    from verifiers.v1.utils.generic import concrete_type

    return concrete_type(taskset, vf.TasksetConfig, origin=vf.Taskset)


@pytest.mark.parametrize("method", ["coca", "c3rl", ""])
def test_methods_with_more_than_one_number_are_refused(own: Path, method: str) -> None:
    taskset = taskset_class(NAME)
    config = narrowed_config(taskset).model_validate(
        {"id": NAME, "questions": str(own), "task": {"method": method}}
    )
    with pytest.raises(InputError, match=r"set task\.method to rl.. or rl.."):
        taskset(config).load()


def test_verifiers_finds_the_environment() -> None:
    assert NAME in registered()
