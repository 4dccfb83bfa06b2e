"""How RL samples and learns: the settings of all methods, and the base class of each method's own settings."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from calibsft.engines.policy import PolicyServers
from calibsft.errors import InputError
from calibsft.settings import Mark, Settings, Stop
from calibsft.training.settings import LoraSettings, Watchers

EVAL_QUESTIONS = 100
Steps = Annotated[int, Field(ge=1, description="rollout steps; a step samples, then updates")]
Kl = Annotated[
    float, Field(ge=0, description="weight of the KL divergence from the starting model (TRL: beta)")
]


class RlSettings(Settings):
    """The settings of all methods, with the paper's defaults. A step is a rollout step, which has several updates."""

    title: ClassVar[str] = "Training"

    steps: Steps | None = None
    questions: int = Field(64, ge=1, description="questions per rollout step")
    group_size: int = Field(8, ge=2, description="responses per question (TRL: num_generations)")
    updates: int = Field(2, ge=1, description="optimiser updates per rollout step")
    micro_batch_size: int = Field(
        8,
        ge=1,
        description="responses in one forward pass of a GPU; lower it when out of memory",
    )
    learning_rate: float = Field(2e-6, gt=0, description="peak learning rate of AdamW")
    warmup_steps: int = Field(10, ge=0, description="rollout steps until the peak rate is reached")
    final_rate: float = Field(
        0.5, ge=0, le=1, description="share of the peak rate at which the cosine schedule ends"
    )
    clip_low: float = Field(
        0.2, gt=0, lt=1, description="clip the probability ratio below 1 - this (TRL: epsilon)"
    )
    clip_high: float = Field(
        0.28, gt=0, description="clip the probability ratio above 1 + this (TRL: epsilon_high)"
    )
    dual_clip: float | None = Field(
        None,
        gt=1,
        description="upper bound of the ratio where the advantage is negative (TRL: delta); default: none",
    )
    kl: Kl | None = None
    max_prompt_tokens: int = Field(
        2048, ge=1, description="leave out questions whose prompt is longer, in tokens"
    )
    max_new_tokens: int = Field(8192, ge=1, description="longest response, in tokens")
    stop: Stop = ()
    max_batches: int = Field(
        20, ge=1, description="batches of responses to sample for one step, until it has enough groups"
    )
    save_every: Annotated[int, Mark.ADJUSTABLE, Field(ge=1, description="steps between checkpoints")] = 10
    eval_every: int | None = Field(
        None, ge=1, description="steps between evaluations on --benchmarks; default: no evaluations"
    )
    eval_questions: int = Field(
        EVAL_QUESTIONS, ge=1, description="questions of each benchmark in each of these evaluations"
    )
    report_to: Watchers = ()
    gradient_checkpointing: bool = Field(False, description="compute activations twice to save memory")
    lora: LoraSettings | None = None
    policy: Annotated[
        Literal["trainer", "served"],
        Mark.ADJUSTABLE,
        Field(
            description="who samples: the trainer itself, or vLLM servers that get new weights after every step"
        ),
    ] = "trainer"
    servers: Annotated[PolicyServers | None, Mark.ADJUSTABLE] = None

    @model_validator(mode="after")
    def _served_policy_has_servers(self) -> Self:
        if self.policy != "served" and self.servers is not None:
            raise InputError("rl.servers means nothing unless rl.policy is served; set that, or leave it out")
        return self

    @model_validator(mode="after")
    def _numbers_go_together(self) -> Self:
        if self.questions % self.updates:
            raise ValueError(f"rl.questions {self.questions} is not a multiple of rl.updates {self.updates}")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError(
                f"rl.dual_clip {self.dual_clip} must exceed 1 + rl.clip_high, or it would bound good responses too"
            )
        if self.eval_every is None and self.eval_questions != EVAL_QUESTIONS:
            raise InputError(
                "rl.eval_questions means nothing without rl.eval_every; give both, or leave it out"
            )
        rows = self.questions // self.updates * self.group_size
        if rows % min(self.micro_batch_size, rows):
            raise ValueError(
                f"the {rows} responses of an update (rl.questions x group_size / updates) are not a multiple of"
                f" rl.micro_batch_size {self.micro_batch_size}"
            )
        return self


class MethodSettings(RlSettings):
    """The base class of each method's own settings; the defaults are the values that the method was tried with."""

    name: str
    steps: Steps = 160
    kl: Kl = 0.0

    def option(self, name: str) -> Any:
        """The value of a setting that only some methods have; None if this one does not."""
        return getattr(self, name, None)
