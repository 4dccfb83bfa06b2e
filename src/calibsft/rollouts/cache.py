"""Key-value cache layers that grow in place instead of being copied at every token.

Takes over the plain attention layers of a model's own cache after the prefill; layers of any other kind
(sliding windows, recurrent states) are left as the model made them.
"""

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A full-attention layer with spare room behind its last token."""

    def __init__(self, filled: DynamicLayer, capacity: int) -> None:
        super().__init__()
        self.lazy_initialization(filled.keys, filled.values)
        self._length = filled.keys.shape[-2]
        self._key_room = _with_room(filled.keys, capacity)
        self._value_room = _with_room(filled.values, capacity)
        self._expose()

    def _expose(self) -> None:
        self.keys = self._key_room[:, :, : self._length]
        self.values = self._value_room[:, :, : self._length]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        stop = self._length + key_states.shape[-2]
        if stop > self._key_room.shape[-2]:
            self._key_room = _with_room(self.keys, 2 * stop)
            self._value_room = _with_room(self.values, 2 * stop)
        self._key_room[:, :, self._length : stop] = key_states
        self._value_room[:, :, self._length : stop] = value_states
        self._length = stop
        self._expose()
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        self._key_room, self._value_room = self._key_room[indices], self._value_room[indices]
        self._expose()


def _with_room(states: Tensor, capacity: int) -> Tensor:
    batch, heads, length, width = states.shape
    room = torch.empty((batch, heads, max(capacity, length), width), dtype=states.dtype, device=states.device)
    room[:, :, :length] = states
    return room


def make_roomy(cache: DynamicCache, capacity: int) -> None:
    """Replace the plain layers of a filled cache by roomy ones, for sequences of about `capacity` tokens."""
    cache.layers = [
        RoomyLayer(layer, capacity) if type(layer) is DynamicLayer and layer.is_initialized else layer
        for layer in cache.layers
    ]
