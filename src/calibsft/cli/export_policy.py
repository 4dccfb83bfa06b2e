"""`calibsft export-policy`: a policy as the configuration of another router."""

from pathlib import Path
from typing import Annotated

import yaml
from typer import Argument, Option

from calibsft.errors import unknown_name
from calibsft.text import printable


def export_policy(
    router: Annotated[str, Argument(help="The router: litellm, or semantic-router (vLLM's).")],
    policy: Annotated[Path, Argument(help="What `calibsft route` or `calibsft certify` wrote.")] = Path(
        "policy.json"
    ),
    out: Annotated[Path | None, Option(help="File to write; default ROUTER.yaml.")] = None,
    gateway: Annotated[str, Option(help="Address of `calibsft serve`.")] = "http://localhost:8000/v1",
    local: Annotated[str, Option(help="Address of the local model's server.")] = "http://localhost:8001/v1",
    local_model: Annotated[
        str | None, Option(help="The local model's name on its server; default: the policy's.")
    ] = None,
    strong: Annotated[str, Option(help="Address of the strong model's server.")] = "http://localhost:8002/v1",
    strong_model: Annotated[str, Option(help="The strong model's name on its server.")] = "strong",
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a policy for another router: `calibsft export-policy litellm policy.json`

    litellm: the gateway becomes one of the proxy's models. semantic-router: a decision with the policy's threshold on the
    router's own confidence. No file holds a key.
    """
    from calibsft.artifacts import write_text
    from calibsft.decisions.policy import read_policy
    from calibsft.files.writing import require_free
    from calibsft.integrations.routers import ROUTERS
    from calibsft.integrations.routers.servers import Servers

    if router not in ROUTERS:
        unknown_name("router", router, list(ROUTERS))
    path = out or Path(f"{router}.yaml")
    require_free(path, force)
    found = read_policy(policy)
    servers = Servers(gateway, local, local_model or found.model or "local", strong, strong_model)
    config, note = ROUTERS[router](found, servers)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    write_text(path, f"# {found.promise} (policy {found.id})\n# {note}.\n{text}")
    print(printable(f"export: {path}\n{note}"))
