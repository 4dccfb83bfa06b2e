"""`calibsft serve`: the gateway that acts on a policy."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from calibsft.errors import InputError

if TYPE_CHECKING:
    from calibsft.gateway.server import Limits

NEEDED = ("httptools", "prometheus_client", "starlette", "uvicorn")
# Panels of help.
MODELS = "Models"
ADDRESS = "Address and labels"
LIMITS = "Limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The options of the gateway itself, in the order of their help."""

    name: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Model name for clients; default: the policy's model, or calibsft.",
            rich_help_panel=ADDRESS,
        ),
    ] = None
    host: Annotated[str, Option(metavar="HOST", help="Address to listen on.", rich_help_panel=ADDRESS)] = (
        "127.0.0.1"
    )
    port: Annotated[
        int,
        Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.", rich_help_panel=ADDRESS),
    ] = 8000
    labels: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="SQLite file that keeps responses until their labels come (POST /v1/feedback), to watch the policy's promise;"
            " created if it does not exist.",
            rich_help_panel=ADDRESS,
        ),
    ] = None
    no_check: Annotated[
        bool,
        Option("--no-check", help="Start without asking both servers first.", rich_help_panel=ADDRESS),
    ] = False
    concurrency: Annotated[
        int, Option(min=1, help="Questions in work at the same time; others wait.", rich_help_panel=LIMITS)
    ] = 64
    queue: Annotated[
        int, Option(min=0, help="Questions that may wait; more get status 429.", rich_help_panel=LIMITS)
    ] = 1024
    timeout: Annotated[
        float,
        Option(min=0.1, help="Seconds that a model's server may take for one reply.", rich_help_panel=LIMITS),
    ] = 600.0
    retries: Annotated[
        int,
        Option(
            min=0,
            help="How often a request is repeated when a server is busy or breaks off.",
            rich_help_panel=LIMITS,
        ),
    ] = 2
    max_body: Annotated[int, Option(min=1, help="Largest request, in kilobytes.", rich_help_panel=LIMITS)] = (
        1024
    )
    client_timeout: Annotated[
        float,
        Option(
            min=0.1,
            help="Seconds that a client may take to send a request, or to read any part of its reply.",
            rich_help_panel=LIMITS,
        ),
    ] = 30.0

    def limits(self) -> "Limits":
        from calibsft.gateway.server import Limits

        return Limits(
            self.timeout,
            self.retries,
            self.concurrency,
            self.queue,
            self.max_body << 10,
            self.client_timeout,
        )


def serve(
    policy: Annotated[
        Path,
        Option(metavar="FILE", help="Policy file that `calibsft certify` or `calibsft route` wrote."),
    ],
    local: Annotated[
        str,
        Option(
            metavar="URL",
            help="OpenAI-compatible server of the local model, whose confidence decides. Its API key is read from"
            " CALIBSFT_LOCAL_API_KEY.",
            rich_help_panel=MODELS,
        ),
    ],
    strong: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="OpenAI-compatible server of the strong model, to which questions are deferred. Its API key is read from"
            " CALIBSFT_STRONG_API_KEY or OPENAI_API_KEY.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    local_model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="The local model's name on its server; default: the only one that the server lists.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    strong_model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="The strong model's name on its server; default: the only one that the server lists.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    **given: Any,
) -> None:
    """Serve a policy as an OpenAI-compatible gateway, which answers, abstains or defers by the local model's confidence.

    ```sh
    calibsft serve --policy policy.json --local http://localhost:8001/v1
    calibsft serve --policy p.json --local http://a/v1 --strong http://b/v1
    ```

    Clients only change their base URL. Replies have confidence and decision in the field `calibsft` and in headers
    x-calibsft-…. If CALIBSFT_SERVE_TOKEN is set, clients must send it as their API key. Stop the gateway with Ctrl-C.
    """
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise InputError(f"calibsft serve needs {', '.join(missing)}; run pip install 'calibsft[serve]'")
    from calibsft.decisions.policy import read_policy
    from calibsft.gateway import server

    options = GatewayOptions(**given)
    server.serve(
        read_policy(policy),
        server.Served(local, local_model),
        server.Served(strong, strong_model) if strong is not None else None,
        options.name,
        options.host,
        options.port,
        options.limits(),
        not options.no_check,
        options.labels,
    )
