"""GPU memory of what samples: an engine in this process, or a server of the policy. Upper bounds.

An engine or server that takes a share of each GPU takes that much, whatever it needs; the rest of the share holds keys and
values. Knows no engine: each says what it takes.
"""

from collections.abc import Sequence

from calibsft.engines.settings import Occupied
from calibsft.estimates.shapes import Shape
from calibsft.estimates.training_memory import FLOAT, HALF, Parts

# Bytes of a weight by the `dtype` of a recipe; "auto" is bfloat16 on a GPU.
BYTES = {"float32": FLOAT}
# vLLM's own default, and the option that changes it.
SERVED_SHARE, SHARE_OPTION = 0.9, "gpu-memory-utilization="


def engine_parts(shape: Shape, taken: Occupied, dtype: str, tokens: int, memory: float | None) -> Parts:
    """The parts on each of an engine's GPUs; `tokens` of a prompt and its response at most."""
    size = BYTES.get(dtype, HALF)
    weights = size * shape.parameters / taken.gpus
    one_row = size * tokens * shape.kept_per_token / taken.gpus
    rows = one_row * (taken.rows or 1)
    if taken.share is not None and memory is not None:
        # Less than one row cannot be sampled, so that is what is missing then.
        rows = max(taken.share * memory - weights, one_row)
    return {"weights": weights, "keys and values": float(rows)}


def server_share(command: Sequence[str]) -> float:
    """The share of each GPU's memory that a server of the policy takes, as its command says."""
    given = [word.removeprefix("--") for word in command]
    shares = [word.removeprefix(SHARE_OPTION) for word in given if word.startswith(SHARE_OPTION)]
    try:
        return float(shares[-1]) if shares else SERVED_SHARE
    except ValueError:
        return SERVED_SHARE


def server_parts(shape: Shape, gpus: int, command: Sequence[str], tokens: int, memory: float | None) -> Parts:
    """What a server of the policy takes of each of its GPUs, as one part."""
    taken = Occupied(gpus, server_share(command), None)
    return {"server": sum(engine_parts(shape, taken, "auto", tokens, memory).values())}
