"""A process's part of a training that DeepSpeed has cut by ZeRO: master weights and optimiser state as plain data.

DeepSpeed's own checkpoints are pickles. Its optimiser gives and takes the same state; objects in it, such as the loss scaler,
do not change while training in bfloat16 or float32, so those of the new process stay.
"""

from typing import Any

from torch import Tensor

Plain = Tensor | str | int | float | None


def zero_state(engine: Any) -> dict[str, Any]:
    """This process's part."""
    return {name: value for name, value in engine.optimizer.state_dict().items() if _is_plain(value)}


def load_zero_state(engine: Any, state: dict[str, Any]) -> None:
    """Load this process's part, and give the model the weights in it."""
    optimizer = engine.optimizer
    whole = {**optimizer.state_dict(), **state}
    cuts_weights = hasattr(optimizer, "checkpoint_event_prologue")
    if cuts_weights:
        optimizer.checkpoint_event_prologue()
    # It takes a list of the parts of all processes and looks at its own alone.
    optimizer.load_state_dict([whole] * engine.dp_world_size, load_from_fp32_weights=True)
    if cuts_weights:
        optimizer.checkpoint_event_epilogue()
    else:
        optimizer.update_lp_params()


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str | int) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, Plain)
