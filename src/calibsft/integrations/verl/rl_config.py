"""An RL training of a recipe as a config of verl: every setting of ours that verl has, by verl's name.

What depends on the machine (GPUs, memory, parallelism) keeps verl's defaults: the exported command takes overrides. Two
settings have no place in verl: `max_batches`, which its sampler ignores, and stop strings, which are refused.
"""

from typing import Any

from calibsft.errors import InputError
from calibsft.integrations.verl.model_config import adapters, local_model, optimiser, watchers
from calibsft.integrations.verl.record import CORRECT
from calibsft.integrations.verl.settings import REWARD_MANAGER, SECTION, TRAINER, PluginSettings
from calibsft.rl.methods import method_of
from calibsft.rl.settings import MethodSettings
from calibsft.stages.rl import RlStage

# verl cuts log-ratios at 20, so that no ratio reaches this bound.
NO_BOUND = 1e9


def rl_config(stage: RlStage, name: str) -> dict[str, Any]:
    """The config of the training called `name`; paths of data come with the command."""
    if stage.rl.stop:
        raise InputError("verl has no stop strings; leave out rl.stop, or train with calibsft rl")
    if stage.judge.model and not stage.judge.url:
        raise InputError(
            f"every reward worker of verl would load the judge {stage.judge.model}; serve it, and give its address in judge.url"
        )
    plugin = PluginSettings(format=stage.format, rl=stage.rl, judge=stage.judge)
    return {
        "defaults": ["ppo_trainer", "_self_"],
        "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
        SECTION: plugin.section(),
        "algorithm": _algorithm(stage.rl),
        "data": {
            "train_batch_size": stage.rl.questions,
            "max_prompt_length": stage.rl.max_prompt_tokens,
            "max_response_length": stage.rl.max_new_tokens,
            "apply_chat_template_kwargs": dict(stage.template),
            "seed": stage.seed,
        },
        "actor_rollout_ref": {
            "model": {
                "path": local_model(stage.model),
                "enable_gradient_checkpointing": stage.rl.gradient_checkpointing,
                **adapters(stage.rl.lora),
            },
            "actor": _actor(stage.rl),
            "rollout": _rollout(stage),
        },
        "critic": {"enable": False},
        "reward": {"reward_manager": {"source": "register", "name": REWARD_MANAGER}},
        "trainer": _trainer(stage.rl, name),
    }


def _algorithm(rl: MethodSettings) -> dict[str, Any]:
    # verl's own advantages, which the trainer replaces, need no critic this way.
    return {
        "adv_estimator": "grpo",
        "filter_groups": {"enable": method_of(rl).keeps_mixed_only(rl), "metric": CORRECT},
    }


def _actor(rl: MethodSettings) -> dict[str, Any]:
    return {
        "ppo_mini_batch_size": rl.questions // rl.updates,
        # Micro-batches are cut by tokens, which fits any number of GPUs; they never change the loss.
        "use_dynamic_bsz": True,
        "ppo_max_token_len_per_gpu": rl.micro_batch_size * (rl.max_prompt_tokens + rl.max_new_tokens),
        "clip_ratio_low": rl.clip_low,
        "clip_ratio_high": rl.clip_high,
        "clip_ratio_c": rl.dual_clip or NO_BOUND,
        "loss_agg_mode": "token-mean",
        "use_kl_loss": rl.kl > 0,
        "kl_loss_coef": rl.kl,
        "kl_loss_type": "low_var_kl",
        "optim": {
            **optimiser(rl.learning_rate, rl.warmup_steps),
            "lr_scheduler_type": "cosine",
            "min_lr_ratio": rl.final_rate,
        },
        # The last is the checkpoint that from_pretrained reads.
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
    }


def _rollout(stage: RlStage) -> dict[str, Any]:
    return {
        "name": "vllm",
        "n": stage.rl.group_size,
        "temperature": 1.0,
        "top_p": 1.0,
        "tensor_model_parallel_size": 1,
        "seed": stage.seed,
        "val_kwargs": {
            "n": stage.eval.samples or 1,
            "temperature": stage.eval.temperature,
            "top_p": stage.eval.top_p,
            "do_sample": stage.eval.temperature > 0,
        },
    }


def _trainer(rl: MethodSettings, name: str) -> dict[str, Any]:
    return {
        "v1": {"trainer_mode": TRAINER},
        "project_name": "calibsft",
        "experiment_name": name,
        "logger": watchers(rl.report_to),
        "total_training_steps": rl.steps,
        # verl stops at the first of both; an epoch has at least one step.
        "total_epochs": rl.steps,
        "save_freq": rl.save_every,
        "test_freq": rl.eval_every or -1,
        "val_before_train": False,
    }
