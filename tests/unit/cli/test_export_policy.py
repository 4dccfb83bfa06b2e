"""Policies as configurations of other routers: what is in them, and that the routers' own schemas take them."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibsft.decisions.policy import Policy
from command import Command
from gateway_process import policy

SERVERS = (
    "--local",
    "http://a:8001/v1",
    "--local-model",
    "small",
    "--strong",
    "https://b/v1",
    "--strong-model",
    "large",
)


def exported(calibsft: Command, router: str, given: Policy) -> dict[str, Any]:
    Path("p.json").write_text(given.model_dump_json())
    code, out, err = calibsft("export-policy", router, "p.json", *SERVERS, "--force")
    assert (code, err) == (0, ""), err
    text = Path(f"{router}.yaml").read_text()
    assert text.startswith(f"# {given.promise} (policy {given.id})\n# ") and out.startswith(
        f"export: {router}.yaml"
    )
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_a_semantic_router_asks_the_local_model_first_with_the_policys_threshold(calibsft: Command) -> None:
    found = exported(calibsft, "semantic-router", policy(threshold=0.43))
    (decision,) = found["routing"]["decisions"]
    assert decision["algorithm"]["confidence"] == {
        "confidence_method": "hybrid", "threshold": 0.43, "escalation_order": "declared", "on_error": "skip",
    }  # fmt: skip
    assert [one["model"] for one in decision["modelRefs"]] == ["small", "large"]
    backends = [one["backend_refs"][0] for one in found["providers"]["models"]]
    assert [(one["endpoint"], one["protocol"]) for one in backends] == [("a:8001", "http"), ("b", "https")]


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"otherwise": "abstain"}, "the semantic router cannot abstain"),
        ({"threshold": None}, "the policy defers everything"),
        ({"threshold": 0.0}, "the policy's threshold is 0, which the semantic router reads as none"),
    ],
)
def test_what_a_semantic_router_cannot_do_is_refused(
    calibsft: Command, fields: dict[str, Any], told: str
) -> None:
    Path("p.json").write_text(policy(**fields).model_dump_json())
    code, out, err = calibsft("export-policy", "semantic-router", "p.json")
    assert (code, out) == (2, "") and told in err and not Path("semantic-router.yaml").exists()


def test_litellm_asks_the_gateway_and_falls_back_to_the_strong_model(calibsft: Command) -> None:
    given = policy(model="org/m")
    found = exported(calibsft, "litellm", given)
    ours, strong = found["model_list"]
    assert ours["litellm_params"] == {
        "model": "openai/org/m", "api_base": "http://localhost:8000/v1", "api_key": "os.environ/CALIBSFT_SERVE_TOKEN",
    }  # fmt: skip
    assert ours["model_info"]["calibsft_promise"] == given.promise
    assert strong["litellm_params"]["api_base"] == "https://b/v1"
    assert found["router_settings"] == {"fallbacks": [{"org/m": ["calibsft-strong"]}]}


@pytest.mark.parametrize("fields", [{"otherwise": "abstain"}, {"on_local_failure": "error"}])
def test_litellm_asks_the_strong_model_only_if_the_policy_does(
    calibsft: Command, fields: dict[str, Any]
) -> None:
    found = exported(calibsft, "litellm", policy(**fields))
    assert len(found["model_list"]) == 1 and "router_settings" not in found


def test_a_file_that_is_there_is_left_alone(calibsft: Command) -> None:
    Path("p.json").write_text(policy().model_dump_json())
    Path("litellm.yaml").write_text("mine")
    code, _, err = calibsft("export-policy", "litellm", "p.json")
    assert code == 2 and "use --force" in err and Path("litellm.yaml").read_text() == "mine"
    code, _, err = calibsft("export-policy", "envoy", "p.json")
    assert code == 2 and "unknown router 'envoy' (known: litellm, semantic-router)" in err


def test_the_semantic_routers_own_schema_takes_the_configuration(calibsft: Command) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    try:
        files = metadata.distribution("vllm-sr")
    except metadata.PackageNotFoundError:
        pytest.skip("vllm-sr is not installed: pip install --pre --no-deps vllm-sr")
    schema = json.loads(
        Path(str(files.locate_file("cli/config_schema/router-config-v0.3.schema.json"))).read_text()
    )
    found = exported(calibsft, "semantic-router", policy(threshold=0.43))
    jsonschema.validate(found, schema)
    found["routing"]["decisions"][0]["algorithm"]["confidence"]["threshold"] = "high"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema)
