"""Runs in verl's environment, for the tests of its plug-in: python verl_process.py WHAT INPUT.json; prints its findings as JSON.

`rl` asks verl's registries, config, dataset and reward manager, `advantages` its trainer over a real TransferQueue, `sft`
its SFT trainer. What they find is judged by the test.
"""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from tensordict import TensorDict

FOUND = "FOUND "
RANKS = 2


def config_of(folder: str, *overrides: str) -> Any:
    """The config of an export, as the exported command composes it."""
    with initialize_config_dir(config_dir=folder, version_base=None):
        return compose(
            config_name="config", overrides=[f"data.train_files='{folder}/train.parquet'", *overrides]
        )


def rl(given: dict[str, Any]) -> dict[str, Any]:
    """What verl knows by name, and what its parts make of every export and of responses to its first question."""
    import verl  # noqa: F401 - loads the plug-in by its entry point
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.v1 import get_trainer_cls

    return {
        "trainer": get_trainer_cls("calibsft_sync").__module__,
        "reward_manager": get_reward_manager_cls("calibsft").__module__,
        "exports": {folder: export(folder, given["responses"]) for folder in given["folders"]},
    }


def export(folder: str, responses: list[list[int]]) -> dict[str, Any]:
    from verl.trainer.ppo.utils import create_rl_dataset, need_critic, need_reference_policy
    from verl.utils import hf_tokenizer
    from verl.utils.config import validate_config
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    config = config_of(folder)
    kept, critic = need_reference_policy(config), need_critic(config)
    validate_config(config=config, use_reference_policy=kept, use_critic=critic)
    tokenizer = hf_tokenizer(config.actor_rollout_ref.model.path)
    data = create_rl_dataset(config.data.train_files, config.data, tokenizer, None)
    prompts = create_continuous_token_builder(
        tokenizer, chat_template_kwargs=dict(config.data.apply_chat_template_kwargs)
    )
    return {
        "dataset": type(data).__name__,
        "prompts": {
            row["extra_info"]["question"]: prompts.build_initial_tokens(row["raw_prompt"]) for row in data
        },
        "reference": kept,
        "critic": critic,
        "mini_batch": config.actor_rollout_ref.actor.ppo_mini_batch_size,
        "scores": asyncio.run(scores(config, tokenizer, data[0], responses)),
    }


async def scores(config: Any, tokenizer: Any, row: dict[str, Any], responses: list[list[int]]) -> list[Any]:
    """What the reward manager says about responses that arrive together."""
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    manager = load_reward_manager(config, tokenizer)
    columns = {name: np.array([row[name]]) for name in ("data_source", "reward_model", "extra_info")}

    async def score(ids: list[int]) -> Any:
        both = {"prompts": torch.tensor([[3, 4]]), "responses": torch.tensor([ids])}
        mask = torch.ones(1, 2 + len(ids), dtype=torch.long)
        batch = TensorDict({**both, "attention_mask": mask}, batch_size=1)
        return await manager.run_single(DataProto(batch=batch, non_tensor_batch=dict(columns)))

    return await asyncio.gather(*(score(ids) for ids in responses))


def advantages(given: dict[str, Any]) -> dict[str, Any]:
    """What the trainer writes for the tokens of every export's responses, and which groups verl would drop."""
    import ray
    import transfer_queue as tq

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    units = "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"
    try:
        tq.init(config_of(given["cases"][0]["folder"], units, "transfer_queue.enable=true").transfer_queue)
        return {case["folder"]: trained(case) for case in given["cases"]}
    finally:
        tq.close()
        ray.shutdown()


def trained(case: dict[str, Any]) -> dict[str, Any]:
    import transfer_queue as tq
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    config = config_of(case["folder"], *case.get("overrides", ()))
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": list(range(RANKS))})
    trainer.tokenizer, trainer.global_steps = SimpleNamespace(eos_token_id=1), 1
    rows = case["rows"]
    keys = [row["key"] for row in rows]
    batch = tq.kv_batch_put(
        keys=keys,
        partition_id="train",
        fields=list_of_dict_to_tensordict([fields(row) for row in rows]),
        tags=[{"status": "success", "seq_len": 2 + row["tokens"]} for row in rows],
    )
    questions = sorted({key.split("_")[0] for key in keys})
    finished = {"is_prompt": True, "status": "finished", "global_steps": 1}
    tq.kv_batch_put(keys=questions, partition_id="train", tags=[dict(finished) for _ in questions])
    trainer.replay_buffer._sync_metadata_from_transfer_queue()
    dropped, _ = trainer.replay_buffer._dapo_filtered_keys("train")
    metrics: dict[str, Any] = {}
    batch = trainer._compute_advantage(trainer._balance_batch(batch, metrics), metrics)
    data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages"])
    found = dict(zip(batch.keys, [row.tolist() for row in data["advantages"].unbind()], strict=True))
    per_update = config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    tq.kv_clear(keys=[*batch.keys, *questions], partition_id="train")
    return {
        "advantages": found,
        "dropped": sorted(dropped),
        "metrics": {name: value for name, value in metrics.items() if name.startswith("calibsft/")},
        "updates": updates(batch, per_update // RANKS),
    }


def fields(row: dict[str, Any]) -> dict[str, Any]:
    """A response as verl's rollout leaves it."""
    mask = torch.ones(row["tokens"], dtype=torch.int64)
    return {
        "uid": row["key"].split("_")[0],
        "prompts": torch.tensor([3, 4]),
        "responses": torch.arange(row["tokens"]),
        "response_mask": mask,
        "loss_mask": mask,
        "position_ids": torch.arange(2 + row["tokens"]),
        "rm_scores": torch.zeros(row["tokens"]),
        "extra_fields": {"reward_extra_info": row["extra_info"]},
    }


def updates(batch: Any, rows_per_rank: int) -> list[list[str]]:
    """The keys that each update trains on, as verl cuts a batch: by rank, then by mini-batch."""
    from verl.utils import tensordict_utils as tu

    found: dict[int, list[str]] = {}
    for part in batch.chunk(RANKS):
        places = TensorDict({"place": torch.arange(len(part))}, batch_size=len(part))
        pieces = tu.make_iterator(places, rows_per_rank, 1, 0, {"shuffle": False})
        for number, piece in enumerate(pieces):
            found.setdefault(number, []).extend(part.keys[place] for place in piece["place"].tolist())
    return list(found.values())


def sft(given: dict[str, Any]) -> dict[str, Any]:
    """The losses of verl's SFT trainer on a CPU, in float32."""
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    from verl.utils import tensordict_utils as tu

    from calibsft.integrations.verl.sft_trainer import CalibSftTrainer

    config = config_of(
        given["folder"],
        f"trainer.default_local_dir='{given['checkpoints']}'",
        "trainer.device=cpu",
        "trainer.resume_mode=disable",
        "data.num_workers=0",
        # Several micro-batches per step, so that their cut is seen not to matter.
        "data.max_token_len_per_gpu=64",
        "model.use_remove_padding=False",
        "+model.override_config.attn_implementation=sdpa",
        "engine.strategy=fsdp2",
        "engine.use_torch_compile=False",
        "+engine.mixed_precision.param_dtype=fp32",
    )
    trainer = CalibSftTrainer(config)
    train, losses = trainer.training_client.train_batch, []

    def watched(data: Any) -> Any:
        output = train(data=data)
        losses.append(tu.get(output, "metrics")["loss"])
        return output

    trainer.training_client.train_batch = watched
    trainer.fit()
    return {"losses": losses}


if __name__ == "__main__":
    found = {"rl": rl, "advantages": advantages, "sft": sft}[sys.argv[1]](
        json.loads(Path(sys.argv[2]).read_text())
    )
    print(FOUND + json.dumps(found), flush=True)
