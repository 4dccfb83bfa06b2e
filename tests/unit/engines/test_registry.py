"""Engines as a room: what is listed, and what settings offer."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.engines import ENGINES, default_engine, require_trainable
from calibsft.errors import InputError
from calibsft.pipeline import load_checked
from calibsft.recipe import load_recipe
from command import Command


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_listed_under_the_name_that_its_settings_have(name: str) -> None:
    assert ENGINES[name].settings.model_fields["name"].default == name


@pytest.mark.parametrize(
    "override, told",
    [
        ("engine.name=scriptd", "unknown engine 'scriptd'; did you mean 'scripted'?"),
        ("engine.responses=r.csv", "engine.responses means nothing here, it is for scripted; leave it out"),
        ("engine.max_row=3", "unknown key 'engine.max_row'; did you mean 'engine.max_rows'?"),
        ("engine.max_rows=0", "engine.max_rows = 0: input should be greater than or equal to 1"),
        ("engine={name: scripted}", "engine.responses is missing; add it"),
        (
            "engine={name: scripted, responses: r.csv}",
            "the engine 'scripted' cannot sample from a model in training, and RL needs one that can; set engine.name to"
            " transformers",
        ),
    ],
)
def test_a_recipe_with_an_engine_that_cannot_be_is_refused(override: str, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        load_checked("tiny", [override])


def test_an_engine_brings_its_own_settings_and_what_decides_its_words(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    engine = f"engine={{name: scripted, responses: {path}}}"
    settings = load_recipe("tiny", ["pipelines=[[calibsft]]", engine]).engine
    assert settings.model_dump(mode="json") == {"name": "scripted", "responses": str(path)}
    path.write_text("question,response\n1*1,1\n")
    before = settings.inputs()
    path.write_text("question,response\n1*1,2\n")
    assert settings.inputs().keys() == before.keys() and settings.inputs() != before
    assert load_recipe("tiny").engine.inputs() == {}


def test_a_stage_goes_on_with_another_number_of_rows(calibsft: Command, random_checkpoint: Path) -> None:
    rollout = (
        "rollout", "--model", random_checkpoint, "--benchmark", "cross", "--limit", 2, "-n", 3, "--out", "r",
        "--max-new-tokens", 8, "--device", "cpu", "--shard-questions", 1,
    )  # fmt: skip
    assert calibsft(*rollout, "--max-rows", 6)[0] == 0
    before = pl.read_parquet("r/part-00000.parquet", columns=["response"])
    Path("r/part-00000.parquet").unlink()
    Path("r/manifest.json").unlink()
    code, _, err = calibsft(*rollout, "--max-rows", 1)
    assert code == 0 and pl.read_parquet("r/part-00000.parquet", columns=["response"]).equals(before), err
    code, _, err = calibsft(*rollout, "--max-rows", 0)
    assert code == 2 and "engine.max_rows = 0: input should be greater than or equal to 1" in err


def start_rl(folder: Path, engine: Any = None, **settings: Any) -> None:
    """Start RL of a model that is not there: what is refused, is refused before it is looked for."""
    from calibsft.responses.formats import get_format
    from calibsft.responses.prompts import Prompting
    from calibsft.rl.methods import get_method
    from calibsft.rl.train import train_policy

    method = get_method("rlcr").settings(**settings)
    train_policy(
        "no such model", [], {}, method, Prompting(get_format("probability")), 0, folder, engine=engine
    )


def test_rl_refuses_an_engine_that_cannot_follow_a_training(tmp_path: Path) -> None:
    require_trainable(default_engine())
    engine = ENGINES["scripted"].settings(responses=tmp_path / "r.csv")
    with pytest.raises(InputError, match=r"'scripted' cannot sample from a model in training"):
        start_rl(tmp_path, engine)


def test_rl_with_a_served_policy_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rl\.servers\.urls"):
        start_rl(tmp_path, policy="served")
