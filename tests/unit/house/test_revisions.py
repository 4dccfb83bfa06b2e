"""A model on the Hub can be pinned, `org/name@revision`, and the commit that was loaded is recorded."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from calibsft.artifacts import model_inputs
from calibsft.errors import InputError
from calibsft.hub import name_and_revision, recording_commits
from calibsft.models import load_encoder, load_model, load_tokenizer
from command import Command
from hub_cache import NEW, OLD, HubCache


@pytest.fixture
def downloaded(hub_cache: HubCache, random_checkpoint: Path, tmp_path: Path) -> HubCache:
    """Two revisions of a model: the tag v1 is the old one, main the new one."""
    from calibsft.playground.base import build_model
    from calibsft.playground.tokenizer import build_tokenizer

    torch.manual_seed(1)
    newer = Path(shutil.copytree(random_checkpoint, tmp_path / "newer"))
    build_model(build_tokenizer()).save_pretrained(newer)
    hub_cache.add_model("org/model", OLD, random_checkpoint, "v1", "refs/pr/1")
    hub_cache.add_model("org/model", NEW, newer, "main")
    return hub_cache


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("org/model", ("org/model", None)),
        ("org/model@v1.0", ("org/model", "v1.0")),
        ("model@0123abc", ("model", "0123abc")),
        ("org/model@refs/pr/3", ("org/model", "refs/pr/3")),
        ("org/model@", ("org/model@", None)),
        ("a/b/c@d", ("a/b/c@d", None)),
        ("/abs/model@v1", ("/abs/model@v1", None)),
        ("here@v1", ("here@v1", None)),
        ("org/here@v1/model", ("org/here@v1/model", None)),
    ],
)
def test_what_follows_an_at_sign_is_a_revision_unless_the_path_exists(
    model: str, found: tuple[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("here@v1", "org/here@v1/model"):
        Path(folder).mkdir(parents=True)
    assert name_and_revision(model) == found


@pytest.mark.parametrize("pinned", [f"org/model@{OLD}", "org/model@v1", "org/model@refs/pr/1"])
def test_model_encoder_and_tokenizer_are_those_of_the_pinned_revision(
    downloaded: HubCache, random_checkpoint: Path, pinned: str
) -> None:
    with recording_commits() as commits:
        model, (encoder, _) = load_model(pinned, "cpu"), load_encoder(pinned, "cpu")
        newest = load_model("org/model", "cpu")
    assert commits == {pinned: OLD, "org/model": NEW}
    old = load_model(str(random_checkpoint), "cpu")
    assert torch.equal(weights(model), weights(old)) and not torch.equal(weights(model), weights(newest))
    assert torch.equal(weights(encoder), weights(old.base_model))
    # The tokenizer has files of its own, so only a revision that lacks them can show where it comes from.
    snapshots = downloaded.root / "hub/models--org--model/snapshots"
    for file in (snapshots / NEW).glob("tokenizer*"):
        file.unlink()
    with recording_commits() as commits:
        load_tokenizer(pinned)
    assert commits == {pinned: OLD}
    with pytest.raises(InputError):
        load_tokenizer("org/model")


def test_a_reference_model_is_of_the_same_revision(downloaded: HubCache) -> None:
    from trl.trainer.utils import create_model_from_path, get_config_model_id

    model = load_model("org/model@v1", "cpu")
    again = create_model_from_path(get_config_model_id(model.config), dtype=model.dtype)
    assert torch.equal(weights(again), weights(model))


def test_a_revision_that_is_not_there_is_refused_in_one_sentence(downloaded: HubCache) -> None:
    with pytest.raises(InputError, match="model 'org/model@v2' is neither a folder nor reachable on the Hub"):
        load_model("org/model@v2", "cpu")


def test_stages_record_the_pin_and_the_commit(calibsft: Command, downloaded: HubCache) -> None:
    sampled = ("--subset", 2, "-n", 1, "--max-new-tokens", 2, "--device", "cpu")
    command = ("rollout", "--benchmark", "playground", *sampled, "--out", "r")
    code, _, err = calibsft(*command, "--model", "org/model@v1")
    assert code == 0, err
    manifest = json.loads(Path("r/manifest.json").read_text())
    assert manifest["hub"] == {"org/model@v1": OLD}
    assert manifest["inputs"]["model"] == "org/model@v1 on the Hub"
    code, _, err = calibsft(*command, "--model", "org/model")
    assert code == 2 and "its input 'model' has changed" in err
    assert calibsft(*command, "--model", "org/model", "--fresh")[0] == 0
    assert json.loads(Path("r/manifest.json").read_text())["hub"] == {"org/model": NEW}


def test_a_folder_with_an_at_sign_is_a_folder(calibsft: Command, random_checkpoint: Path) -> None:
    Path("runs@2").mkdir()
    shutil.copytree(random_checkpoint, "runs@2/model")
    sampled = ("--subset", 2, "-n", 1, "--max-new-tokens", 2, "--device", "cpu")
    command = ("eval", "--benchmarks", "cross", *sampled, "--model", "runs@2/model", "--out", "e")
    code, _, err = calibsft(*command)
    assert code == 0, err
    manifest = json.loads(Path("e/manifest.json").read_text())
    assert (
        "hub" not in manifest and manifest["inputs"]["model"] == model_inputs(str(random_checkpoint))["model"]
    )
