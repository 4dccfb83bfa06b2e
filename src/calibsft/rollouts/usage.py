"""What servers were paid for: the tokens of all requests of a folder, over all parts of interrupted work."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibsft.artifacts import USAGE, write_json
from calibsft.engines.engine import Engine


@contextmanager
def counted(engine: Engine, folder: Path) -> Iterator[None]:
    """Add the tokens that `engine` uses meanwhile to the folder's, if it counts them."""
    before = dict(engine.usage)
    try:
        yield
    finally:
        now = {name: engine.usage[name] - before.get(name, 0) for name in engine.usage}
        if any(now.values()):
            known = read_usage(folder)
            write_json(folder / USAGE, {name: known.get(name, 0) + now[name] for name in now})


def read_usage(folder: Path) -> dict[str, int]:
    """Tokens of prompts and responses as servers count them; empty if none were asked."""
    with suppress(OSError, ValueError):
        found = json.loads((folder / USAGE).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
