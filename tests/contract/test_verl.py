"""The plug-in against a real verl on a CPU: found by its entry point, and all its numbers those of this package.

verl lives in an environment of its own (`scripts/verl-env`); without it these tests are skipped. Its RL needs GPUs; here its
parts do their work one by one. Its SFT trains.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibsft.integrations.trainings import find_training
from calibsft.integrations.verl.advantages import update_numbers
from calibsft.integrations.verl.export import export_stage
from calibsft.integrations.verl.record import ResponseRecord
from calibsft.models import load_tokenizer
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from calibsft.stages.sft import SftStage
from sampled_run import QUESTIONS, response, sample_run, write_recipe
from verl_groups import Graded, expected_rows, random_responses

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
OTHER = Path(os.environ.get("CALIBSFT_VERL_PYTHON", ROOT / ".venv-verl/bin/python"))
FOUND = "FOUND "
ENVIRONMENT = os.environ | {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_MODE": "disabled",
    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests/support'}",
}
# For SFT: one process of a launcher, on a CPU instead of a GPU, with the engine that verl has for those.
ON_CPU = {
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not OTHER.is_file():
        pytest.skip(
            "make verl's environment with scripts/verl-env, or name its python in CALIBSFT_VERL_PYTHON"
        )
    return tmp_path_factory.mktemp("verl")


@pytest.fixture(scope="module")
def recipe(folder: Path, random_checkpoint: Path) -> Path:
    """A recipe whose run in `folder/run` has everything before its trainings."""
    path = write_recipe(folder, random_checkpoint)
    sample_run(path, folder / "run")
    return path


@pytest.fixture(scope="module")
def ask(folder: Path) -> Ask:
    """Asks a process in verl's environment."""

    def run(what: str, given: dict[str, Any], **environment: str) -> dict[str, Any]:
        (folder / f"{what}.json").write_text(json.dumps(given))
        command = [OTHER, ROOT / "tests/support/verl_process.py", what, folder / f"{what}.json"]
        done = subprocess.run(
            command, env=ENVIRONMENT | environment, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        (line,) = (line for line in done.stdout.splitlines() if line.startswith(FOUND))
        found: dict[str, Any] = json.loads(line.removeprefix(FOUND))
        return found

    return run


@pytest.fixture(scope="module")
def exports(folder: Path, recipe: Path, random_checkpoint: Path) -> dict[str, str]:
    """The folder of every method's export."""
    found = {}
    for method in METHODS:
        training = find_training(str(recipe), method, folder / "run", str(random_checkpoint), [])
        export_stage(training.stage, training.name, folder / method)
        found[method] = str(folder / method)
    return found


def test_the_doctor_finds_the_plug_in_in_verls_registries(folder: Path) -> None:
    command = [OTHER, "-m", "calibsft", "doctor", "--json"]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=folder, capture_output=True, text=True, check=False)
    (found,) = (row for row in json.loads(done.stdout) if row["name"] == "verl")
    assert found["state"] == "ok" and "calibsft_sync" in found["detail"], found


RIGHT, WRONG = response("84", "0.90"), response("1", "0.90")
HOSTILE = [response("9**9**9**9", "0.90"), response("." * 300, "0.90"), "</answer>" * 40]


@pytest.fixture(scope="module")
def seen(ask: Ask, exports: dict[str, str], random_checkpoint: Path) -> dict[str, Any]:
    """What verl's registries, config, dataset and reward manager say about all exports."""
    tokenizer = load_tokenizer(str(random_checkpoint))
    texts = [RIGHT, WRONG, *HOSTILE]
    ids = [
        tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] for text in texts
    ]
    return ask("rl", {"folders": list(exports.values()), "responses": ids})


def test_verl_finds_trainer_and_reward_manager_by_the_entry_point(seen: dict[str, Any]) -> None:
    assert seen["trainer"] == "calibsft.integrations.verl.trainer"
    assert seen["reward_manager"] == "calibsft.integrations.verl.reward_manager"


@pytest.mark.parametrize("method", METHODS)
def test_the_exported_config_composes_and_is_valid(
    seen: dict[str, Any], exports: dict[str, str], method: str
) -> None:
    found = seen["exports"][exports[method]]
    assert found["critic"] is False
    assert found["reference"] == (METHODS[method].settings().kl > 0)
    assert found["mini_batch"] == 2


@pytest.mark.parametrize("method", METHODS)
def test_verls_own_dataset_asks_what_calibsft_asks(
    seen: dict[str, Any], exports: dict[str, str], random_checkpoint: Path, method: str
) -> None:
    found = seen["exports"][exports[method]]
    assert found["dataset"] == "RLHFDataset"
    tokenizer = load_tokenizer(str(random_checkpoint))
    prompting = Prompting(get_format((METHODS[method].formats or ("probability",))[0]))
    assert found["prompts"] == {text: list(prompting.ids(tokenizer, text)) for text in QUESTIONS}


def test_the_reward_manager_grades_and_outlives_hostile_responses(
    seen: dict[str, Any], exports: dict[str, str]
) -> None:
    for method, folder in exports.items():
        found = seen["exports"][folder]["scores"]
        in_digits = METHODS[method].formats == ("integer",)
        assert [score["reward_score"] for score in found] == [float(not in_digits), 0, 0, 0, 0]
        assert [score["reward_extra_info"]["correct"] for score in found] == [
            float(not in_digits),
            0,
            0,
            0,
            0,
        ]
        record = ResponseRecord.read(found[0]["reward_extra_info"])
        assert record.correct and record.success_rate == 0.5


def cases(exports: dict[str, str]) -> dict[str, list[Graded]]:
    """Random groups for every method; the last response is missing, as after a failed generation."""
    return {method: random_responses(method, seed, 4, 4)[:-1] for seed, method in enumerate(exports)}


def keys_of(responses: list[Graded]) -> list[str]:
    return [f"{question}_{number}_0" for number, (question, _, _) in enumerate(responses)]


@pytest.fixture(scope="module")
def trained(ask: Ask, exports: dict[str, str]) -> dict[str, Any]:
    """What verl's trainer writes for the tokens of random groups, for every method."""
    given = []
    for method, responses in cases(exports).items():
        rows = [
            {"key": key, "tokens": tokens, "extra_info": record.extra_info()}
            for key, (_, tokens, record) in zip(keys_of(responses), responses, strict=True)
        ]
        given.append({"folder": exports[method], "rows": rows})
    return ask("advantages", {"cases": given})


@pytest.mark.parametrize("method", METHODS)
def test_verls_trainer_places_the_numbers_of_segment_advantages(
    trained: dict[str, Any], exports: dict[str, str], method: str
) -> None:
    responses = cases(exports)[method]
    found = dict(trained[exports[method]]["advantages"])
    wanted = expected_rows(method, responses)
    assert any(np.any(expected_T) for expected_T in wanted)
    for key, expected_T in zip(keys_of(responses), wanted, strict=True):
        np.testing.assert_allclose(found.pop(key), expected_T, atol=1e-6)
    assert found and all(not np.any(padding) for padding in found.values())


@pytest.mark.parametrize("method", METHODS)
def test_verl_drops_the_groups_that_calibsft_would_drop(
    trained: dict[str, Any], exports: dict[str, str], method: str
) -> None:
    counted: dict[str, set[bool]] = {}
    for question, _, record in cases(exports)[method]:
        counted.setdefault(question, set()).add(record.counted)
    unanimous = sorted(question for question, found in counted.items() if len(found) == 1)
    assert unanimous
    assert trained[exports[method]]["dropped"] == (unanimous if METHODS[method].dynamic_sampling else [])


def test_verl_shares_rows_among_updates_as_segment_weights_expect(
    trained: dict[str, Any], exports: dict[str, str]
) -> None:
    found = trained[exports["coca"]]
    keys = list(found["advantages"])
    numbers = update_numbers(len(keys), 2, 8)
    assert found["updates"] == [
        [key for key, number in zip(keys, numbers, strict=True) if number == update] for update in (0, 1)
    ]


def test_verls_sft_trainer_has_the_losses_of_calibsft_sft(
    ask: Ask, folder: Path, recipe: Path, random_checkpoint: Path
) -> None:
    training = find_training(str(recipe), "calibsft", folder / "run", None, [])
    assert isinstance(training.stage, SftStage)
    export_stage(training.stage, training.name, folder / "sft-export")
    given = {"folder": str(folder / "sft-export"), "checkpoints": str(folder / "checkpoints")}
    found = ask("sft", given, **ON_CPU)["losses"]
    training.stage.perform(folder / "sft", "sft")
    lines = (folder / "sft/metrics.jsonl").read_text().splitlines()
    np.testing.assert_allclose(found, [json.loads(line)["loss"] for line in lines], rtol=1e-4)
    assert (folder / "checkpoints/global_step_3/huggingface/model.safetensors").is_file()
