"""`calibsft merge`: put the parts of a rollout together."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from calibsft.cli.options import Out
from calibsft.rollouts.merge import merge as merge_parts


def merge(
    parts: Annotated[
        list[Path], Argument(help="Finished folders of all parts, from `calibsft rollout --shard`.")
    ],
    out: Out,
) -> None:
    """Merge the parts of a rollout that several machines sampled.

    ```sh
    calibsft rollout --model M --questions train.csv --shard 1/2 --out part-1
    calibsft rollout --model M --questions train.csv --shard 2/2 --out part-2
    calibsft merge part-1 part-2 --out rollouts
    ```

    Each machine runs the same rollout with another --shard. The result is the folder that one machine would have written.
    """
    merge_parts(parts, out)
