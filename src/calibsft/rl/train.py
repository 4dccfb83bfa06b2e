"""Train a model by RL: from a model, a method and questions to a checkpoint with a model card and training metrics.

Resumable: checkpoints hold optimiser, scheduler, random states and the surplus of dynamic sampling. Writes `metrics.jsonl`
with one line per rollout step, and `evals.jsonl` if the recipe asks for evaluations during training.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import set_seed
from trl import GRPOConfig

from calibsft.engines import Engine, EngineSettings, default_engine, engine_for_training, require_trainable
from calibsft.engines.engine import Sampling
from calibsft.engines.policy.connect import connect
from calibsft.errors import InputError
from calibsft.evaluation.settings import EvalSettings
from calibsft.graded import REWARD_GRADERS
from calibsft.models import context_length, load_model, load_tokenizer, require_one_gpu
from calibsft.progress import FIRST_PROCESS, warn
from calibsft.responses.formats import Format
from calibsft.responses.prompts import Prompting
from calibsft.rl.card import rl_card
from calibsft.rl.dynamics import COLLAPSED_ABOVE
from calibsft.rl.evaluations import HeldOutEvaluation
from calibsft.rl.method import Method
from calibsft.rl.methods import method_of
from calibsft.rl.policy import Policy
from calibsft.rl.questions import SuccessRates, TrainingQuestion, training_questions
from calibsft.rl.sampling import GroupSampler, QuestionPlan
from calibsft.rl.scoring import Scorer
from calibsft.rl.settings import MethodSettings
from calibsft.rl.trainer import RlTrainer
from calibsft.rl.weights import AtServers, InTrainer, PolicyWeights
from calibsft.schema import Question
from calibsft.training.adapters import with_adapters
from calibsft.training.agreement import require_agreement
from calibsft.training.final import require_savable, save_model
from calibsft.training.running import make_arguments, run
from calibsft.verify.judged import AnswerJudge
from calibsft.verify.pool import VerifierPool, available_processors
from calibsft.verify.verifier import Verifier

WAIT_SECONDS = 7 * 24 * 3600
MOSTLY_MALFORMED = 0.5


def train_policy(
    model_name: str,
    questions: Sequence[Question],
    rates: SuccessRates,
    settings: MethodSettings,
    prompting: Prompting,
    seed: int,
    folder: Path,
    device: str = "auto",
    evaluation: EvalSettings | None = None,
    label: str = "rl",
    judge: AnswerJudge | None = None,
    engine: EngineSettings | None = None,
    identity: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train `model_name` with the method that `settings` name, and write the checkpoint to `folder/model`.

    Parameters
    ----------
    rates
        The starting model's success rate by (dataset, question id), if known.
    evaluation
        How to evaluate during training, if `settings.eval_every` is set.
    label
        The name of this training in progress lines.
    judge
        Grades the answers of kind `judge`, in training and in evaluations; without one they are matched against their
        aliases.
    engine
        The engine that samples the responses; None for the default.
    identity
        What all processes of a launcher must agree on.

    Returns
    -------
    dict
        Facts for the manifest: steps, updates, generated batches, questions, sampled tokens, graders and device.
    """
    method = method_of(settings)
    method.require_format(prompting.format)
    engine = engine or default_engine()
    require_sampler(settings, engine)
    tokenizer = load_tokenizer(model_name)
    arguments = training_arguments(settings, seed, folder, device, label)
    require_agreement(identity or {})
    # The trainer moves the model to its own device, one per process.
    model = load_model(model_name, "cpu", "float32")
    longest = min(settings.max_prompt_tokens, (context_length(model) or settings.max_prompt_tokens + 1) - 1)
    asked = training_questions(questions, rates, method, settings, tokenizer, prompting, longest)
    set_seed(seed)  # before adapters are initialised
    if settings.lora:
        model = with_adapters(model, settings.lora)
    workers = max(1, available_processors() // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    with Verifier(judge, VerifierPool(workers)) as verifier:
        sampler = policy_engine(model, model_name, tokenizer, settings, engine, folder)
        policy = make_policy(*sampler, prompting.format, method, settings, seed, verifier)
        trainer = make_trainer(model, policy, asked, method, settings, seed, arguments)
        require_savable(trainer)
        if evaluation is not None and settings.eval_every:
            trainer.add_callback(
                HeldOutEvaluation(trainer, evaluation, settings, prompting, seed, folder, label, judge)
            )
        run(trainer, folder, label, settings.steps, _Note(), settings.updates)
    save_model(trainer, folder, rl_card(model_name, method, settings, prompting, len(asked)))
    return {
        "method": method.title,
        "steps": settings.steps,
        "updates": trainer.state.global_step,
        "generated_batches": trainer.sampler.batches,
        "questions": len(asked),
        "tokens": sum(gather_object([policy.tokens])),
        REWARD_GRADERS: sorted({verifier.name_of(question.kind) for question in asked}),
        "device": str(trainer.args.device),
    }


def require_sampler(settings: MethodSettings, engine: EngineSettings) -> None:
    """Refuse, before anything is loaded, a policy that nothing can sample from."""
    if settings.policy != "served":
        require_trainable(engine)
    elif settings.servers is None or not settings.servers.urls:
        raise InputError(
            "rl.policy is served and no server is named; give their addresses in rl.servers.urls"
        )


def policy_engine(
    model: PreTrainedModel,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    settings: MethodSettings,
    engine: EngineSettings,
    folder: Path,
) -> tuple[Engine, PolicyWeights]:
    """What samples from the model in training, and how it gets the newest weights."""
    if settings.policy == "served":
        assert settings.servers is not None
        servers = connect(settings.servers, model, name, tokenizer, folder)
        return servers, AtServers(servers)
    here = engine_for_training(engine, model, tokenizer)
    return here, InTrainer(here)


def make_policy(
    engine: Engine,
    weights: PolicyWeights,
    confidence_format: Format,
    method: Method,
    settings: MethodSettings,
    seed: int,
    verifier: Verifier,
) -> Policy:
    """The policy: an engine with its weights and scorer."""
    scorer = Scorer(engine.tokenizer, engine.end_ids, confidence_format, method.confidence_tokens, verifier)
    sampling = Sampling(1.0, 1.0, settings.max_new_tokens, settings.stop)
    return Policy(engine, weights, scorer, sampling, settings.group_size, seed)


def make_trainer(
    model: PreTrainedModel,
    policy: Policy,
    asked: Sequence[TrainingQuestion],
    method: Method,
    settings: MethodSettings,
    seed: int,
    arguments: GRPOConfig,
) -> RlTrainer:
    """A trainer of this process, which generates its share of each step's groups and trains on its share of their rows."""
    sampler = GroupSampler(
        QuestionPlan(asked, seed),
        policy.produce,
        settings.questions,
        method.keeps_mixed_only(settings),
        settings.max_batches,
        arguments.process_index,
        arguments.world_size,
        gather_object,
    )
    return RlTrainer(
        model=model,
        args=arguments,
        reward_funcs=_no_reward,
        train_dataset=Dataset.from_dict({"prompt": [""]}),
        processing_class=policy.engine.tokenizer,
        method=method,
        settings=settings,
        policy=policy,
        sampler=sampler,
    )


def training_arguments(
    settings: MethodSettings, seed: int, folder: Path, device: str, label: str
) -> GRPOConfig:
    """TRL's configuration."""
    rows = settings.questions // settings.updates * settings.group_size
    micro, accumulation = micro_batches(rows, settings, int(os.environ.get("WORLD_SIZE", 1)))
    arguments = make_arguments(
        GRPOConfig,
        folder,
        seed,
        device,
        run_name=label,
        max_steps=settings.steps * settings.updates,
        per_device_train_batch_size=micro,
        num_generations=settings.group_size,
        # TRL checks that a generation batch holds whole groups; ours come from the sampler.
        generation_batch_size=settings.questions * settings.group_size,
        max_completion_length=settings.max_new_tokens,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": settings.final_rate},
        warmup_steps=settings.warmup_steps * settings.updates,
        loss_type="dapo",
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        delta=settings.dual_clip,
        beta=settings.kl,
        use_bias_correction_kl=False,
        # The policy samples without dropout, so the ratio needs log-probabilities without dropout.
        disable_dropout=True,
        temperature=1.0,
        logging_steps=settings.updates,
        save_steps=settings.save_every * settings.updates,
        report_to=list(settings.report_to),
        gradient_checkpointing=settings.gradient_checkpointing,
        dataloader_pin_memory=False,
        ignore_data_skip=True,
        # One process may sample for a long time, or evaluate alone, while the others wait.
        ddp_timeout=WAIT_SECONDS,
    )
    require_one_gpu(arguments.n_gpu, "rl")
    arguments.gradient_accumulation_steps = accumulation
    return arguments


def micro_batches(rows: int, settings: MethodSettings, processes: int) -> tuple[int, int]:
    """Size and number of the micro-batches of one update on one process; refuses uneven ones."""
    micro = min(settings.micro_batch_size, max(rows // processes, 1))
    if rows % (micro * processes):
        raise InputError(
            f"rl.questions {settings.questions} in {settings.updates} updates of micro-batches of {micro} cannot be shared"
            f" evenly by {processes} processes; change rl.questions or rl.micro_batch_size"
        )
    return micro, rows // (micro * processes)


class _Note:
    """The live line of a step; also warns once if confidence collapses, and stops a training that has diverged."""

    def __init__(self) -> None:
        self._warned = False

    def __call__(self, logs: dict[str, float]) -> str:
        if not (math.isfinite(logs["loss"]) and math.isfinite(logs.get("grad_norm", 0.0))):
            raise InputError(
                "loss or gradient are no longer finite numbers; lower rl.learning_rate and start again with --fresh"
            )
        # Unreadable confidences count as 0 in Top-1; many of them are not a collapse.
        collapsed = logs["top1"] > COLLAPSED_ABOVE and logs["malformed"] < MOSTLY_MALFORMED
        if collapsed and not self._warned and FIRST_PROCESS:
            self._warned = True
            warn(
                f"rl: {logs['top1']:.0%} of the responses state the same confidence; RL learns from sampled values only,"
                " so start from a broader prior (calibsft sft) or stop earlier"
            )
        return (
            f"Pass@1 {logs['pass@1']:.3f}, Brier {logs['brier']:.3f}, {logs['distinct_values']:.1f} values per"
            f" question, Top-1 {logs['top1']:.0%}"
        )


def _no_reward(**_: Any) -> NoReturn:
    raise AssertionError("rewards come from the method, not from TRL")
