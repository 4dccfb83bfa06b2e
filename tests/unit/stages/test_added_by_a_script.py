"""What a user's script puts in a dict - a method, a target, an engine - can be named at once, without a file of the package."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import Field

from calibsft.engines import ENGINES
from calibsft.engines.settings import EngineSettings
from calibsft.errors import InputError
from calibsft.rl.methods import METHODS
from calibsft.settings import Settings
from calibsft.stages import STAGES
from calibsft.targets import TARGETS
from calibsft.targets.settings import TargetSettings

RL: dict[str, Any] = {"model": "m", "data": "q.jsonl", "method": "mine"}
BUILD: dict[str, Any] = {"source": "pool.jsonl", "target": "mine"}
ROLLOUT: dict[str, Any] = {"model": "m", "questions": "q.jsonl", "engine": {"name": "mine", "own": 2}}


class MineTarget(TargetSettings):
    name: Literal["mine"] = "mine"
    own: int = Field(1, ge=1)


class MineEngine(EngineSettings):
    name: Literal["mine"] = "mine"
    own: int = Field(1, ge=1)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    class MineMethod(METHODS["rlcr"].settings):  # type: ignore[misc, name-defined]
        name: Literal["mine"] = "mine"
        own: int = Field(1, ge=1)

    monkeypatch.setitem(METHODS, "mine", replace(METHODS["rlcr"], name="mine", settings=MineMethod))
    monkeypatch.setitem(TARGETS, "mine", replace(TARGETS["csft"], name="mine", settings=MineTarget))
    monkeypatch.setitem(ENGINES, "mine", replace(ENGINES["scripted"], settings=MineEngine))


def section(stage: str, given: dict[str, Any], name: str) -> Settings:
    found: Settings = getattr(STAGES[stage].of(given), name)
    return found


@pytest.mark.parametrize(
    "section_of",
    [
        lambda: section("rl", {**RL, "own": 2}, "rl"),
        lambda: section("build", {**BUILD, "own": 2}, "targets"),
        lambda: section("rollout", ROLLOUT, "engine"),
    ],
)
def test_its_settings_are_its_own(added: None, section_of: Callable[[], Settings]) -> None:
    found = section_of()
    assert found.model_dump(mode="json").items() >= {"name": "mine", "own": 2}.items()


def test_its_settings_are_part_of_what_identifies_a_stage(added: None) -> None:
    assert STAGES["rl"].of({**RL, "own": 3}).shaped_by()["rl"]["own"] == 3


def test_it_is_refused_like_any_other(added: None) -> None:
    with pytest.raises(InputError, match=r"rl\.own = 0: input should be greater than or equal to 1"):
        STAGES["rl"].of({**RL, "own": 0})
    with pytest.raises(InputError, match=r"rl\.own means nothing here, it is for mine; leave it out"):
        STAGES["rl"].of({**RL, "method": "rlvr", "own": 2})
    with pytest.raises(InputError, match="unknown target 'mien'; did you mean 'mine'"):
        STAGES["build"].of({**BUILD, "target": "mien"})


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(InputError, match="unknown method 'mine'"):
        STAGES["rl"].of(RL)
