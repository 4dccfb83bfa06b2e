"""Start a gateway: check the settings, open the port, serve until stopped."""

import gc
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from calibsft.decisions.policy import DEFER, WARN, Policy
from calibsft.errors import InputError
from calibsft.gateway.app import App, Serving
from calibsft.gateway.check import checked_model, local_bodies, role_of, strong_bodies
from calibsft.gateway.connections import limited, most_connections
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.labels import Labels
from calibsft.gateway.meters import Meters
from calibsft.gateway.upstream import Upstream
from calibsft.monitoring import FeedbackStore
from calibsft.progress import info
from calibsft.served.keys import COMMON_KEY, NO_KEY, key_from

# The variables that may hold the key of each server.
KEYS = {"local": ("CALIBSFT_LOCAL_API_KEY",), "strong": ("CALIBSFT_STRONG_API_KEY", COMMON_KEY)}
CLIENT_TOKEN = "CALIBSFT_SERVE_TOKEN"
DEFAULT_NAME = "calibsft"
SHUTDOWN_SECONDS = 30
# Longer than clients keep an idle connection: if the gateway closed it, a request could be on its way.
IDLE_SECONDS = 75


@dataclass(frozen=True, slots=True)
class Served:
    """A server behind the gateway; `model` is None if the server lists only one."""

    url: str
    model: str | None
    key: str = field(default=NO_KEY, repr=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests to servers and from clients; `patience` is how long a client may be slow."""

    timeout: float
    retries: int
    concurrency: int
    queue: int
    largest_body: int
    patience: float


def serve(
    policy: Policy,
    local: Served,
    strong: Served | None,
    name: str | None,
    host: str,
    port: int,
    limits: Limits,
    check: bool,
    labels: Path | None,
) -> None:
    """Serve `policy` until the process is stopped.

    Parameters
    ----------
    name : the model's name for clients; default: its name in the policy.
    port : 0 takes a free one.
    check : whether to ask both servers first.
    labels : the file in which responses wait for their labels; None if none are taken.
    """
    _log_to_stderr()
    if labels is None and policy.on_alarm != WARN:
        raise InputError(
            f"the policy says what to do on an alarm ({policy.on_alarm} on everything), and without labels there is none; name"
            " a file for them with --labels"
        )
    servers = _servers(policy, local, strong)
    serving = Serving(
        name or policy.model or DEFAULT_NAME, _token(host), limits.largest_body, limits.patience
    )
    protocol = limited(limits.patience, most_connections(limits.concurrency, limits.queue))
    with _bound_socket(host, port) as taken:
        if check:
            servers = {name: _checked(name, server, policy, limits) for name, server in servers.items()}
        config = uvicorn.Config(
            App(_gateway(policy, servers, limits, labels), serving),
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        address = f"[{host}]" if ":" in host else host
        info(f"policy {policy.id}, model '{serving.name}': http://{address}:{taken.getsockname()[1]}/v1")
        gc.freeze()  # what is loaded now stays; the collector need not scan it
        with suppress(KeyboardInterrupt):  # the usual way to stop it
            uvicorn.Server(config).run(sockets=[taken])


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # The format shows neither source line nor process, so do not look them up for every request.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _servers(policy: Policy, local: Served, strong: Served | None) -> dict[str, Served]:
    """The servers by name, with their keys, after a look at their addresses."""
    if strong is None and policy.needs_strong:
        why = "defers questions" if policy.otherwise == DEFER else "defers when the local model fails"
        why = "defers everything on an alarm" if policy.on_alarm == DEFER else why
        raise InputError(f"the policy {why}; name the server of the strong model with --strong")
    found = {"local": local} | ({"strong": strong} if strong is not None else {})
    for name, served in found.items():
        # The errors do not show the URL: it may contain a password.
        if not _names_server(served.url):
            raise InputError(f"--{name} is not the URL of a server; write http://host:port/v1")
        if "@" in urlsplit(served.url).netloc:
            raise InputError(
                f"--{name} holds a user name or password; put the key into the environment instead"
            )
    return {name: replace(served, key=key_from(*KEYS[name])) for name, served in found.items()}


def _checked(name: str, served: Served, policy: Policy, limits: Limits) -> Served:
    """The server with the name of its model, after it has answered."""
    bodies = local_bodies(policy) if name == "local" else strong_bodies()
    asked = served.url, served.model, served.key, bodies, limits.timeout, limits.retries
    return replace(served, model=checked_model(role_of(name, KEYS[name][0]), *asked))


def _gateway(policy: Policy, servers: dict[str, Served], limits: Limits, labels: Path | None) -> Gateway:
    meters = Meters()
    watch = None if labels is None else Labels(FeedbackStore(labels, policy), policy, meters)

    def count_retry(upstream: str) -> None:
        meters.retries.labels(upstream).inc()

    upstreams = {
        name: Upstream(name, at.url, at.model, at.key, limits.timeout, limits.retries, count_retry)
        for name, at in servers.items()
    }
    strong = upstreams.get("strong")
    return Gateway(policy, upstreams["local"], strong, meters, limits.concurrency, limits.queue, watch)


def _names_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        right_port = parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # an invalid port, address or name
        return False
    plain = not (parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and right_port and plain


def _token(host: str) -> str | None:
    token = os.environ.get(CLIENT_TOKEN, "").strip() or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InputError(f"the token in {CLIENT_TOKEN} holds characters that no token has; set it again")
    if token is None and not _is_loopback(host):
        info(f"anyone who reaches {host} can use this gateway; set {CLIENT_TOKEN} to ask clients for a token")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once only if the protocol is given; else a reply waits 40 ms for an acknowledgement.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise InputError(
            f"{host}:{port} cannot be taken ({error.strerror or error}); choose another --host or --port"
        ) from error
    return taken
