"""Evaluate the current weights on held-out questions during RL.

Evaluates like `calibsft eval`, on the first questions of each benchmark. `evals.jsonl` gets one line per evaluation; if a
resumed run repeats an evaluation, the new line replaces the old one.
"""

import json
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from calibsft.artifacts import EVALS, write_text
from calibsft.evaluation import Benchmarks, evaluate_with, read_metrics
from calibsft.evaluation.settings import EvalSettings
from calibsft.progress import FIRST_PROCESS
from calibsft.responses.prompts import Prompting
from calibsft.rl.settings import RlSettings
from calibsft.rollouts.collect import make_collector
from calibsft.training.journal import lines_up_to
from calibsft.verify.judged import AnswerJudge

if TYPE_CHECKING:
    from calibsft.rl.trainer import RlTrainer

FOLDER = "evals"


class HeldOutEvaluation(TrainerCallback):  # type: ignore[misc]
    """Evaluates every `settings.eval_every` rollout steps."""

    def __init__(
        self,
        trainer: "RlTrainer",
        evaluation: EvalSettings,
        settings: RlSettings,
        prompting: Prompting,
        seed: int,
        folder: Path,
        label: str,
        judge: AnswerJudge | None = None,
    ) -> None:
        assert settings.eval_every is not None
        self._trainer, self._settings, self._folder, self._label = trainer, settings, folder, label
        self._judge = judge
        self._every = settings.eval_every * settings.updates
        self._evaluation = evaluation.model_copy(update={"budgets": ()})
        self._benchmarks = Benchmarks(self._evaluation, settings.eval_questions)
        self._collector = make_collector(trainer.policy.engine, prompting, evaluation, seed)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._every:
            return
        step, began = state.global_step // self._settings.updates, monotonic()
        with self._trainer.generating():
            if FIRST_PROCESS:
                self._evaluate(step)
        self._trainer.accelerator.wait_for_everyone()
        self._trainer.training_since += monotonic() - began  # evaluating is not training

    def _evaluate(self, step: int) -> None:
        folder = self._folder / FOLDER / f"step-{step:05d}"
        label = f"{self._label}, step {step}"
        evaluate_with(self._collector, self._evaluation, folder, label, self._benchmarks, self._judge)
        line = json.dumps({"step": step, "splits": read_metrics(folder)["splits"]}) + "\n"
        evals = self._folder / EVALS
        write_text(evals, "".join([*lines_up_to(evals, step - 1), line]))
