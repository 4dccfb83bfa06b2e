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
        self._rooms = [_with_room(states, sequences, tokens) for states in (filled.keys, filled.values)]
        self._expose()

    def _expose(self) -> None:
        self.keys, self.values = (room[: self._sequences, :, : self._tokens] for room in self._rooms)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        stop = self._tokens + key_states.shape[-2]
        sequences, _, tokens, _ = self._rooms[0].shape
        if stop > tokens:
            self._rooms = [_with_room(states, sequences, 2 * stop) for states in (self.keys, self.values)]
        for room, states in zip(self._rooms, (key_states, value_states), strict=True):
            room[: self._sequences, :, self._tokens : stop] = states
        self._tokens = stop
        self._expose()
        return self.keys, self.values

    def append_copies(self, parents: Tensor) -> None:
        """Add a copy of each of the sequences `parents` after the last one."""
        self._copy(parents, self._sequences)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._copy(indices, 0)

    def _copy(self, sources: Tensor, start: int) -> None:
        """Copy the sequences `sources` to `start` and after it; what is behind them is dropped."""
        self._sequences = start + len(sources)
        for room, states in zip(self._rooms, (self.keys, self.values), strict=True):
            room[start : self._sequences, :, : self._tokens] = states[sources]
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
