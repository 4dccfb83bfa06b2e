"""Key-value cache layers that grow in place, by tokens and by sequences.

They replace the plain attention layers of a model's own cache after the prefill. A new token is written after the last
one, and splitting a sequence in two copies one row. Layers of other kinds (sliding windows, recurrent states) stay as the
model made them, and are copied as a whole.
"""

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A full-attention layer with spare room after its last token and its last sequence."""

    def __init__(self, filled: DynamicLayer, sequences: int, tokens: int) -> None:
        super().__init__()
        self.lazy_initialization(filled.keys, filled.values)
        self._sequences, _, self._tokens, _ = filled.keys.shape
        self._key_room = _with_room(filled.keys, sequences, tokens)
        self._value_room = _with_room(filled.values, sequences, tokens)
        self._expose()

    def _expose(self) -> None:
        self.keys = self._key_room[: self._sequences, :, : self._tokens]
        self.values = self._value_room[: self._sequences, :, : self._tokens]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        stop = self._tokens + key_states.shape[-2]
        if stop > self._key_room.shape[-2]:
            self._key_room = _with_room(self.keys, len(self._key_room), 2 * stop)
            self._value_room = _with_room(self.values, len(self._value_room), 2 * stop)
        self._key_room[: self._sequences, :, self._tokens : stop] = key_states
        self._value_room[: self._sequences, :, self._tokens : stop] = value_states
        self._tokens = stop
        self._expose()
        return self.keys, self.values

    def append_copies(self, parents: Tensor) -> None:
        """Add a copy of each of the sequences `parents` after the last one."""
        stop = self._sequences + len(parents)
        self._key_room[self._sequences : stop, :, : self._tokens] = self.keys[parents]
        self._value_room[self._sequences : stop, :, : self._tokens] = self.values[parents]
        self._sequences = stop
        self._expose()

    def batch_select_indices(self, indices: Tensor) -> None:
        kept = len(indices)
        self._key_room[:kept, :, : self._tokens] = self.keys[indices]
        self._value_room[:kept, :, : self._tokens] = self.values[indices]
        self._sequences = kept
        self._expose()


def _with_room(states: Tensor, sequences: int, tokens: int) -> Tensor:
    batch, heads, length, width = states.shape
    shape = (max(sequences, batch), heads, max(tokens, length), width)
    room = torch.empty(shape, dtype=states.dtype, device=states.device)
    room[:batch, :, :length] = states
    return room


def make_roomy(cache: DynamicCache, sequences: int, tokens: int) -> None:
    """Replace the plain layers of a filled cache by roomy ones for `sequences` sequences of about `tokens` tokens."""
    cache.layers = [
        RoomyLayer(layer, sequences, tokens)
        if type(layer) is DynamicLayer and layer.is_initialized
        else layer
        for layer in cache.layers
    ]


def append_copies(cache: DynamicCache, parents: Tensor, sequences: int) -> None:
    """Add a copy of each of the sequences `parents` to a cache of `sequences` sequences."""
    everything = torch.cat([torch.arange(sequences, device=parents.device), parents])
    for layer in cache.layers:
        if isinstance(layer, RoomyLayer):
            layer.append_copies(parents)
        else:
            layer.batch_select_indices(everything)
