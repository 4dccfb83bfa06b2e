"""A fine-tuning of a recipe as a config of verl: every setting of ours that verl has, by verl's name."""

from typing import Any

from calibsft.integrations.verl.model_config import adapters, local_model, optimiser, watchers
from calibsft.integrations.verl.sft_dataset import PLAN, CalibSftDataset
from calibsft.stages.sft import SftStage


def sft_config(stage: SftStage, name: str) -> dict[str, Any]:
    """The config of the training called `name`; paths of data come with the command."""
    sft = stage.sft
    return {
        "defaults": ["sft_trainer_engine", "_self_"],
        "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
        "data": {
            "train_batch_size": sft.batch_size,
            # Micro-batches are cut by tokens, which fits any number of GPUs; they never change the loss.
            "use_dynamic_bsz": True,
            "max_token_len_per_gpu": sft.micro_batch_size * sft.max_tokens,
            "max_length": sft.max_tokens,
            "custom_cls": {"path": f"pkg://{CalibSftDataset.__module__}", "name": CalibSftDataset.__name__},
            PLAN: {"loss": sft.loss, "beta": sft.beta, "steps": sft.steps, "seed": stage.seed},
        },
        "model": {
            "path": local_model(stage.model),
            "enable_gradient_checkpointing": sft.gradient_checkpointing,
            **adapters(sft.lora),
        },
        "optim": optimiser(sft.learning_rate, sft.warmup_steps),
        # The last is the checkpoint that from_pretrained reads.
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
        "trainer": {
            "project_name": "calibsft",
            "experiment_name": name,
            "logger": watchers(sft.report_to),
            "total_training_steps": sft.steps,
            "total_epochs": 1,
            "save_freq": sft.save_every,
            "seed": stage.seed,
        },
    }
