"""A policy in training that vLLM servers sample from: its settings.

After every step the trainer gives the servers its new weights, and takes only responses of these. `connect` makes the engine;
`worker` is the part that runs in the servers. Does not start servers.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from calibsft.settings import Settings, require_plain_address

KEY = "CALIBSFT_POLICY_API_KEY"


def _plain(url: str) -> str:
    require_plain_address(url, "rl.servers.urls", KEY)
    return url.rstrip("/").removesuffix("/v1")


class PolicyServers(Settings):
    """The servers that sample from the policy, and how they get its weights."""

    title: ClassVar[str] = "vLLM servers, with --policy served"

    urls: tuple[Annotated[str, AfterValidator(_plain)], ...] = Field(
        (),
        description="addresses of servers that `calibsft policy-server` started, comma-separated, e.g. http://localhost:8000",
    )
    weights: Literal["file", "nccl"] = Field(
        "file",
        description="how servers get new weights: by file, in a folder that both can read; or by nccl, from GPU to GPU",
    )
    folder: Path | None = Field(
        None,
        description="shared folder for --servers-weights file; default: weights/ in --out",
    )
    importance_cap: float | None = Field(
        None,
        ge=1,
        description="correct for the servers' rounding by importance weights of at most this; default: no correction",
    )
    concurrency: int = Field(64, ge=1, description="simultaneous requests to each server")
    timeout: float = Field(
        1800, gt=0, description="seconds until a request or a transfer of weights counts as failed"
    )
    retries: int = Field(
        8,
        ge=0,
        description="how often a failed request is repeated, and how often a lost server is waited for",
    )
