"""Ask the servers once before the gateway opens its port.

A wrong address, name or key is reported at once, instead of deferring every question. The local
model is asked as every question will be asked. Says nothing about later: servers may come and go.
"""

from collections.abc import Sequence
from typing import Any

from calibsft.decisions.policy import Policy
from calibsft.gateway.replies import text_of
from calibsft.gateway.requests import ChatRequest
from calibsft.responses.formats import get_format
from calibsft.served.checks import Probe
from calibsft.served.fleet import run
from calibsft.served.role import Role
from calibsft.served.server import Failed, Server

# A server may have to load its model first.
CHECK_SECONDS = 60.0
QUESTION = {"role": "user", "content": "1+1="}
# Reasoning models refuse to stop after a single one.
TOKENS = 16
# The names of this limit; hosted APIs refuse one or the other.
LIMITS = ("max_tokens", "max_completion_tokens")

Body = dict[str, Any]


def role_of(name: str, key: str) -> Role:
    """The words for problems of the "local" or "strong" server."""
    without = "or start the gateway with --no-check"
    return Role(
        who=f"the {name} model's server",
        gives="chat completions",
        key=key,
        url=f"--{name}",
        model=f"--{name}-model",
        when_slow=f"see whether its model is loaded, {without}",
        when_busy=f"start again later, {without}",
        when_refused=f"correct --{name}-model, {without}",
    )


def local_bodies(policy: Policy) -> Sequence[Body]:
    """A question as the local model is asked it, except for its length."""
    request = ChatRequest({}, (), (QUESTION,), False, False)
    return [request.for_local("", get_format(policy.format), policy) | {"max_tokens": TOKENS}]


def strong_bodies() -> Sequence[Body]:
    """Ways to ask the strong model; the first one that is not refused counts."""
    return [{"messages": [QUESTION], limit: TOKENS} for limit in LIMITS]


def checked_model(
    role: Role, url: str, model: str | None, key: str, bodies: Sequence[Body], timeout: float, retries: int
) -> str:
    """The model's name at the server, which has answered one of `bodies`; else an `InputError`.

    Parameters
    ----------
    model : its name, if it is known; else the only one that the server lists.
    timeout, retries : seconds for each request, and how often a busy server is asked again.
    """
    timeout = min(timeout, CHECK_SECONDS)

    async def check() -> str:
        server = Server(url, key, timeout)
        probe, name = Probe(server, retries), model or ""
        try:
            name, _ = await probe.model(role, model)
            await _answer(probe, [{**body, "model": name} for body in bodies])
        except Failed as failure:
            # One that lists no models where a name is needed is no such server.
            found = Failed("reply") if failure.status == 404 and not name else failure
            raise role.problem(found, url, name, timeout, retries if probe.reached else 0) from None
        finally:
            await server.close()
        return name

    return run(check())


async def _answer(probe: Probe, bodies: Sequence[Body]) -> None:
    """Ask until one of the bodies is not refused; raises `Failed`."""
    for body in bodies:
        try:
            reply = await probe.ask("POST", "/chat/completions", body)
        except Failed as failure:
            if not failure.refused or body is bodies[-1]:
                raise
        else:
            break
    if text_of(reply) is None:
        raise Failed("reply")
