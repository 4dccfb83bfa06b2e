"""Find stop strings while sampling, without decoding every row at every step.

Only a token with the last character of a stop string can complete one, so only then the end of the row is decoded.
"""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from calibsft.responses.spans import decode


class StopStrings:
    """Tells which rows just completed a stop string."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, strings: tuple[str, ...]) -> None:
        self._tokenizer, self._strings = tokenizer, strings
        self._tail = max(len(string) for string in strings)
        endings = {string[-1] for string in strings}
        pieces = tokenizer.batch_decode([[i] for i in range(len(tokenizer))])
        self._may_end_V = torch.tensor([bool(endings & set(piece)) for piece in pieces])

    def reached(self, ids_N_T: Tensor, live_B: Tensor, ids_B: Tensor, step: int) -> Tensor:
        """Mask of rows in which a stop string ends inside the token just drawn."""
        candidates_B = self._may_end_V.to(ids_B.device)[ids_B.clamp(max=len(self._may_end_V) - 1)]
        reached_B = torch.zeros_like(candidates_B)
        # Every character takes at most four tokens (bytes), so this tail holds any whole stop string.
        first = max(0, step + 1 - 4 * self._tail)
        for row in candidates_B.nonzero().squeeze(-1).tolist():
            tail = ids_N_T[live_B[row], first : step + 1].tolist()
            before, after = decode(self._tokenizer, tail[:-1]), decode(self._tokenizer, tail)
            reached_B[row] = any(after.count(s) > before.count(s) for s in self._strings)
        return reached_B
