"""Policies in the words of other routers: one file per router."""

from collections.abc import Callable
from typing import Any

from calibsft.decisions.policy import Policy
from calibsft.integrations.routers import litellm, semantic_router
from calibsft.integrations.routers.servers import Servers

# From a policy and the servers to the router's configuration and what must be known about it.
Export = Callable[[Policy, Servers], tuple[dict[str, Any], str]]
ROUTERS: dict[str, Export] = {"litellm": litellm.export, "semantic-router": semantic_router.export}
