"""Texts as unit vectors: the mean of an encoder's last hidden states over the tokens of the text.

A text longer than the encoder's context is truncated. Does not decide what is similar.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from calibsft.errors import InputError
from calibsft.models import context_length, load_encoder

# The context of an encoder whose configuration does not name it.
LONGEST = 32_768


class Embedder:
    """Embeds with the encoder of a checkpoint folder or Hub id, `batch_size` texts at a time."""

    def __init__(self, model: str, device: str, dtype: str, batch_size: int) -> None:
        self._name, self._batch_size = model, batch_size
        self._model, self._tokenizer = load_encoder(model, device, dtype)
        self._context = min(self._tokenizer.model_max_length, context_length(self._model) or LONGEST)

    def embed(
        self, texts: Sequence[str], on_done: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """One unit vector per text, in order, as (texts, dimensions); zeros for a text without tokens.

        `on_done` takes how many are done so far.
        """
        ids = self._tokenizer(list(texts), truncation=True, max_length=self._context)["input_ids"]
        # Texts of similar length need little padding.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            vectors |= zip(batch, self._vectors([ids[i] or [0] for i in batch]), strict=True)
            if on_done:
                on_done(len(vectors))
        vectors_N_D = np.stack([vectors[i] for i in range(len(ids))])
        vectors_N_D[[i for i, tokens in enumerate(ids) if not tokens]] = 0
        if not np.isfinite(vectors_N_D).all():
            raise InputError(
                f"{self._name}: the encoder gives vectors that are not finite; set dtype to float32"
            )
        return vectors_N_D

    @torch.inference_mode()
    def _vectors(self, rows: list[list[int]]) -> NDArray[np.float32]:
        ids = [torch.tensor(row) for row in rows]
        ids_B_T = pad_sequence(ids, batch_first=True).to(self._model.device)
        mask_B_T = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True).to(ids_B_T.device)
        hidden_B_T_D = self._model(input_ids=ids_B_T, attention_mask=mask_B_T).last_hidden_state.float()
        summed_B_D = (hidden_B_T_D * mask_B_T[..., None]).sum(dim=1)
        # As unit vectors, the sum and the mean are the same.
        return torch.nn.functional.normalize(summed_B_D, dim=1).cpu().numpy()
