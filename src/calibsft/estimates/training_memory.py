"""GPU memory of a training, by part, on the first of its GPUs. Upper bounds, without what fragmentation wastes.

Weights are float32 and computed with in bfloat16, and the optimiser is AdamW, as both trainers have it. DeepSpeed turns the
weights into bfloat16 and keeps float32 ones besides (master weights). Activations are those of the longest rows.
"""

from dataclasses import dataclass

from calibsft.estimates.layouts import Layout, Sharding
from calibsft.estimates.shapes import Shape

Parts = dict[str, float]
FLOAT, HALF = 4, 2
# DeepSpeed's defaults, in parameters: gradients that are sent at once, and gathered weights of ZeRO-3.
BUCKET, LIVE = 5 * 10**8, 10**9
# Columns of logits that are computed at once, by our fine-tuning and by TRL.
LOGIT_COLUMNS = 4096
# These come and go with a micro-batch, so that sampling can use the same memory.
PASSING = ("activations", "logits")
SAMPLING = "sampling"


@dataclass(frozen=True, slots=True)
class Training:
    """What the memory of a training depends on.

    Attributes
    ----------
    rows, tokens
        Of a micro-batch of one process: rows, and tokens of the longest.
    rank
        Of low-rank adapters; None if all weights are trained.
    recomputes
        Whether activations are computed again in the backward pass (gradient checkpointing).
    has_reference
        Whether a copy of the starting model is kept.
    sends_copy
        Whether a GPU makes the copy of the weights that servers get.
    sampled
        Sequences that the trainer samples side by side; 0 if something else samples.
    """

    rows: int
    tokens: int
    rank: int | None
    recomputes: bool
    has_reference: bool = False
    sends_copy: bool = False
    sampled: int = 0


def training_parts(shape: Shape, layout: Layout, training: Training) -> Parts:
    """The bytes of every part."""
    trained = shape.adapters(training.rank) if training.rank else shape.parameters
    total = shape.parameters + (trained if training.rank else 0)
    parts = _state(shape, layout, total, trained, training)
    if training.has_reference:
        parts["reference"] = parts["weights"] * shape.parameters / total
    if training.sends_copy:
        parts["copy for servers"] = HALF * shape.parameters
    parts["activations"] = activations(shape, layout.sharding, training)
    parts["logits"] = 2 * FLOAT * training.rows * training.tokens * min(LOGIT_COLUMNS, shape.vocabulary)
    if training.sampled:
        parts[SAMPLING] = _sampling(shape, layout.sharding, training)
    return {name: 0.0 if name in layout.on_cpu else float(size) for name, size in parts.items()}


def peak(parts: Parts) -> float:
    """Bytes at the worst moment: what is sampled is gone before the next micro-batch."""
    passing = sum(parts.get(name, 0.0) for name in PASSING)
    lasting = sum(parts.values()) - passing - parts.get(SAMPLING, 0.0)
    return lasting + max(passing, parts.get(SAMPLING, 0.0))


def _state(shape: Shape, layout: Layout, total: int, trained: int, training: Training) -> Parts:
    """Weights, gradients, optimiser and the copies that working with them needs."""
    n = layout.processes
    if layout.sharding is Sharding.FSDP2:
        # Two layers are gathered at a time, embedding and head all the time; gradients come for one layer at a time.
        gathered = 2 * shape.layer + shape.embeddings
        reduced = 0 if training.rank else shape.layer + shape.embeddings
        return _sized(FLOAT * total / n, 0, FLOAT * trained / n, trained / n, HALF * (gathered + reduced))
    if layout.sharding in (Sharding.ZERO2, Sharding.ZERO3):
        cut = n if layout.sharding is Sharding.ZERO3 else 1
        live = HALF * min(LIVE, total) if layout.sharding is Sharding.ZERO3 else 0
        buckets = 2 * HALF * min(BUCKET, trained)
        # Gradients are bfloat16, and float32 for the optimiser's step.
        gradients = (HALF + FLOAT) * trained / n
        return _sized(HALF * total / cut, FLOAT * trained / n, gradients, trained / n, live + buckets)
    # Every weight that is computed with is cast; frozen ones are cast again for each layer if activations are recomputed.
    one_layer = training.rank and training.recomputes
    cast = HALF * (shape.layer + shape.vocabulary * shape.hidden if one_layer else total)
    buckets = FLOAT * trained if layout.sharding is Sharding.DDP else 0
    return _sized(FLOAT * total, 0, FLOAT * trained, trained, cast + buckets)


def _sized(weights: float, master: float, gradients: float, optimised: float, copies: float) -> Parts:
    """The parts by name; AdamW keeps two float32 numbers for each of the `optimised` parameters."""
    found = {
        "weights": weights,
        "master weights": master,
        "gradients": gradients,
        "optimiser": 2 * FLOAT * optimised,
        "copies": copies,
    }
    return {name: float(size) for name, size in found.items() if size}


def activations(shape: Shape, sharding: Sharding, training: Training) -> float:
    """What the forward pass keeps for the backward pass: of all layers, or the inputs of all and the rest of one.

    A layer keeps in bfloat16 two normalised inputs, three times the queries (before and after rotation, and the output of
    attention), twice the keys and values, and four times the MLP's inside; in float32 the inside of two norms. Autocast leaves
    more in float32: normalised queries and keys, and the sum that runs through all layers. `bench/activations.py` compares.
    """
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    half = 2 * shape.hidden + 3 * queries + 4 * keys + 4 * shape.intermediate
    inside, through = HALF * half + 4 * FLOAT * shape.hidden, HALF * shape.hidden
    if sharding in (Sharding.ONE, Sharding.DDP):
        inside, through = inside + 6 * queries + 4 * keys, FLOAT * shape.hidden
    kept = shape.layers * through + (1 if training.recomputes else shape.layers) * inside
    return float(training.rows * training.tokens * kept)


def _sampling(shape: Shape, sharding: Sharding, training: Training) -> float:
    """Keys and values of the sequences, in the type of the weights; ZeRO-3 gathers all weights besides."""
    size = HALF if sharding in (Sharding.ZERO2, Sharding.ZERO3) else FLOAT
    cache = size * training.sampled * training.tokens * shape.kept_per_token
    return float(cache + (HALF * shape.parameters if sharding is Sharding.ZERO3 else 0))
