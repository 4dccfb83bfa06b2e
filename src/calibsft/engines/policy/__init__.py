"""A policy in training that vLLM servers sample from: its settings.

After every step the trainer gives the servers its new weights, and takes only responses of these. `connect` makes the engine;
`worker` is the part that runs in the servers. Does not start servers.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from calibsft.settings import Settings, require_plain_address

KEY = "CALIBSFT_POLICY_API_KEY"


def _plain(url: str) -> str:
    require_plain_address(url, "rl.servers.urls", KEY)
    return url.rstrip("/").removesuffix("/v1")


class PolicyServers(Settings):
    """The servers that sample from the policy, and how they get its weights."""

    urls: tuple[Annotated[str, AfterValidator(_plain)], ...] = Field(
        (), description="addresses of vLLM servers, comma-separated, e.g. http://localhost:8000"
    )
    weights: Literal["file", "nccl"] = Field(
        "file",
        description="file: written to a folder that trainer and servers share; nccl: from GPU to GPU, with vLLM's own transfer",
    )
    folder: Path | None = Field(
        None,
        description="that folder, in which the training has one of its own; default: weights/ in the stage's, which the servers"
        " must then be able to read",
    )
    importance_cap: float | None = Field(
        None, ge=1, description="correct for the servers' rounding, by weights of at most this"
    )
    concurrency: int = Field(64, ge=1, description="requests under way at the same time, at each server")
    timeout: float = Field(
        1800, gt=0, description="seconds that one request, or one transfer of weights, may take"
    )
    retries: int = Field(
        8,
        ge=0,
        description="how often a request is repeated, and how often a server that is gone is waited for",
    )
