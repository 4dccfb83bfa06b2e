"""`calibsft serve`: the gateway that acts on a policy."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from calibsft.errors import InputError

NEEDED = ("httptools", "prometheus_client", "starlette", "uvicorn")


def serve(
    policy: Annotated[Path, Option(help="What `calibsft certify` or `calibsft route` wrote.")],
    local: Annotated[
        str,
        Option(
            help="OpenAI-compatible server of the model that states confidences, e.g. http://localhost:8001/v1. Its key"
            " comes from CALIBSFT_LOCAL_API_KEY."
        ),
    ],
    strong: Annotated[
        str | None,
        Option(
            help="The same for the model that questions are deferred to; key from CALIBSFT_STRONG_API_KEY or"
            " OPENAI_API_KEY."
        ),
    ] = None,
    local_model: Annotated[
        str | None,
        Option(help="The local model's name on its server; default: the only one that the server lists."),
    ] = None,
    strong_model: Annotated[str | None, Option(help="The same for the strong model.")] = None,
    name: Annotated[
        str | None, Option(help="Model name for clients; default: the policy's model, or calibsft.")
    ] = None,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    concurrency: Annotated[
        int, Option(min=1, help="Questions under way at the same time; others wait.")
    ] = 64,
    queue: Annotated[int, Option(min=0, help="How many may wait; more get status 429.")] = 1024,
    timeout: Annotated[float, Option(min=0.1, help="Seconds that a server may take for one reply.")] = 600.0,
    retries: Annotated[int, Option(min=0, help="Repetitions when a server is busy or breaks off.")] = 2,
    max_body: Annotated[int, Option(min=1, help="Largest request, in kilobytes.")] = 1024,
    client_timeout: Annotated[
        float,
        Option(
            min=0.1, help="Seconds that a client may take to send a request, or to take any of its reply."
        ),
    ] = 30.0,
    labels: Annotated[
        Path | None,
        Option(
            help="File that keeps responses until their labels come (POST /v1/feedback), to watch what the policy promises;"
            " made if there is none."
        ),
    ] = None,
    no_check: Annotated[
        bool, Option("--no-check", help="Open the port without asking both servers first.")
    ] = False,
) -> None:
    """Serve a policy: `calibsft serve --policy policy.json --local http://localhost:8001/v1 --strong https://…/v1`

    An OpenAI-compatible gateway: it asks the local model, reads its confidence, and answers, abstains or defers as the
    policy says. Clients only change their base URL; confidence and decision are in the field `calibsft` and in headers
    x-calibsft-…. CALIBSFT_SERVE_TOKEN, if set, is the API key that clients must send. Stop it with Ctrl-C.
    """
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise InputError(f"calibsft serve needs {', '.join(missing)}; run pip install 'calibsft[serve]'")
    from calibsft.decisions.policy import read_policy
    from calibsft.gateway import server

    server.serve(
        read_policy(policy),
        server.Served(local, local_model),
        server.Served(strong, strong_model) if strong is not None else None,
        name,
        host,
        port,
        server.Limits(timeout, retries, concurrency, queue, max_body << 10, client_timeout),
        not no_check,
        labels,
    )
