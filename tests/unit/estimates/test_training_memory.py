"""GPU memory of a training by part, worked out by hand for a model of 1,000 parameters."""

from dataclasses import replace

import pytest

from calibsft.estimates.layouts import ALONE, Layout, Sharding
from calibsft.estimates.shapes import RECORDED, Shape
from calibsft.estimates.training_memory import LOGIT_COLUMNS, Training, activations, peak, training_parts

# Embedding and head are one table of 30 x 10 = 300 parameters, each of the two layers has 350.
SMALL = Shape(1000, 2, 10, 2, 1, 5, 20, 30, tied=True)
# 21 tokens.
FULL = Training(rows=3, tokens=7, rank=None, recomputes=False)
# 640 parameters of adapters: 2 x 2 layers x (2 x 20 + 2 x 15 + 3 x 30).
ADAPTERS = replace(FULL, rank=2)


def on(sharding: Sharding, processes: int = 4) -> Layout:
    return Layout(sharding, processes, tuple(map(str, range(processes))))


@pytest.mark.parametrize(
    "layout, expected",
    [
        # float32 weights and gradients, two float32 numbers of AdamW, bfloat16 casts.
        (ALONE, {"weights": 4000, "gradients": 4000, "optimiser": 8000, "copies": 2000}),
        # Buckets of float32 gradients besides.
        (on(Sharding.DDP), {"weights": 4000, "gradients": 4000, "optimiser": 8000, "copies": 6000}),
        # A quarter of each; in bfloat16 two layers and the table, gradients of one layer and the table:
        # 2 x (700 + 300 + 350 + 300).
        (on(Sharding.FSDP2), {"weights": 1000, "gradients": 1000, "optimiser": 2000, "copies": 3300}),
        # All weights in bfloat16; a quarter of master weights, of gradients in 2 and 4 bytes, and of AdamW; two buckets.
        (
            on(Sharding.ZERO2),
            {"weights": 2000, "master weights": 1000, "gradients": 1500, "optimiser": 2000, "copies": 4000},
        ),
        # The weights cut too, and gathered as far as DeepSpeed allows: all of so few, 2,000 bytes.
        (
            on(Sharding.ZERO3),
            {"weights": 500, "master weights": 1000, "gradients": 1500, "optimiser": 2000, "copies": 6000},
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Layout) else "",
)
def test_what_every_way_of_sharing_keeps(layout: Layout, expected: dict[str, int]) -> None:
    parts = training_parts(SMALL, layout, FULL)
    assert {name: size for name, size in parts.items() if name not in ("activations", "logits")} == expected


@pytest.mark.parametrize(
    "layout, recomputes, expected",
    [
        # 1,640 weights, of which 640 are trained; every one is cast.
        (ALONE, False, {"weights": 6560, "gradients": 2560, "optimiser": 5120, "copies": 3280}),
        # One layer and the head are cast at a time: 2 x (350 + 300).
        (ALONE, True, {"weights": 6560, "gradients": 2560, "optimiser": 5120, "copies": 1300}),
        # No gradients of whole layers: 2 x (700 + 300).
        (on(Sharding.FSDP2), True, {"weights": 1640, "gradients": 640, "optimiser": 1280, "copies": 2000}),
    ],
)
def test_adapters(layout: Layout, recomputes: bool, expected: dict[str, int]) -> None:
    parts = training_parts(SMALL, layout, replace(ADAPTERS, recomputes=recomputes))
    assert {name: parts[name] for name in expected} == expected


@pytest.mark.parametrize(
    "sharding, recomputes, expected",
    [
        # In bfloat16 2 x 10 + 3 x 10 + 4 x 5 + 4 x 20 = 150 numbers, in float32 4 x 10: 460 bytes inside a layer, and
        # 6 x 10 + 4 x 5 more with autocast. 10 float32 numbers run through: 21 tokens x 2 layers x (540 + 40) bytes.
        (Sharding.ONE, False, 24_360),
        # The inputs of both layers and the inside of one: 21 x (2 x 40 + 540).
        (Sharding.ONE, True, 13_020),
        # bfloat16 runs through, without autocast: 21 x (2 x 20 + 460).
        (Sharding.FSDP2, True, 10_500),
    ],
)
def test_activations(sharding: Sharding, recomputes: bool, expected: int) -> None:
    assert activations(SMALL, sharding, replace(FULL, recomputes=recomputes)) == expected


def test_logits_come_in_tiles_of_the_vocabulary() -> None:
    assert training_parts(SMALL, ALONE, FULL)["logits"] == 2 * 4 * 21 * 30, "all of a small one"
    large = replace(SMALL, vocabulary=151_936)
    assert training_parts(large, ALONE, FULL)["logits"] == 2 * 4 * 21 * 4096


def test_the_width_of_a_tile_is_that_of_fine_tuning() -> None:
    from calibsft.sft.tiled import TILE_WIDTH

    assert LOGIT_COLUMNS == TILE_WIDTH


@pytest.mark.parametrize(
    "layout, expected",
    [(ALONE, 4000), (on(Sharding.FSDP2), 1000), (on(Sharding.ZERO2), 2000), (on(Sharding.ZERO3), 500)],
)
def test_the_reference_is_shared_like_the_weights(layout: Layout, expected: int) -> None:
    parts = training_parts(SMALL, layout, replace(FULL, has_reference=True))
    assert parts["reference"] == expected


def test_the_copy_for_servers_is_in_bfloat16() -> None:
    assert training_parts(SMALL, ALONE, replace(FULL, sends_copy=True))["copy for servers"] == 2000
    assert "copy for servers" not in training_parts(SMALL, ALONE, FULL)


def test_sampling_in_the_trainer_keeps_keys_and_values_and_zero_3_gathers() -> None:
    # 5 sequences x 7 tokens x (2 layers x keys and values x 5), in float32 and in bfloat16.
    sampling = replace(FULL, sampled=5)
    assert training_parts(SMALL, ALONE, sampling)["sampling"] == 4 * 5 * 7 * 20
    assert training_parts(SMALL, on(Sharding.ZERO2), sampling)["sampling"] == 2 * 5 * 7 * 20
    assert training_parts(SMALL, on(Sharding.ZERO3), sampling)["sampling"] == 2 * 5 * 7 * 20 + 2000


def test_sampling_and_a_micro_batch_are_not_there_at_once() -> None:
    assert peak({"weights": 10, "activations": 5, "logits": 1, "sampling": 4}) == 16
    assert peak({"weights": 10, "activations": 5, "logits": 1, "sampling": 9}) == 19
    assert peak({"server": 3}) == 3


def test_parts_on_the_cpu_take_nothing_of_the_gpu() -> None:
    layout = replace(on(Sharding.ZERO3), on_cpu=frozenset({"optimiser", "master weights"}))
    parts = training_parts(SMALL, layout, FULL)
    assert parts["optimiser"] == parts["master weights"] == 0 < parts["weights"]


def test_qwen3_8b_in_one_process_takes_sixteen_bytes_a_parameter_and_more() -> None:
    parts = training_parts(RECORDED["Qwen/Qwen3-8B"], ALONE, replace(FULL, rows=1, tokens=1))
    assert sum(parts[name] for name in ("weights", "gradients", "optimiser")) == 16 * 8_190_735_360
