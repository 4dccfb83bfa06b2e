"""The shape of a model: recorded, read from a checkpoint's files, or unknown."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from calibsft.estimates.shapes import RECORDED, Shape, shape_of

CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 10,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 20,
    "vocab_size": 30,
    "tie_word_embeddings": False,
}


def checkpoint(folder: Path, config: object = CONFIG, weights: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if weights:
        save_file({"a": np.zeros((3, 4), np.float16), "b": np.zeros(5)}, folder / "model-1.safetensors")
        save_file({"c": np.zeros((2, 2, 2))}, folder / "model-2.safetensors")
    return folder


def test_qwen3_8b_adds_up() -> None:
    shape = RECORDED["Qwen/Qwen3-8B"]
    queries, keys = 32 * 128, 8 * 128
    attention = 2 * 4096 * queries + 2 * 4096 * keys  # queries and output, keys and values
    layer = (
        attention + 3 * 4096 * 12_288 + 2 * 4096 + 2 * 128
    )  # a gated MLP, two norms, norms of queries and keys
    assert layer == 192_946_432
    assert shape.embeddings == 2 * 151_936 * 4096 == 1_244_659_712
    assert shape.parameters == 36 * layer + shape.embeddings + 4096 == 8_190_735_360
    assert shape.layer == layer + 4096 // 36, "the last norm is spread over the layers"
    # 36 layers x keys and values x 8 heads x 128 numbers; in bfloat16 147,456 bytes.
    assert shape.kept_per_token == 36 * 2 * 8 * 128 == 73_728


def test_adapters_have_rank_times_inputs_and_outputs_of_every_linear_layer() -> None:
    # Queries and output 10 + 10 each, keys and values 10 + 5 each, three layers of the MLP 10 + 20 each; two layers.
    shape = Shape(1000, 2, 10, 2, 1, 5, 20, 30, tied=True)
    assert shape.adapters(3) == 3 * 2 * (2 * 20 + 2 * 15 + 3 * 30) == 960
    # Of Qwen3-8B: 36 x (2 x 8,192 + 2 x 5,120 + 3 x 16,384) = 36 x 75,776 for each rank.
    assert RECORDED["Qwen/Qwen3-8B"].adapters(1) == 2_727_936


def test_a_folder_says_its_own_shape(tmp_path: Path) -> None:
    found = shape_of(str(checkpoint(tmp_path / "m")))
    # 12 + 5 + 8 numbers in the files; the dimension of a head is 10 / 2.
    assert found == Shape(25, 2, 10, 2, 1, 5, 20, 30, tied=False)


def test_the_configuration_of_a_text_model_may_be_a_section(tmp_path: Path) -> None:
    whole = {
        "text_config": {**CONFIG, "head_dim": 7, "num_key_value_heads": None},
        "tie_word_embeddings": True,
    }
    found = shape_of(str(checkpoint(tmp_path / "m", whole)))
    assert found == Shape(25, 2, 10, 2, 2, 7, 20, 30, tied=True)


@pytest.mark.parametrize(
    "config",
    [
        {key: value for key, value in CONFIG.items() if key != "vocab_size"},
        {**CONFIG, "intermediate_size": [20, 40]},
        {**CONFIG, "num_hidden_layers": 0},
        {**CONFIG, "hidden_size": "10"},
        ["not a mapping"],
    ],
    ids=["a missing key", "layers that differ", "no layers", "a text", "a list"],
)
def test_a_configuration_of_another_kind_of_model_is_unknown(tmp_path: Path, config: object) -> None:
    assert shape_of(str(checkpoint(tmp_path / "m", config))) is None


def test_a_folder_without_weights_or_with_damaged_ones_is_unknown(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", weights=False)
    assert shape_of(str(folder)) is None
    (folder / "model.safetensors").write_bytes(b"\x08\x00")
    assert shape_of(str(folder)) is None


def test_a_model_is_known_by_its_name_with_and_without_a_revision() -> None:
    assert shape_of("Qwen/Qwen3-8B") == shape_of("Qwen/Qwen3-8B@main") == RECORDED["Qwen/Qwen3-8B"]
    assert shape_of("somebody/another-model") is None
