"""verl's reward manager with this package's parser and verifier.

verl gets one number per response, whether it is right and well formed, for its own figures. The rewards of a method need
the whole group and go to segments, so the trainer computes them, from the record that comes with the number.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from calibsft.integrations.verl.grading import ResponseGrader
from calibsft.integrations.verl.settings import read_section
from calibsft.models import named_end_ids


class CalibRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Grades responses one after another; an answer that hangs is ended and counts as wrong."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **unused: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        end_ids = named_end_ids(tokenizer, config.actor_rollout_ref.model.path)
        self._grader = ResponseGrader(tokenizer, end_ids, read_section(config))
        # One thread: grading waits for its worker process, and verl's event loop must go on meanwhile.
        self._thread = ThreadPoolExecutor(max_workers=1)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The score and the record of one response."""
        item = data[-1]
        ids, mask = item.batch["responses"], item.batch["attention_mask"]
        length = int(mask[-len(ids) :].sum())
        record = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._grader.grade, ids[:length].tolist(), item.non_tensor_batch
        )
        return {"reward_score": float(record.counted), "reward_extra_info": record.extra_info()}
