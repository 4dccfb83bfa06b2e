"""What the RL trainer optimises, and its contract with TRL.

1. TRL still has what is taken over.
2. The loss of an update is a mean over its tokens, however it is cut, and equals a plain NumPy computation.
3. ReDoubt leaves everything up to the answer alone.
4. A checkpoint keeps the surplus and the place in the plan.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
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

from calibsft.engines import default_engine
from calibsft.engines.engine import Completion
from calibsft.models import load_model, load_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.rl.batches import Row, rows_of
from calibsft.rl.method import Group
from calibsft.rl.methods import METHODS
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.sampling import Step
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import MethodSettings
from calibsft.rl.train import (
    make_policy,
    make_trainer,
    policy_engine,
    training_arguments,
)
from calibsft.rl.trainer import RlTrainer
from calibsft.training.adapters import with_adapters
from calibsft.training.settings import LoraSettings
from calibsft.verify.verifier import Verifier

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
        settings = METHODS[method].settings(**{**sizes, "kl": 0.0, **changes})
        model = load_model(str(random_checkpoint), "cpu", "float32")
        if settings.lora:
            model = with_adapters(model, settings.lora)
        tokenizer = load_tokenizer(str(random_checkpoint))
        sampler = policy_engine(model, "", tokenizer, settings, default_engine(), tmp_path)
        policy = make_policy(*sampler, FORMAT, METHODS[method], settings, 0, Verifier())
        arguments = training_arguments(settings, 0, tmp_path, "cpu", "rl")
        trainer = make_trainer(model, policy, [], METHODS[method], settings, 0, arguments)
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
    model: PreTrainedModel,
    rows: list[Row],
    settings: MethodSettings,
    reference: PreTrainedModel | None = None,
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
        loss = GRPOTrainer._compute_loss(trainer, trainer.model, batch).item()
        assert loss == pytest.approx(-1 / tokens, rel=1e-6), "TRL no longer takes advantages of shape (B, T)"
        batch["advantages"][row, token] = 0.0
        batch["advantages"][1, 13] = 2.0
        assert GRPOTrainer._compute_loss(trainer, trainer.model, batch).item() == pytest.approx(
            -2 / tokens, rel=1e-6
        )
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
        assert abs(token_mean(trainer.model, rows, METHODS["rlcr"].settings()) - expected) > 1e-3, (
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
    "changes",
    [{}, {"method": "coca", "segment_loss": True}, {"kl": 0.3}],
    ids=["plain", "segments", "KL"],
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


@pytest.mark.parametrize("kept", [0, 1, 7, 12])
def test_every_micro_batch_has_the_same_number_of_rows_however_few_were_kept(
    kept: int, build: Callable[..., RlTrainer]
) -> None:
    trainer = build(micro_batch_size=4, kl=0.3)
    rows = twelve_rows(trainer.model)[:kept]
    batches = trainer._update(rows)
    assert [{len(tensor) for tensor in batch.values() if tensor.dim()} for batch in batches] == [{4}] * 3
    assert sum(int(batch["completion_mask"].any(1).sum()) for batch in batches) == kept


def test_an_update_without_rows_changes_nothing(build: Callable[..., RlTrainer]) -> None:
    loss, gradient = update_loss(build(micro_batch_size=4, kl=0.3), [])
    assert loss == 0 and (gradient == 0).all()


def test_with_a_mean_of_its_own_each_segment_weighs_the_same(build: Callable[..., RlTrainer]) -> None:
    trainer = build("coca", micro_batch_size=3, segment_loss=True)
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
    size = len(scored.responses)
    assert (pulls_B_T[size:] == 0).all(), "rows that fill the micro-batch up learn nothing"
    return [
        row[first : first + len(response.token_ids)]
        for row, response in zip(pulls_B_T[:size], scored.responses, strict=True)
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


# --- 4. its checkpoint


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
