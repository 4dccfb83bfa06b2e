"""LiteLLM: the gateway as one of the proxy's models, and the strong model as its fallback.

LiteLLM does not read confidences, so `calibsft serve` stays what acts on the policy.
"""

from typing import Any

from calibsft.decisions.policy import DEFER, Policy
from calibsft.integrations.routers.servers import Servers

NOTE = (
    "calibsft serve acts on the policy; its clients' token is read from CALIBSFT_SERVE_TOKEN. The proxy starts with"
    " litellm --config FILE"
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
    if policy.otherwise != DEFER:
        return {"model_list": models}, NOTE
    strong = {
        "model_name": STRONG,
        "litellm_params": {
            "model": f"openai/{servers.strong_model}",
            "api_base": servers.strong,
            "api_key": "os.environ/CALIBSFT_STRONG_API_KEY",
        },
    }
    # If the gateway itself is down, a deferring policy would have asked the strong model.
    return {"model_list": [*models, strong], "router_settings": {"fallbacks": [{name: [STRONG]}]}}, NOTE
