"""Connect to the servers of a policy: check that each is there, takes weights, and holds the model that is trained.

All of this happens before the first step, so a wrong address, model or tokenizer is reported at once.
"""

from pathlib import Path
from typing import Any

from calibsft.engines.engine import Model, Tokenizer
from calibsft.engines.policy import KEY, PolicyServers
from calibsft.engines.policy.engine import PolicyEngine
from calibsft.engines.policy.fleet import PolicyFleet
from calibsft.engines.policy.weights import SENDERS
from calibsft.errors import InputError
from calibsft.models import named_end_ids
from calibsft.served.checks import SAMPLE_TEXT, served_context
from calibsft.served.role import Role
from calibsft.served.server import Failed, Server

ROLE = Role(
    who="the policy's server",
    gives="responses",
    key=KEY,
    url="rl.servers.urls",
    model="the server's model",
    when_slow="raise rl.servers.timeout or lower rl.servers.concurrency",
    when_busy="lower rl.servers.concurrency, or run again later",
    when_refused="serve the policy with calibsft policy-server",
)
SHAPES = ("vocab_size", "hidden_size", "num_hidden_layers")


def connect(
    servers: PolicyServers, model: Model, name: str, tokenizer: Tokenizer, folder: Path
) -> PolicyEngine:
    """An engine of `servers`, for `model` in training, which was loaded as `name`; weights may be kept in `folder`."""
    sender = SENDERS[servers.weights](servers, folder)
    limits = (servers.concurrency, servers.timeout, servers.retries)
    fleet = PolicyFleet(ROLE, servers.urls, name, *limits, load=sender.load)
    checked = fleet.ask_each(lambda server: _check(fleet, server, model, tokenizer))
    names = {served for served, _ in checked}
    if len(names) > 1:
        raise InputError(
            "the servers in rl.servers.urls name their model differently; serve one model under one name"
        )
    (fleet.model,) = names
    contexts = [context for _, context in checked if context is not None]
    end_ids = named_end_ids(tokenizer, name)
    return PolicyEngine(
        fleet, sender, tokenizer, end_ids, min(contexts, default=None), servers.importance_cap
    )


async def _check(
    fleet: PolicyFleet, server: Server, model: Model, tokenizer: Tokenizer
) -> tuple[str, int | None]:
    """The name of the model at a server, and its context in tokens; refuses a server that cannot be used."""
    try:
        listed = (await server.ask("GET", "/v1/models")).get("data")
        if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
            raise Failed("reply")
        served = str(listed[0].get("id"))
        await _require_extension(server)
        _require_same_shapes(server, model, await _shapes(server))
        ids = (await server.ask("POST", "/tokenize", {"model": served, "prompt": SAMPLE_TEXT})).get("tokens")
    except Failed as failure:
        raise fleet.problem(failure, server.url) from None
    if ids != list(tokenizer(SAMPLE_TEXT, verbose=False)["input_ids"]):
        raise InputError(
            f"{ROLE.who} at {server.url} has another tokenizer than the model in training; serve that model"
        )
    return served, served_context(listed[0])


async def _require_extension(server: Server) -> None:
    """Refuse a server that takes no weights."""
    for method, path, body in (
        ("GET", "/weight_info", None),
        ("POST", "/collective_rpc", {"method": "policy_shapes"}),
    ):
        try:
            await server.ask(method, path, body)
        except Failed as failure:
            if failure.status in (404, 405, 500):
                raise InputError(
                    f"{ROLE.who} at {server.url} takes no weights from a trainer; start it with calibsft policy-server"
                ) from None
            raise


async def _shapes(server: Server) -> dict[str, Any]:
    results = (await server.ask("POST", "/collective_rpc", {"method": "policy_shapes"})).get("results")
    match results:
        case [dict(first), *_]:
            return first
    raise Failed("reply")


def _require_same_shapes(server: Server, model: Model, theirs: dict[str, Any]) -> None:
    config = model.config.get_text_config()
    for name in SHAPES:
        own = getattr(config, name, None)
        if theirs.get(name) != own:
            raise InputError(
                f"{ROLE.who} at {server.url} holds another model: its {name} is {theirs.get(name)}, that of the model in"
                f" training {own}; serve the model that is trained"
            )
