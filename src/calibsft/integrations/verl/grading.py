"""Grade one response as the reward manager gets it: token ids and a row of the exported data.

Reads and grades as `calibsft rl` does, by the same scorer. Does not import verl.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibsft.engines.engine import Completion
from calibsft.integrations.verl.record import ResponseRecord
from calibsft.integrations.verl.settings import PluginSettings
from calibsft.responses.formats import get_format
from calibsft.rl.methods import get_method
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.scoring import Scorer
from calibsft.verify.judged import load_answer_judge
from calibsft.verify.pool import VerifierPool
from calibsft.verify.verifier import Verifier

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ResponseGrader:
    """Grades the responses of one training; `end_ids` are all ids that end a response.

    verl starts several of these, each in a process of its own. So each has one grading worker.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", end_ids: tuple[int, ...], settings: PluginSettings
    ) -> None:
        self._end_ids = end_ids
        verifier = Verifier(load_answer_judge(settings.judge, cache=None), VerifierPool(1))
        token_set = get_method(settings.rl.name).confidence_tokens
        self._scorer = Scorer(tokenizer, end_ids, get_format(settings.format), token_set, verifier)

    def grade(self, token_ids: Sequence[int], row: Mapping[str, Any]) -> ResponseRecord:
        """The record of a response to the question of `row`."""
        ids = tuple(token_ids)
        # Without stop strings, a response without an end token was cut at its length limit.
        completion = Completion.without_figures(ids, finished=bool(ids) and ids[-1] in self._end_ids)
        (group,) = self._scorer.score([question_of(row)], [[completion]])
        return ResponseRecord.unscored() if group is None else ResponseRecord.of(group)


def question_of(row: Mapping[str, Any]) -> TrainingQuestion:
    """The question of a row of the exported data; its prompt is verl's business."""
    extra = row["extra_info"]
    return TrainingQuestion(
        dataset=str(row["data_source"]),
        id=extra["question_id"],
        golds=tuple(row["reward_model"]["ground_truth"]),
        kind=extra["kind"],
        prompt_ids=(),
        success_rate=extra["success_rate"],
        tolerance=extra["tolerance"],
        text=extra["question"],
    )
