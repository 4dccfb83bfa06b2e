"""`calibsft merge`: put the parts of a rollout together."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from calibsft.cli.options import Out
from calibsft.rollouts.merge import merge as merge_parts


def merge(
    parts: Annotated[list[Path], Argument(help="Finished folders of calibsft rollout --shard, all of them.")],
    out: Out,
) -> None:
    """Merge the parts of a rollout that several machines sampled.

    Each machine runs the same `calibsft rollout ... --shard I/N --out part-I`; then `calibsft merge part-* --out rollouts`
    leaves the folder that one machine would have left.
    """
    merge_parts(parts, out)
