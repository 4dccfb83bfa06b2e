"""Start a gateway: check the settings, open the port, serve until stopped."""

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
from calibsft.errors import InputError
from calibsft.gateway.app import App, Serving
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.heads import BoundedHeads
from calibsft.gateway.meters import Meters
from calibsft.gateway.upstream import Upstream
from calibsft.progress import info
from calibsft.served.keys import COMMON_KEY, key_from

LOCAL_KEY, STRONG_KEY = "CALIBSFT_LOCAL_API_KEY", "CALIBSFT_STRONG_API_KEY"
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


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests to servers and from clients."""

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
    """Serve `policy` until the process is stopped.

    Parameters
    ----------
    name : the model's name for clients; default: its name in the policy.
    port : 0 takes a free one.
    """
    _log_to_stderr()
    meters = Meters()
    local_server = _upstream("local", local, key_from(LOCAL_KEY), limits, meters)
    strong_server = _strong(policy, strong, limits, meters)
    gateway = Gateway(policy, local_server, strong_server, meters, limits.concurrency, limits.queue)
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
    with _bound_socket(host, port) as taken:
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


def _strong(policy: Policy, strong: Served | None, limits: Limits, meters: Meters) -> Upstream | None:
    if strong is not None:
        return _upstream("strong", strong, key_from(STRONG_KEY, COMMON_KEY), limits, meters)
    if policy.needs_strong:
        why = "defers questions" if policy.otherwise == "defer" else "defers when the local model fails"
        raise InputError(f"the policy {why}; name the server of the strong model with --strong")
    return None


def _upstream(name: str, served: Served, key: str, limits: Limits, meters: Meters) -> Upstream:
    # The errors do not show the URL: it may contain a password.
    if not _names_server(served.url):
        raise InputError(f"--{name} is not the URL of a server; write http://host:port/v1")
    if "@" in urlsplit(served.url).netloc:
        raise InputError(f"--{name} holds a user name or password; put the key into the environment instead")

    def count_retry(upstream: str) -> None:
        meters.retries.labels(upstream).inc()

    return Upstream(name, served.url, served.model, key, limits.timeout, limits.retries, count_retry)


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
