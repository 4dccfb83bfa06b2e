"""Start a gateway: check the settings, take the port, serve until told to stop."""

import gc
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import uvicorn

from calibsft.decisions.policy import Policy
from calibsft.endpoint import COMMON_KEY, key_from
from calibsft.errors import InputError
from calibsft.gateway.app import App, Serving
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.heads import BoundedHeads
from calibsft.gateway.meters import Meters
from calibsft.gateway.upstream import Upstream
from calibsft.progress import info

LOCAL_KEY, STRONG_KEY, CLIENT_TOKEN = (
    "CALIBSFT_LOCAL_API_KEY",
    "CALIBSFT_STRONG_API_KEY",
    "CALIBSFT_SERVE_TOKEN",
)
DEFAULT_NAME = "calibsft"
SHUTDOWN_SECONDS = 30
# More than clients keep an idle connection, so that it is they who close it, and never on a request that is just coming.
IDLE_SECONDS = 75


@dataclass(frozen=True, slots=True)
class Served:
    """A server behind the gateway: where it is, and the model's name there, if it must be said."""

    url: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often servers are asked, and how much clients may ask."""

    timeout: float
    retries: int
    concurrency: int
    queue: int
    largest_body: int


def serve(
    policy: Policy,
    local: Served,
    strong: Served | None,
    name: str | None,
    host: str,
    port: int,
    limits: Limits,
) -> None:
    """Serve `policy` until the process is told to stop.

    Parameters
    ----------
    name : under which clients know the model; default: the policy's own name of it.
    port : 0 takes a free one.
    """
    _log_to_stderr()
    meters = Meters()
    gateway = Gateway(
        policy,
        _upstream("local", local, key_from(LOCAL_KEY), limits, meters),
        _strong(policy, strong, limits, meters),
        meters,
        limits.concurrency,
        limits.queue,
    )
    serving = Serving(name or policy.model or DEFAULT_NAME, _token(host), limits.largest_body)
    config = uvicorn.Config(
        App(gateway, serving),
        http=BoundedHeads,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with _taken(host, port) as taken:
        address = f"[{host}]" if ":" in host else host
        info(f"policy {policy.id}, model '{serving.name}': http://{address}:{taken.getsockname()[1]}/v1")
        gc.freeze()  # what is loaded by now stays, and need not be looked through again and again
        with suppress(KeyboardInterrupt):  # the ordinary way to end it
            uvicorn.Server(config).run(sockets=[taken])


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Where a line was logged and by which process is not told, and need not be found out for every request.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _strong(policy: Policy, strong: Served | None, limits: Limits, meters: Meters) -> Upstream | None:
    if strong is None and policy.needs_strong:
        why = "defers questions" if policy.otherwise == "defer" else "defers when the local model fails"
        raise InputError(f"the policy {why}; name the server of the strong model with --strong")
    if strong is None:
        return None
    return _upstream("strong", strong, key_from(STRONG_KEY, COMMON_KEY), limits, meters)


def _upstream(name: str, served: Served, key: str, limits: Limits, meters: Meters) -> Upstream:
    # Not repeated here: it may hold a password.
    if not _names_server(served.url):
        raise InputError(f"--{name} is not the URL of a server; write http://host:port/v1")
    if "@" in urlsplit(served.url).netloc:
        raise InputError(f"--{name} holds a user name or password; put the key into the environment instead")
    return Upstream(
        name,
        served.url,
        served.model,
        key,
        limits.timeout,
        limits.retries,
        lambda upstream: meters.retries.labels(upstream).inc(),
    )


def _names_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        right_port = parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # a port, an address or a name that is none
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


def _taken(host: str, port: int) -> socket.socket:
    """The port, taken before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, since asyncio only then sends small packets at once; a reply would wait 40 ms for the client's receipt.
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
