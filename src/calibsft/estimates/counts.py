"""How many responses, steps and rows the stages of a plan have. Reads questions that are here; asks no network.

The size of a benchmark on the Hub is the published one. What RL evaluates on the way is not counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.benchmarks import BENCHMARKS, Benchmark
from calibsft.benchmarks.files import load_questions
from calibsft.pipeline import Planned
from calibsft.questions import QuestionSettings, evaluated_benchmark, shown_name
from calibsft.responses.formats import get_format
from calibsft.rl.methods import get_method
from calibsft.schema import LABEL
from calibsft.stages.base import BaseStage
from calibsft.stages.build import BuildStage
from calibsft.stages.evaluate import EvalStage
from calibsft.stages.rl import RlStage
from calibsft.stages.rollout import RolloutStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage
from calibsft.targets import get_target

Stages = Mapping[str, Planned]


@dataclass(frozen=True, slots=True)
class Counts:
    """What one stage does.

    Attributes
    ----------
    responses
        That it samples; of RL those that it trains on, since dynamic sampling decides how many more it samples. None if not
        known before.
    longest
        Tokens of a response at most.
    steps, per_step
        Steps of a training, and the responses that each trains on.
    values
        Distinct targets of a training set, which has as many rows of each as of the rarest.
    filters
        Whether it samples until a step is full of groups with right and wrong responses.
    """

    responses: int | None = 0
    longest: int = 0
    steps: int = 0
    per_step: int = 0
    values: int = 0
    filters: bool = False

    @property
    def tokens(self) -> int | None:
        """Tokens of the responses that it samples or trains on, at most."""
        return (
            None if self.responses is None else max(self.responses, self.steps * self.per_step) * self.longest
        )


def counts_of(planned: Planned, stages: Stages) -> Counts:
    """The counts of one stage; `stages` are all of the plan, by name."""
    count = COUNTED.get(type(planned.stage))
    return count(planned.stage, [stages[name] for name in planned.needs]) if count else Counts()


def balanced_rows(values: int, smallest_group: int) -> int:
    """Rows of a balanced training set: as many of every target as there are of the rarest."""
    return values * smallest_group


def _of_rollout(stage: RolloutStage, needs: list[Planned]) -> Counts:
    asked = _asked(stage.questions)
    samples, longest = stage.rollout.samples, stage.rollout.max_new_tokens
    return Counts(None if asked is None else asked * samples, longest)


def _asked(settings: QuestionSettings) -> int | None:
    """How many questions are asked; None for a benchmark of unknown size."""
    if settings.source in BENCHMARKS:
        found = _size(BENCHMARKS[settings.source])
    else:
        found = len(load_questions(Path(settings.source)))
    return None if found is None else _chosen(max(found - (settings.offset or 0), 0), settings)


def _size(benchmark: Benchmark) -> int | None:
    return len(benchmark.embedded()) if benchmark.embedded else benchmark.size


def _chosen(questions: int, settings: Any) -> int:
    """How many of `questions` are left by the `subset` and the `limit` of some settings."""
    return min(most for most in (questions, settings.subset, settings.limit) if most is not None)


def _of_eval(stage: EvalStage, needs: list[Planned]) -> Counts:
    responses = 0
    for name in dict.fromkeys(stage.eval.benchmarks):
        benchmark, asked = evaluated_benchmark(name), stage.eval.asked(shown_name(name))
        size = _size(benchmark)
        if size is None:
            return Counts(None, stage.eval.max_new_tokens)
        responses += _chosen(size, asked) * (asked.samples or benchmark.samples)
    return Counts(responses, stage.eval.max_new_tokens)


def _of_build(stage: BuildStage, needs: list[Planned]) -> Counts:
    sampled = next(planned.stage for planned in needs if isinstance(planned.stage, RolloutStage))
    settings = stage.targets
    target = get_target(settings.name)
    if target.evidence or target.imitates or not settings.balance:
        return Counts()
    n = settings.samples or sampled.rollout.samples
    # Every number of correct responses, with a correct and a wrong response where there is one.
    outcomes = [
        (k, n, correct) for k in range(n + 1) for correct in (True, False) if (k if correct else n - k)
    ]
    rows = pl.DataFrame(outcomes, ["k", "n", "correct"], orient="row")
    keys = pl.DataFrame(
        {"dataset": "", "question_id": rows["k"].cast(pl.String), "sample": rows["correct"].cast(pl.Int32)}
    )
    labels = target.label(keys.hstack(rows), settings)
    written = get_format(stage.format)
    exact = labels.drop_nulls(LABEL).select(LABEL).unique().iter_rows()
    values = len({target.strata(Fraction(*label), written) for label in exact})
    return Counts(longest=sampled.rollout.max_new_tokens, values=values)


def _of_sft(stage: SftStage, needs: list[Planned]) -> Counts:
    return Counts(longest=stage.sft.max_tokens, steps=stage.sft.steps, per_step=stage.sft.batch_size)


def _of_rl(stage: RlStage, needs: list[Planned]) -> Counts:
    rl, per_step = stage.rl, stage.rl.questions * stage.rl.group_size
    filters = get_method(rl.name).keeps_mixed_only(rl)
    return Counts(rl.steps * per_step, rl.max_new_tokens, rl.steps, per_step, filters=filters)


def _of_base(stage: BaseStage, needs: list[Planned]) -> Counts:
    return Counts(steps=stage.base.steps)


COUNTED: dict[type[Stage], Callable[[Any, list[Planned]], Counts]] = {
    BaseStage: _of_base,
    RolloutStage: _of_rollout,
    BuildStage: _of_build,
    SftStage: _of_sft,
    RlStage: _of_rl,
    EvalStage: _of_eval,
}
