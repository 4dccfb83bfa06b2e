"""What is asked of a server before work begins: is it there, and does it have the right model?"""

import asyncio
from itertools import count

from calibsft.errors import InputError
from calibsft.served.fleet import FIRST_PAUSE, LONGEST_PAUSE
from calibsft.served.pauses import growing_pause
from calibsft.served.role import Role
from calibsft.served.server import BUSY, Failed, Reply, Server

# Digits, tags, spaces, accents and symbols: two tokenizers that split all of it alike are the same for our purposes.
SAMPLE_TEXT = (
    "<think>12*34=408, so 3.14159 < 100.\n\n\tVérifions: l'été à 20°C…</think> <answer>-7</answer>日本語🙂"
)
MAX_NAMES = 5


class Probe:
    """The first requests to a server. A busy one is asked again, one never reached is not there.

    Attributes
    ----------
    reached : whether it has replied to any request.
    """

    def __init__(self, server: Server, retries: int) -> None:
        self.server, self.reached = server, False
        self._retries = retries

    async def ask(self, method: str, path: str, body: Reply | None = None) -> Reply:
        """The reply; raises `Failed`."""
        for attempt in count():
            try:
                reply = await self.server.ask(method, path, body)
                self.reached = True
                return reply
            except Failed as failure:
                passing = failure.status in BUSY or (
                    self.reached and failure.why in ("unreachable", "timeout")
                )
                if not passing or attempt == self._retries:
                    raise
                pause = max(failure.pause, growing_pause(FIRST_PAUSE, LONGEST_PAUSE, attempt))
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def model(self, role: Role, wanted: str | None, own: str | None = None) -> tuple[str, Reply]:
        """The model's name at the server, and what the server lists about it.

        Without a `wanted` name it is `own` or the only one that is listed. A server that lists nothing is assumed to
        have the wanted one: the next request shows that.
        """
        try:
            listed = (await self.ask("GET", "/models")).get("data")
        except Failed as failure:
            if failure.status not in (404, 405) or wanted is None:
                raise
            listed = None
        models = listed if isinstance(listed, list) else []
        found = {m["id"]: m for m in models if isinstance(m, dict) and isinstance(m.get("id"), str)}
        if wanted is not None and not found:
            return wanted, {}
        name = wanted or (next(iter(found)) if len(found) == 1 and own not in found else own)
        if name is not None and name in found:
            return name, found[name]
        names = ", ".join(f"'{known}'" for known in list(found)[:MAX_NAMES]) or "none"
        at = f"{role.who} at {self.server.url}"
        if name is None:
            raise InputError(f"{at} lists {names} and not one model; choose it with {role.model}")
        raise InputError(f"{at} has no model '{name}' (it lists {names}); correct {role.model}")


def served_context(listed: Reply) -> int | None:
    """The context of a model as vLLM and llama.cpp list it; None if the server does not say."""
    meta = listed.get("meta")
    lengths = listed.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None
    return next((length for length in lengths if type(length) is int and length > 0), None)
