"""RL as a stage: what the trainer optimises, what it leaves behind, and its contract with TRL.

1. TRL still has what is taken over.
2. The loss of an update is a mean over its tokens, however it is cut, and equals a plain NumPy computation.
3. ReDoubt leaves everything up to the answer alone.
4. Every method trains from files to a checkpoint; an interrupted training ends where an uninterrupted one does.
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation

from calibsft.errors import InputError
from calibsft.models import load_model, load_tokenizer
from calibsft.playground.world import training_questions
from calibsft.recipe import EvalSettings, LoraSettings, RlSettings
from calibsft.responses.formats import FORMATS
from calibsft.rl.batches import Row, rows_of
from calibsft.rl.fitting import require_fitting
from calibsft.rl.method import Group
from calibsft.rl.methods import METHODS
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.sampling import Step
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.train import (
    _Note,
    make_policy,
    make_trainer,
    micro_batches,
    train_policy,
    training_arguments,
    with_defaults,
)
from calibsft.rl.trainer import RlTrainer
from calibsft.rollouts.engine import Completion
from calibsft.schema import Question
from calibsft.training.adapters import with_adapters
from calibsft.verify import VerifierPool

FORMAT = FORMATS["probability"]

# --- 1. the contract with TRL


def test_trl_still_has_what_the_trainer_takes_over() -> None:
    advice = "read the changes to GRPOTrainer before raising the pin, then mend rl/trainer.py"
    assert trl.__version__ == "1.16.0", (
        f"TRL is {trl.__version__}, and the trainer was written for 1.16.0: {advice}"
    )
    leading = {
        "get_train_dataloader": ["self"],
        "_prepare_inputs": ["self", "generation_batch"],
        "_compute_loss": ["self", "model", "inputs"],
        "_get_per_token_logps_and_entropies": [
            "self",
            "model",
            "input_ids",
            "attention_mask",
            "logits_to_keep",
        ],
        "_save_checkpoint": ["self", "model", "trial"],
        "_get_output_dir": ["self", "trial"],
        "log": ["self", "logs", "start_time"],
        "create_model_card": ["self"],
    }
    for name, parameters in leading.items():
        method = getattr(GRPOTrainer, name, None)
        assert method is not None, f"GRPOTrainer has no {name} any more: {advice}"
        found = list(inspect.signature(method).parameters)
        assert found[: len(parameters)] == parameters, f"GRPOTrainer.{name} takes {found} now: {advice}"
    exact = ("get_train_dataloader", "_prepare_inputs", "_compute_loss", "_save_checkpoint")
    for name in exact:
        found = list(inspect.signature(getattr(GRPOTrainer, name)).parameters)
        assert found == leading[name], f"GRPOTrainer.{name} takes {found} now: {advice}"
    found = list(inspect.signature(unwrap_model_for_generation).parameters)
    assert found[:2] == ["model", "accelerator"], f"unwrap_model_for_generation takes {found} now: {advice}"
    assert GRPOTrainer.loss_is_scaled_for_ga is True, f"GRPOTrainer scales losses otherwise now: {advice}"


@pytest.fixture
def build(random_checkpoint: Path, tmp_path: Path) -> Callable[..., RlTrainer]:
    """Makes a trainer whose update has twelve responses, with weights that have left their start."""

    def build(method: str = "rlcr", drift: float = 0.05, **changes: Any) -> RlTrainer:
        sizes = {"steps": 1, "questions": 6, "group_size": 2, "updates": 1, "micro_batch_size": 12}
        settings = RlSettings(**{**sizes, "kl": 0.0, **changes})
        model = load_model(str(random_checkpoint), "cpu", "float32")
        if settings.lora:
            model = with_adapters(model, settings.lora)
        tokenizer = load_tokenizer(str(random_checkpoint))
        policy = make_policy(model, tokenizer, FORMAT, METHODS[method], settings, 0, VerifierPool())
        arguments = training_arguments(settings, 0, tmp_path, "cpu", "rl")
        trainer = make_trainer(policy, [], METHODS[method], settings, 0, arguments)
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter += drift * torch.randn_like(parameter) * parameter.requires_grad
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = (
            trainer.args.gradient_accumulation_steps
        )  # as Trainer does
        return trainer

    return build


def logprobs(model: PreTrainedModel, prompt: tuple[int, ...], ids: tuple[int, ...]) -> np.ndarray:
    """The log-probability of every token of one response, without padding."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].double()
    return logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)].numpy()


def sampled(
    model: PreTrainedModel, random: np.random.Generator, length: int, moved: float
) -> tuple[tuple[int, ...], Response]:
    """A prompt and a response; the policy that sampled it differs from `model` by ratios around exp(±moved)."""
    prompt = tuple(random.integers(3, 31, random.integers(1, 7)).tolist())
    ids = tuple(random.integers(3, 31, length).tolist())
    old_T = logprobs(model, prompt, ids) + random.normal(0, moved, length)
    marks_T = np.arange(length) >= length - random.integers(1, 4)
    return prompt, Response(ids, old_T.astype(np.float32), marks_T, "ok", None)


def twelve_rows(model: PreTrainedModel) -> list[Row]:
    """Responses of different lengths with different advantages for answer and confidence."""
    random = np.random.default_rng(0)
    rows = []
    for length in (4, 15, 7, 30, 5, 9, 22, 6, 11, 4, 18, 13):
        prompt, response = sampled(model, random, length, 0.5)
        answer, confidence = random.normal(size=2)
        rows.append(Row(prompt, response, np.where(response.confidence_T, confidence, answer)))
    return rows


def update_loss(trainer: RlTrainer, rows: list[Row]) -> tuple[float, Tensor]:
    """The loss of one update and its gradient, micro-batch by micro-batch."""
    trainer.model.zero_grad()
    losses = [trainer._compute_loss(trainer.model, batch) for batch in trainer._update(rows)]
    for loss in losses:
        loss.backward()
    gradients = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return sum(loss.item() for loss in losses), torch.cat(gradients)


def token_losses(
    model: PreTrainedModel, rows: list[Row], settings: RlSettings, reference: PreTrainedModel | None = None
) -> list[np.ndarray]:
    """DAPO's loss of every token: clipped from both sides, the ratio bounded, and the k3 estimate of the KL."""
    losses = []
    for row in rows:
        now_T = logprobs(model, row.prompt_ids, row.response.token_ids)
        ratio_T, gain_T = np.exp(now_T - row.response.logprobs_T), row.advantages_T
        clipped_T = np.clip(ratio_T, 1 - settings.clip_low, 1 + settings.clip_high)
        loss_T = np.maximum(-ratio_T * gain_T, -clipped_T * gain_T)
        if settings.dual_clip:
            loss_T = np.where(gain_T < 0, np.minimum(loss_T, -settings.dual_clip * gain_T), loss_T)
        if reference is not None:
            away_T = logprobs(reference, row.prompt_ids, row.response.token_ids) - now_T
            loss_T = loss_T + settings.kl * (np.exp(away_T) - away_T - 1)
        losses.append(loss_T)
    return losses


def token_mean(*arguments: Any) -> float:
    return float(np.concatenate(token_losses(*arguments)).mean())


def test_the_loss_takes_one_advantage_per_token(build: Callable[..., RlTrainer]) -> None:
    trainer = build()
    rows = twelve_rows(trainer.model)
    (batch,) = trainer._update(rows[:3])
    tokens = int(batch["completion_mask"].sum())
    del batch["old_per_token_logps"]  # the ratio is 1 then, and the loss minus the mean advantage
    for row, token in ((0, 0), (1, 14), (2, 3)):
        batch["advantages"] = torch.zeros_like(batch["advantages"])
        batch["advantages"][row, token] = 1.0
        loss = trainer._compute_loss(trainer.model, batch).item()
        assert loss == pytest.approx(-1 / tokens, rel=1e-6), "TRL no longer takes advantages of shape (B, T)"
        batch["advantages"][row, token] = 0.0
        batch["advantages"][1, 13] = 2.0
        assert trainer._compute_loss(trainer.model, batch).item() == pytest.approx(-2 / tokens, rel=1e-6)
    assert set(trainer._metrics) == {"train", "eval"} and trainer._metrics["train"]["entropy"]


# --- 2. the loss is a mean over tokens


def test_the_rows_of_these_tests_are_clipped_from_every_side(build: Callable[..., RlTrainer]) -> None:
    model = build().model
    sides = set()
    for row in twelve_rows(model):
        ratio_T = np.exp(logprobs(model, row.prompt_ids, row.response.token_ids) - row.response.logprobs_T)
        for ratio, gain in zip(ratio_T, row.advantages_T, strict=True):
            side = "low" if ratio < 0.8 else "high" if ratio > 1.28 else "inside"
            sides |= {(side, gain > 0), ("very high" if ratio > 1.5 else side, gain > 0)}
    assert len(sides) == 8


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dual clip": {"dual_clip": 1.5},
    "KL": {"kl": 0.3},
    "other clips": {"clip_low": 0.1, "clip_high": 0.4},
    "all": {"dual_clip": 1.5, "kl": 0.3},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_of_an_update_is_the_one_computed_token_by_token(
    variant: str, build: Callable[..., RlTrainer], random_checkpoint: Path
) -> None:
    trainer = build(micro_batch_size=4, **VARIANTS[variant])
    rows = twelve_rows(trainer.model)
    reference = AutoModelForCausalLM.from_pretrained(random_checkpoint) if trainer.settings.kl else None
    expected = token_mean(trainer.model, rows, trainer.settings, reference)
    assert update_loss(trainer, rows)[0] == pytest.approx(expected, abs=1e-6)
    if variant != "plain":
        assert abs(token_mean(trainer.model, rows, RlSettings()) - expected) > 1e-3, (
            "the variant matters here"
        )


def test_the_reference_of_a_model_with_adapters_is_the_model_without_them(
    build: Callable[..., RlTrainer], random_checkpoint: Path
) -> None:
    trainer = build(micro_batch_size=4, kl=0.3, lora=LoraSettings(rank=4, alpha=8), drift=0.1)
    rows = twelve_rows(trainer.model)
    reference = AutoModelForCausalLM.from_pretrained(random_checkpoint)
    expected = token_mean(trainer.model, rows, trainer.settings, reference)
    assert update_loss(trainer, rows)[0] == pytest.approx(expected, abs=1e-6)
    assert abs(token_mean(trainer.model, rows, trainer.settings) - expected) > 1e-3


@pytest.mark.parametrize(
    "changes", [{}, {"segment_loss": True}, {"kl": 0.3}], ids=["plain", "segments", "KL"]
)
def test_the_loss_and_its_gradient_do_not_depend_on_how_an_update_is_cut(
    changes: dict[str, Any], build: Callable[..., RlTrainer]
) -> None:
    whole: tuple[float, Tensor] | None = None
    for size, parts in ((12, 1), (6, 2), (4, 3), (3, 4), (2, 6), (1, 12)):
        trainer = build(micro_batch_size=size, **changes)
        assert trainer.args.gradient_accumulation_steps == parts
        found = update_loss(trainer, twelve_rows(trainer.model))
        whole = whole or found
        assert found[0] == pytest.approx(whole[0], abs=1e-6)
        assert torch.allclose(found[1], whole[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kept", [1, 5, 11])
def test_an_update_with_too_few_rows_is_a_mean_over_those_that_it_has(
    kept: int, build: Callable[..., RlTrainer], random_checkpoint: Path
) -> None:
    reference = AutoModelForCausalLM.from_pretrained(random_checkpoint)
    for size in (12, 3, 1):
        trainer = build(micro_batch_size=size, kl=0.3)
        rows = twelve_rows(trainer.model)[:kept]
        loss, gradient = update_loss(trainer, rows)
        assert loss == pytest.approx(token_mean(trainer.model, rows, trainer.settings, reference), abs=1e-6)
        assert torch.isfinite(gradient).all() and gradient.norm() > 0


def test_an_update_without_rows_changes_nothing(build: Callable[..., RlTrainer]) -> None:
    loss, gradient = update_loss(build(micro_batch_size=4, kl=0.3), [])
    assert loss == 0 and (gradient == 0).all()


def test_with_a_mean_of_its_own_each_segment_weighs_the_same(build: Callable[..., RlTrainer]) -> None:
    trainer = build(micro_batch_size=3, segment_loss=True)
    rows = twelve_rows(trainer.model)
    losses = np.concatenate(token_losses(trainer.model, rows, trainer.settings))
    confidence = np.concatenate([row.response.confidence_T for row in rows])
    expected = losses[~confidence].mean() + losses[confidence].mean()
    assert update_loss(trainer, rows)[0] == pytest.approx(expected, abs=1e-6)
    assert abs(losses.mean() - expected) > 1e-2


@dataclass
class Prepared:
    """A sampler whose next step is known."""

    groups: tuple[ScoredGroup, ...]
    batches: int = 1

    def next_step(self) -> Step:
        return Step(self.groups, self.groups, self.batches)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_each_update_of_a_step_is_a_mean_over_its_own_tokens(
    size: int, build: Callable[..., RlTrainer]
) -> None:
    trainer = build("coca", updates=2, questions=4, micro_batch_size=size)
    random = np.random.default_rng(2)
    groups = []
    for lengths in ((4, 5), (6, 4), (30, 28), (25, 31)):
        (prompt, first), (_, second) = (sampled(trainer.model, random, length, 0.3) for length in lengths)
        stated = Group(np.array([True, False]), random.uniform(size=2), np.array([True, True]))
        groups.append(ScoredGroup("q", prompt, (first, second), stated))
    trainer.sampler = Prepared(tuple(groups))  # type: ignore[assignment]
    parts = trainer.args.gradient_accumulation_steps
    assert parts == 4 // size and trainer.args.steps_per_generation == 2 * parts
    for half in (groups[:2], groups[2:]):
        rows = [row for scored in half for row in rows_of(scored, METHODS["coca"], trainer.settings)]
        batches = [trainer._prepare_inputs({}) for _ in range(parts)]
        loss = sum(trainer._compute_loss(trainer.model, batch).item() for batch in batches)
        assert loss == pytest.approx(token_mean(trainer.model, rows, trainer.settings), abs=1e-6)
    assert not trainer._micro_batches, "a step hands out exactly the turns of its updates"


# --- 3. which tokens learn

TEXTS = [
    ("<think>0399</think><answer>399</answer><confidence>0.90</confidence>", True),
    ("<think>0398+11</think><answer>398</answer><confidence>0.80</confidence>", False),
    ("<think>1</think><answer>399</answer><confidence>0.20</confidence>", True),
    ("<think>2+2</think><confidence>0.30</confidence>", False),  # no answer: the tag alone
    ("<think>7", False),  # neither
]


def scored_texts(trainer: RlTrainer) -> ScoredGroup:
    """`TEXTS` as the trainer's own policy would have sampled and its scorer would read them."""
    tokenizer = trainer.policy.engine.tokenizer
    question = TrainingQuestion("d", "q", ("399",), "exact", (5, 9, 4), None)
    completions = []
    for text, _ in TEXTS:
        ids = (*tokenizer(text)["input_ids"], tokenizer.eos_token_id)
        found = logprobs(trainer.model, question.prompt_ids, ids).astype(np.float32)
        completions.append(Completion(ids, True, found, np.zeros_like(found)))
    (scored,) = trainer.policy.scorer.score([question], [completions])
    assert scored.group.correct_G.tolist() == [correct for _, correct in TEXTS]
    return scored


def gradients_by_token(trainer: RlTrainer, scored: ScoredGroup) -> list[np.ndarray]:
    """How strongly the loss pulls at the prediction of each response token.

    Measured at the last hidden states: TRL never makes all logits at once. Those of a position are a linear function of
    its state alone, of full rank, so that the gradient at the state is zero exactly where it is zero at the logits.
    """
    states: list[Tensor] = []
    hook = trainer.model.model.norm.register_forward_hook(lambda _, __, state: states.append(state))
    (batch,) = trainer._update(rows_of(scored, trainer.method, trainer.settings))
    loss = trainer._compute_loss(trainer.model, batch)
    hook.remove()
    (gradient_B_T_H,) = torch.autograd.grad(loss, states)
    head_V_H = trainer.model.get_output_embeddings().weight
    assert torch.linalg.matrix_rank(head_V_H) == len(head_V_H)
    pulls_B_T = gradient_B_T_H.abs().sum(-1).numpy()
    first = batch["prompt_ids"].shape[1] - 1  # the last prompt token predicts the first of the response
    return [
        row[first : first + len(response.token_ids)]
        for row, response in zip(pulls_B_T, scored.responses, strict=True)
    ]


def test_redoubt_leaves_everything_up_to_the_answer_alone(build: Callable[..., RlTrainer]) -> None:
    trainer = build("redoubt")
    scored = scored_texts(trainer)
    # The tag of six tokens and the end; the tag alone where there is no answer; nothing where there is neither.
    learning = [(-7, None), (-7, None), (-7, None), (-7, -1), (0, 0)]
    rows, pulls = rows_of(scored, trainer.method, trainer.settings), gradients_by_token(trainer, scored)
    for row, pull_T, (start, stop) in zip(rows, pulls, learning, strict=True):
        learns_T = np.zeros(len(row.response.token_ids), dtype=bool)
        learns_T[start:stop] = True
        assert (row.advantages_T[~learns_T] == 0).all() and (row.advantages_T[learns_T] != 0).all()
        assert (pull_T[~learns_T] == 0).all() and (pull_T[learns_T] > 0).all()


def test_rlcr_moves_every_token(build: Callable[..., RlTrainer]) -> None:
    trainer = build("rlcr")
    assert all((pull_T > 0).all() for pull_T in gradients_by_token(trainer, scored_texts(trainer)))


# --- 4. the stage

EVEN = tuple(f"{n:04d}" for n in range(0, 10_000, 2))
# Half of what the short base answers is even: groups with right and wrong responses without a good model.
QUESTIONS = [Question(q.id, q.text, EVEN, "exact", "even") for q in training_questions(12)]
RATES = {("even", q.id): 0.5 for q in QUESTIONS}
QUICK = RlSettings(
    steps=2, questions=4, group_size=4, updates=2, micro_batch_size=4, max_new_tokens=30, learning_rate=1e-4,
    warmup_steps=0, save_every=1,
)  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".pkl")


def train(base: Path, folder: Path, method: str = "dcpo", **changes: Any) -> dict[str, Any]:
    """Train with `QUICK` and some changes; keyword arguments of `train_policy` are told from settings by name."""
    folder.mkdir(exist_ok=True)
    others = {key: changes.pop(key) for key in ("evaluation", "label") if key in changes}
    questions, seed = changes.pop("asked", QUESTIONS), changes.pop("seed", 0)
    settings = RlSettings.model_validate({**QUICK.model_dump(), **changes})
    written = FORMATS["integer"] if method == "c3rl" else FORMAT
    return train_policy(
        str(base), questions, RATES, METHODS[method], settings, written, seed, folder, "cpu", **others
    )


def weights(folder: Path) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def saved(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def journal(folder: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(short_base: Path, tmp_path_factory: pytest.TempPathFactory) -> "Runs":
    """The folder and the facts of a quick run of a method, made once."""

    @cache
    def run(method: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("runs") / method
        return folder, train(short_base, folder, method)

    return run


Runs = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_to_an_ordinary_checkpoint(method: str, runs: Runs, short_base: Path) -> None:
    folder, facts = runs(method)
    before, after = weights(short_base), weights(folder / "model")
    assert after.shape == before.shape and torch.isfinite(after).all() and not torch.equal(after, before)
    files = {path.name for path in (folder / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files
    assert not [path for path in folder.rglob("*") if path.suffix in PICKLES]
    assert not (folder / "checkpoints").exists()
    card = (folder / "model" / "README.md").read_text()
    assert f"Trained by {METHODS[method].title}" in card and METHODS[method].malformed in card
    assert "2 rollout steps of 4 questions" in card and "drawn from 12 questions" in card
    assert (facts["method"], facts["steps"], facts["updates"], facts["questions"]) == (
        METHODS[method].title,
        2,
        4,
        12,
    )
    assert facts["tokens"] > 0 and facts["device"] == "cpu"


def test_methods_train_to_different_weights(runs: Runs) -> None:
    ends = {method: saved(runs(method)[0]) for method in METHODS}
    assert len(set(ends.values())) == len(METHODS)


LOGGED = {
    "step", "loss", "grad_norm", "learning_rate", "pass@1", "ece", "brier", "auroc", "malformed", "distinct_values",
    "confidence_entropy", "effective_support", "top1", "mean_confidence", "response_tokens", "reward_confidence",
    "kept_groups", "generated_groups", "batches", "generated_batches", "updates",
    "seconds/generate", "seconds/verify", "seconds/train",
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_the_journal_has_a_line_per_rollout_step_with_every_figure(method: str, runs: Runs) -> None:
    folder, facts = runs(method)
    lines = journal(folder)
    assert [line["step"] for line in lines] == [1, 2] and [line["updates"] for line in lines] == [2, 4]
    for line in lines:
        assert line.keys() >= LOGGED and ("reward_answer" in line) == (method != "redoubt")
        by_reason = sum(value for key, value in line.items() if key.startswith("malformed/"))
        assert line["malformed"] == pytest.approx(by_reason)
        assert line["generated_groups"] == 4 * line["batches"]
        assert line["kept_groups"] == 4 and 0 < line["pass@1"] < 1 and 0 < line["response_tokens"] <= 30
        assert min(line["seconds/generate"], line["seconds/verify"], line["seconds/train"]) > 0
        assert ("kl" in line) == (method == "rlvr"), "only RLVR is held to its start"
    assert np.cumsum([line["batches"] for line in lines]).tolist() == [
        line["generated_batches"] for line in lines
    ]
    assert facts["generated_batches"] == lines[-1]["generated_batches"]
    assert method != "c3rl" or facts["generated_batches"] == 2, "c3rl drops no group"


def test_the_same_seed_trains_the_same_weights_and_another_seed_others(
    runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    train(short_base, tmp_path / "same")
    train(short_base, tmp_path / "other", seed=1)
    assert saved(tmp_path / "same") == saved(runs("dcpo")[0]) != saved(tmp_path / "other")


def test_the_training_loop_takes_micro_batches_for_one_update(short_base: Path, tmp_path: Path) -> None:
    figures = []
    for size in (16, 4, 1):
        train(short_base, tmp_path / str(size), steps=1, updates=1, micro_batch_size=size)
        (line,) = journal(tmp_path / str(size))
        figures.append((line["loss"], line["grad_norm"]))
    for loss, norm in figures[1:]:
        assert loss == pytest.approx(figures[0][0], abs=1e-6) and norm == pytest.approx(
            figures[0][1], rel=1e-4
        )
    assert figures[0][1] > 0.1


def interrupt_after(updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the training stop dead once it has made so many updates."""
    training_step = RlTrainer.training_step

    def step(self: RlTrainer, *args: Any, **kwargs: Any) -> Tensor:
        if self.state.global_step >= updates:
            raise KeyboardInterrupt
        return training_step(self, *args, **kwargs)

    monkeypatch.setattr(RlTrainer, "training_step", step)


LONG = {"steps": 4, "save_every": 2, "warmup_steps": 1, "seed": 5}


def interrupted(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, **changes: Any
) -> None:
    """Stop in the middle of step 4, two steps after the last checkpoint, then go on."""
    with monkeypatch.context() as patch:
        interrupt_after(7, patch)
        with pytest.raises(KeyboardInterrupt):
            train(base, folder, method, **LONG, **changes)
    assert [line["step"] for line in journal(folder)] == [1, 2, 3]
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["checkpoint-4"]
    train(base, folder, method, **LONG, **changes)


def test_a_resumed_training_ends_where_an_uninterrupted_one_does(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(short_base, tmp_path / "whole", **LONG)
    capsys.readouterr()
    interrupted(short_base, tmp_path / "cut", monkeypatch, "dcpo")
    assert "2 of 4 steps were done before" in capsys.readouterr().err
    assert saved(tmp_path / "cut") == saved(tmp_path / "whole")
    # An epoch means nothing here: questions are planned by position, without end.
    timed = ("seconds", "step_time", "epoch")
    lines = [
        [{k: v for k, v in line.items() if not k.startswith(timed)} for line in journal(tmp_path / name)]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1]
    rates = [line["learning_rate"] for line in lines[0]]
    # Two updates of warm-up, then a cosine over six down to half; a line has the rate of its second update.
    assert rates == pytest.approx(
        [1e-4 * (0.5 if i == 1 else 0.5 + 0.25 * (1 + cos(pi * (i - 2) / 6))) for i in (1, 3, 5, 7)]
    )


def test_a_checkpoint_keeps_the_surplus_and_the_place_in_the_plan(
    build: Callable[..., RlTrainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRPOTrainer, "_save_checkpoint", lambda self, *_: (tmp_path / "checkpoint-6").mkdir())
    monkeypatch.setattr(RlTrainer, "_get_output_dir", lambda self, trial: str(tmp_path))
    old, new = build("coca"), build("coca")
    left = scored_texts(old)
    old.sampler.asked, old.sampler.batches, old.sampler.surplus = 40, 5, [left, left]
    old.state.global_step = 6
    old._save_checkpoint(old.model, None)
    new.load_sampling(tmp_path / "checkpoint-6")
    assert (new.sampler.asked, new.sampler.batches, len(new.sampler.surplus)) == (40, 5, 2)
    for found in new.sampler.surplus:
        pairs = zip(*(rows_of(one, METHODS["coca"], old.settings) for one in (left, found)), strict=True)
        for before, after in pairs:
            assert (after.prompt_ids, after.response.token_ids) == (
                before.prompt_ids,
                before.response.token_ids,
            )
            assert (after.response.logprobs_T == before.response.logprobs_T).all()
            assert (after.advantages_T == before.advantages_T).all() and before.advantages_T.any()


@pytest.mark.parametrize("method", ["rlcr", "rlvr"])
def test_resumed_adapters_end_where_uninterrupted_ones_do(
    method: str, short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"lora": {"rank": 4, "alpha": 8}, "learning_rate": 1e-2}
    train(short_base, tmp_path / "whole", method, **LONG, **changes)
    interrupted(short_base, tmp_path / "cut", monkeypatch, method, **changes)
    assert saved(tmp_path / "cut") == saved(tmp_path / "whole")


def test_running_checkpoints_hold_no_pickle(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("torch.save writes a pickle")

    monkeypatch.setattr(torch, "save", refuse)
    interrupt_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(short_base, tmp_path / "run", "redoubt")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {"", ".json", ".jsonl", ".jinja", ".safetensors"}
    assert {"optimizer.safetensors", "0-random.safetensors", "0-sampling.json"} <= {
        path.name for path in files
    }


def test_adapters_are_merged_into_an_ordinary_checkpoint(short_base: Path, tmp_path: Path) -> None:
    adapters = LoraSettings(rank=4, alpha=8)
    train(short_base, tmp_path / "run", "rlvr", lora=adapters.model_dump(), learning_rate=1e-2)
    files = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert not [name for name in files if "adapter" in name] and "model.safetensors" in files
    before, after = weights(short_base), weights(tmp_path / "run" / "model")
    assert after.shape == before.shape and not torch.equal(after, before)
    first, second = journal(tmp_path / "run")
    assert 0 <= first["kl"] < second["kl"], "the divergence is measured from the start"


def test_gradient_checkpointing_changes_memory_and_not_the_training(short_base: Path, tmp_path: Path) -> None:
    for name, on in (("plain", False), ("checkpointing", True)):
        train(short_base, tmp_path / name, steps=1, gradient_checkpointing=on)
    (plain,), (found,) = journal(tmp_path / "plain"), journal(tmp_path / "checkpointing")
    assert (
        found["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-4) and found["loss"] == plain["loss"]
    )


EVALUATION = EvalSettings(benchmarks=("multiply-1", "cross"), samples=2, max_new_tokens=30)


def test_held_out_evaluations_are_noted_and_leave_the_training_as_it_was(
    runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train(short_base, folder, evaluation=EVALUATION, eval_every=2, eval_questions=3)
    (line,) = journal(folder, "evals.jsonl")
    assert line["step"] == 2 and {"id", "ood"} <= line["splits"].keys()
    assert {line["splits"][split]["n"] for split in ("id", "ood")} == {6}, "three questions, two samples"
    assert saved(folder) == saved(runs("dcpo")[0])


def test_evaluations_use_the_weights_as_they_are_and_a_repeated_one_replaces_its_line(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    changes = {"evaluation": EVALUATION, "eval_every": 1, "eval_questions": 4, "steps": 3, "save_every": 2}
    with monkeypatch.context() as patch:
        interrupt_after(6, patch)
        patch.setattr(RlTrainer, "_maybe_log_save_evaluate", _stop_at(6))
        with pytest.raises(KeyboardInterrupt):
            train(short_base, folder, learning_rate=3e-3, **changes)
    before = journal(folder, "evals.jsonl")
    assert [line["step"] for line in before] == [1, 2, 3]
    train(short_base, folder, learning_rate=3e-3, **changes)
    assert journal(folder, "evals.jsonl") == before, "step 3 was evaluated twice and is noted once"
    assert len({json.dumps(line["splits"]) for line in before}) == 3, "the model changes from one to the next"


def _stop_at(updates: int) -> Callable[..., None]:
    """Stands for the moment after an evaluation and before the step is logged and saved."""
    original = RlTrainer._maybe_log_save_evaluate

    def stop(self: RlTrainer, *args: Any, **kwargs: Any) -> None:
        if self.state.global_step >= updates:
            raise KeyboardInterrupt
        original(self, *args, **kwargs)

    return stop


def test_unanimous_groups_are_refused_or_kept_for_their_confidence(short_base: Path, tmp_path: Path) -> None:
    hard = [replace(question, gold="nothing") for question in QUESTIONS]
    with pytest.raises(
        InputError, match=r"no question had both right and wrong .* \(0 all right, 8 all wrong\)"
    ):
        train(short_base, tmp_path / "dropped", asked=hard, max_batches=2)
    train(short_base, tmp_path / "kept", asked=hard, keep_unanimous=True, steps=1)
    assert not torch.equal(weights(tmp_path / "kept" / "model"), weights(short_base))
    assert journal(tmp_path / "kept")[0]["kept_groups"] == 4


@pytest.mark.parametrize("method", ["rlvr", "rlcr", "c3rl"])
def test_keeping_unanimous_groups_is_refused_where_it_means_nothing(method: str) -> None:
    with pytest.raises(InputError, match=f"keep_unanimous means nothing for {method}"):
        require_fitting(METHODS[method], RlSettings(keep_unanimous=True))
    require_fitting(METHODS[method], RlSettings())


def test_what_does_not_fit_is_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"c3rl is defined for the integer format, not for 'probability'"):
        train_policy("no such model", QUESTIONS, RATES, METHODS["c3rl"], QUICK, FORMAT, 0, tmp_path, "cpu")


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"max_new_tokens": 10, "overlong_buffer": 11}, "overlong_buffer is larger than rl.max_new_tokens"),
        ({"dual_clip": 1.2}, "dual_clip 1.2 must exceed"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        RlSettings(**settings)


@pytest.mark.parametrize("option", ["mean_only", "leave_one_out", "segment_loss"])
def test_an_option_changes_what_is_learnt_and_not_what_is_sampled_first(
    option: str, runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    plain, _ = runs("dcpo")
    train(short_base, tmp_path / "run", **{option: True})
    assert journal(tmp_path / "run")[0]["pass@1"] == journal(plain)[0]["pass@1"]
    assert saved(tmp_path / "run") != saved(plain)


def test_mean_only_leaves_the_deviation_out(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(
        "calibsft.rl.train.run", lambda trainer, *_: seen.append(trainer.method.divide_by_std)
    )
    for method, mean_only in (("dcpo", False), ("dcpo", True), ("redoubt", False)):
        train(short_base, tmp_path / f"{method} {mean_only}", method, mean_only=mean_only)
    assert seen == [True, False, False]


def logs(**changes: float) -> dict[str, float]:
    return {
        "loss": 0.1,
        "pass@1": 0.5,
        "brier": 0.25,
        "distinct_values": 2.0,
        "top1": 0.5,
        "malformed": 0.0,
    } | changes


def test_a_collapse_of_confidence_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    note = _Note()
    for top1 in (0.5, 0.9, 0.91, 0.99):
        note(logs(top1=top1))
    err = capsys.readouterr().err
    assert err.count("warning") == 1 and "91% of the responses state the same confidence" in err
    assert note(logs()) == "Pass@1 0.500, Brier 0.250, 2.0 values per question, Top-1 50%"


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_ends_the_training(loss: float) -> None:
    with pytest.raises(InputError, match=r"no longer finite numbers; lower rl\.learning_rate"):
        _Note()(logs(loss=loss))
    with pytest.raises(InputError, match="no longer finite numbers"):
        _Note()(logs(grad_norm=loss))


def test_a_training_that_diverges_ends_with_that_sentence(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = RlTrainer._compute_loss

    def diverged(self: RlTrainer, model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
        return compute(self, model, inputs) * (torch.nan if self.state.global_step == 3 else 1)

    monkeypatch.setattr(RlTrainer, "_compute_loss", diverged)
    with pytest.raises(InputError, match="no longer finite numbers"):
        train(short_base, tmp_path / "run", steps=3)
    assert (tmp_path / "run" / "checkpoints" / "checkpoint-2").is_dir(), "the first step was whole"
    assert not (tmp_path / "run" / "checkpoints" / "checkpoint-4").exists()


def test_defaults_are_the_methods_own_unless_given() -> None:
    defaults = {name: with_defaults(RlSettings(), method) for name, method in METHODS.items()}
    assert {name: settings.steps for name, settings in defaults.items() if settings.steps != 160} == {
        "redoubt": 80
    }
    assert {name: settings.kl for name, settings in defaults.items() if settings.kl} == {"rlvr": 1e-3}
    given = with_defaults(RlSettings(steps=3, kl=0.0), METHODS["rlvr"])
    assert (given.steps, given.kl) == (3, 0.0)


def test_steps_that_processes_cannot_share_evenly_are_refused() -> None:
    settings = RlSettings(questions=8, group_size=4, updates=2, micro_batch_size=4)
    assert [micro_batches(16, settings, processes) for processes in (1, 2, 4)] == [(4, 4), (4, 2), (4, 1)]
    few = settings.model_copy(update={"micro_batch_size": 16})
    assert micro_batches(16, few, 2) == (8, 1)
    for processes in (3, 8):
        with pytest.raises(InputError, match=f"cannot be shared evenly by {processes} processes"):
            micro_batches(16, settings, processes)
