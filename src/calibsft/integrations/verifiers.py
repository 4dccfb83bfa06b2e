"""An environment for `verifiers`: questions, this package's parser, and a method's reward.

`verifiers` knows it as `calibsft-verifiers`. A method whose rewards differ between the answer and
the confidence, or that needs success rates, is refused: one number per response cannot say that.
Does not ask a judge.
"""

from importlib.metadata import version

import verifiers.v1 as vf
from anyio import to_thread

from calibsft.errors import InputError
from calibsft.integrations.one_answer import grade_answer
from calibsft.questions import QuestionSettings, asked_questions
from calibsft.responses.formats import get_format, messages
from calibsft.responses.parse import parse
from calibsft.rl.method import Method
from calibsft.rl.methods import METHODS, get_method, method_settings
from calibsft.rl.reward_functions import completion_text, reward_of
from calibsft.schema import Grade

__all__ = ["ConfidenceTaskset"]


class QuestionData(vf.TaskData):
    """A question with what counts as right."""

    gold: tuple[str, ...]
    kind: str
    tolerance: str = ""


class ConfidenceConfig(vf.TaskConfig):
    """How responses are read and rewarded."""

    method: str = ""
    """The method of `calibsft ls methods` whose reward a response gets."""
    format: str = "probability"
    """The confidence format that is asked for."""


class ConfidenceTask(vf.Task[QuestionData, vf.State, ConfidenceConfig]):
    @vf.reward
    async def confidence_reward(self, trace: vf.Trace) -> float:
        """The method's reward; also records what it was made of."""
        written, method = get_format(self.config.format), get_method(self.config.method)
        turns = [turn.model_dump() for turn in trace.assistant_messages[-1:]]
        parsed = parse(completion_text(turns) if turns else "", written, finished=not trace.is_truncated)
        data = self.data
        grade = await to_thread.run_sync(grade_answer, data.kind, data.gold, parsed.answer, data.tolerance)
        settings = method_settings(method.name, {}, "calibsft-verifiers")
        reward = reward_of(method, settings, parsed, grade, None)
        if reward is None:
            raise InputError(
                f"question '{data.id}': its gold is unreadable; fix it or leave the question out"
            )
        trace.record_metrics(
            {
                "correct": float(grade is Grade.CORRECT),
                "confidence": parsed.confidence or 0.0,
                "well_formed": float(parsed.ok),
            }
        )
        return reward


def _suitable(name: str) -> Method:
    """The method `name`; refuses one whose reward is not one number for a response alone."""
    suitable = [one for one, method in METHODS.items() if method.is_scalar and not method.needs_success_rate]
    if name not in suitable:
        raise InputError(
            f"'{name}' is no method that gives one number per response, which is all that verifiers knows; set task.method to"
            f" {' or '.join(suitable)}, or train with calibsft rl"
        )
    return get_method(name)


class QuestionsConfig(vf.TasksetConfig):
    """Which questions are asked."""

    questions: str = ""
    """A benchmark of `calibsft ls benchmarks`, or a file of questions."""
    data_dir: str | None = None
    """A folder with the benchmark's files, instead of the Hub."""
    task: ConfidenceConfig = ConfidenceConfig()


class ConfidenceTaskset(vf.Taskset[ConfidenceTask, QuestionsConfig]):
    """The questions, each with the system prompt of the confidence format."""

    def load(self) -> list[ConfidenceTask]:
        if not self.config.questions:
            raise InputError("no questions are named; add --env.taskset.questions with a benchmark or a file")
        written = get_format(self.config.task.format)
        _suitable(self.config.task.method).require_format(written)
        tasks = []
        for question in asked_questions(
            QuestionSettings(source=self.config.questions, data_dir=self.config.data_dir)
        ):
            system, asked = messages(question.text, written)
            data = QuestionData(
                id=question.id,
                system_prompt=system["content"],
                prompt=asked["content"],
                gold=question.golds,
                kind=question.grader,
                tolerance=question.tolerance,
            )
            tasks.append(ConfidenceTask(data, self.config.task))
        return tasks


def registered() -> str:
    """What `verifiers` finds; raises if it finds no environment."""
    from verifiers.v1.utils.loaders import taskset_class

    found = taskset_class("calibsft-verifiers")
    return f"verifiers {version('verifiers')} has the taskset 'calibsft-verifiers' ({found.__name__})"
