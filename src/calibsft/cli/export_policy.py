"""`calibsft export-policy`: a policy as the configuration of another router."""

from pathlib import Path
from typing import Annotated

import yaml
from typer import Argument, Option

from calibsft.errors import unknown_name
from calibsft.text import printable


def export_policy(
    router: Annotated[str, Argument(help="The router: litellm, or semantic-router (vLLM's).")],
    policy: Annotated[
        Path, Argument(help="Policy file that `calibsft route` or `calibsft certify` wrote.")
    ] = Path("policy.json"),
    out: Annotated[Path | None, Option(metavar="FILE", help="File to write; default: ROUTER.yaml.")] = None,
    gateway: Annotated[
        str, Option(metavar="URL", help="Address of `calibsft serve`.")
    ] = "http://localhost:8000/v1",
    local: Annotated[
        str, Option(metavar="URL", help="Address of the local model's server.")
    ] = "http://localhost:8001/v1",
    local_model: Annotated[
        str | None,
        Option(metavar="MODEL", help="The local model's name on its server; default: the policy's model."),
    ] = None,
    strong: Annotated[
        str, Option(metavar="URL", help="Address of the strong model's server.")
    ] = "http://localhost:8002/v1",
    strong_model: Annotated[
        str, Option(metavar="MODEL", help="The strong model's name on its server.")
    ] = "strong",
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a policy as the configuration of another router: LiteLLM, or vLLM's semantic-router.

    ```sh
    calibsft export-policy litellm policy.json
    calibsft export-policy semantic-router policy.json --out router.yaml
    ```

    With litellm, the gateway (`calibsft serve`) becomes one of the proxy's models. With semantic-router, the policy's
    threshold applies to the router's own confidence. The file holds no API key.
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
