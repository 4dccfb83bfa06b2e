"""LiteLLM: the gateway as one of the proxy's models, and the strong model as its fallback.

LiteLLM does not read confidences, so `calibsft serve` stays what acts on the policy.
"""

from typing import Any

from calibsft.decisions.policy import DEFER, Policy
from calibsft.integrations.routers.servers import Servers

NOTE = (
    "calibsft serve acts on the policy; its clients' token is read from CALIBSFT_SERVE_TOKEN. The proxy starts with"
    " litellm --config FILE, once LITELLM_MASTER_KEY holds the key that its own clients send"
)
STRONG = "calibsft-strong"


def export(policy: Policy, servers: Servers) -> tuple[dict[str, Any], str]:
    name = policy.model or "calibsft"
    models = [
        {
            "model_name": name,
            "litellm_params": {
                "model": f"openai/{name}",
                "api_base": servers.gateway,
                "api_key": "os.environ/CALIBSFT_SERVE_TOKEN",
            },
            "model_info": {
                "id": f"calibsft-{policy.id}",
                "mode": "chat",
                "calibsft_policy": policy.id,
                "calibsft_threshold": policy.threshold,
                "calibsft_promise": policy.promise,
            },
        }
    ]
    if {policy.otherwise, policy.on_local_failure} != {DEFER}:
        return {"model_list": models}, NOTE
    strong = {
        "model_name": STRONG,
        "litellm_params": {
            "model": f"openai/{servers.strong_model}",
            "api_base": servers.strong,
            "api_key": "os.environ/CALIBSFT_STRONG_API_KEY",
        },
    }
    # To LiteLLM a gateway that is down, or gives any error, is what a local failure is to the gateway.
    return {"model_list": [*models, strong], "router_settings": {"fallbacks": [{name: [STRONG]}]}}, NOTE
