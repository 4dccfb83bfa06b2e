"""The shape of a model, as far as memory and disk depend on it.

From a checkpoint's own files, in a folder or in the Hub's cache, or recorded here for the paper's main model. A model whose
shape is not known stays unknown: nothing is guessed from its name. Asks no network.
"""

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from calibsft.hub import name_and_revision, snapshot


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder of equal layers, each with attention and a gated MLP."""

    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool  # whether the output head is the embedding

    @property
    def embeddings(self) -> int:
        """Parameters of embedding and output head."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        return (self.parameters - self.embeddings) // self.layers

    @property
    def kept_per_token(self) -> int:
        """Keys and values of one token, in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def adapters(self, rank: int) -> int:
        """Parameters of low-rank adapters of all linear layers but the head: rank x (inputs + outputs) of each."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + queries) + 2 * (self.hidden + keys)
        return rank * self.layers * (attention + 3 * (self.hidden + self.intermediate))


RECORDED = {
    "Qwen/Qwen3-8B": Shape(
        parameters=8_190_735_360,
        layers=36,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=12_288,
        vocabulary=151_936,
        tied=False,
    )
}


def shape_of(model: str) -> Shape | None:
    """The shape of a checkpoint folder or Hub id; None if it is not known here."""
    name, revision = name_and_revision(model)
    folder = Path(model) if Path(model).is_dir() else snapshot(name, revision)
    found = _read(folder) if folder else None
    return found or RECORDED.get(name)


def _read(folder: Path) -> Shape | None:
    """The shape that a checkpoint's configuration and weights say; None if they are not those of a plain decoder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        parameters = sum(map(_parameters, sorted(folder.glob("*.safetensors"))))
        return _shape(config, parameters) if parameters else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError):
        return None


def _parameters(weights: Path) -> int:
    with safe_open(weights, framework="numpy") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def _shape(config: dict[str, Any], parameters: int) -> Shape:
    text = config.get("text_config") or config
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    found = (
        text["num_hidden_layers"],
        hidden,
        heads,
        text.get("num_key_value_heads") or heads,
        text.get("head_dim") or hidden // heads,
        text["intermediate_size"],
        text["vocab_size"],
    )
    if not all(type(number) is int and number > 0 for number in found):
        raise ValueError("not equal layers")
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", True))
    return Shape(parameters, *found, tied=bool(tied))
