"""vLLM's semantic router: one decision that asks the local model first, with the policy's threshold.

The router computes its own confidence from token probabilities; it does not read stated ones. So the promise of the policy
holds there only if the policy was calibrated on that confidence. Otherwise the threshold is a place to begin.
"""

from typing import Any
from urllib.parse import urlsplit

from calibsft.decisions.policy import DEFER, Policy
from calibsft.errors import InputError
from calibsft.integrations.routers.servers import Servers

VERSION = "v0.3"
NOTE = (
    "the router's confidence is its own, from token probabilities: what the policy promises holds there only if it was"
    " calibrated on that confidence. To act on stated confidences, let it ask calibsft serve"
)


def export(policy: Policy, servers: Servers) -> tuple[dict[str, Any], str]:
    if policy.otherwise != DEFER:
        raise InputError("the semantic router cannot abstain; export a policy that calibsft route wrote")
    if policy.threshold is None:
        raise InputError(
            "the policy defers everything, so there is nothing to decide; use the strong model alone"
        )
    if policy.threshold == 0:
        raise InputError(
            "the policy's threshold is 0, which the semantic router reads as none; let it ask calibsft serve instead"
        )
    local, strong = servers.local_model, servers.strong_model
    decision = {
        "name": "calibsft",
        "description": f"policy {policy.id}: {policy.promise}",
        "priority": 100,
        "rules": {"operator": "AND", "conditions": []},
        "modelRefs": [{"model": local, "use_reasoning": False}, {"model": strong, "use_reasoning": False}],
        "algorithm": {
            "type": "confidence",
            "confidence": {
                "confidence_method": "hybrid",
                "threshold": policy.threshold,
                # By default the smaller model comes first, whichever that is.
                "escalation_order": "declared",
                "on_error": "skip",
            },
        },
    }
    config = {
        "version": VERSION,
        "listeners": [{"name": "http-8899", "address": "0.0.0.0", "port": 8899, "timeout": "300s"}],
        "providers": {
            "defaults": {"model": strong},
            "models": [_provider(local, servers.local), _provider(strong, servers.strong)],
        },
        "routing": {"modelCards": [{"name": local}, {"name": strong}], "decisions": [decision]},
    }
    return config, NOTE


def _provider(model: str, url: str) -> dict[str, Any]:
    address = urlsplit(url)
    backend = {
        "name": "primary",
        "provider": "vllm",
        "endpoint": address.netloc,
        "protocol": address.scheme,
        "weight": 100,
    }
    return {"name": model, "backend_refs": [backend]}
