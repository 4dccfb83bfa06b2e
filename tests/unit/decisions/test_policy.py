"""Policy files: what is in them, what is refused, and that nothing else is overwritten."""

import json
from pathlib import Path
from typing import Any

import pytest

from calibsft.decisions import certify, route
from calibsft.decisions.policy import Policy, abstaining_policy, deferring_policy, read_policy, write_policy
from calibsft.errors import InputError

IDS = [f"q{number}" for number in range(200)]
STATED = [0.95] * 100 + [0.4] * 60 + [0.405] * 20 + [None] * 20
RIGHT = [True] * 100 + [False] * 100


def abstaining(**known: Any) -> Policy:
    return abstaining_policy(certify(STATED, RIGHT, IDS, 0.1), **{"data_hash": "abc", **known})


@pytest.fixture
def data() -> dict[str, Any]:
    """A whole policy as JSON has it."""
    sampling = {"temperature": 1, "top_p": 0.9, "max_tokens": 64, "stop": ["</s>"]}
    return abstaining(model="m", sampling=sampling).model_dump(mode="json")


def refused(path: Path, text: str | bytes) -> str:
    """Why a file is no policy, in one sentence."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read_policy(path)
    told = str(error.value)
    assert told.startswith(f"{path}: ") and "\n" not in told
    return told.removeprefix(f"{path}: ")


def test_a_certificate_becomes_a_policy_that_abstains_with_the_counts_of_calibration() -> None:
    policy = abstaining(format="integer")
    assert policy.model_dump(mode="json") == {
        "kind": "calibsft-policy",
        "version": 3,
        "otherwise": "abstain",
        "threshold": 0.41,
        "guarantee": "high-probability",
        "procedure": "union",
        "risk": 0.1,
        "epsilon": None,
        "delta": 0.05,
        "n": 200,
        "coverage": 0.5,
        "min_coverage": None,
        "slices": [],
        "data_hash": "abc",
        "model": None,
        "format": "integer",
        "template": {},
        "sampling": None,
        "on_local_failure": "error",
        "on_alarm": "warn",
        "replaces": None,
        "confidences": {"0.4": 80, "0.95": 100},
        "never_confident": 20,
    }
    assert (policy.hundredths, policy.calibrated) == (41, {40: 80, 95: 100})
    assert policy.promise == "at most 10 % of the answers given are wrong with probability 0.95 or more"
    assert not policy.needs_strong and abstaining(on_local_failure="defer").needs_strong


def test_a_route_becomes_a_policy_that_defers_also_on_failure() -> None:
    found = route(STATED, RIGHT, [True] * 200, IDS, 0.1, procedure="fixed-sequence")
    policy = deferring_policy(found, data_hash="abc")
    assert (policy.otherwise, policy.epsilon, policy.risk, policy.threshold) == ("defer", 0.1, None, 0.41)
    assert (policy.procedure, policy.on_local_failure, policy.format) == (
        "fixed-sequence",
        "defer",
        "probability",
    )
    assert (policy.calibrated, policy.never_confident, policy.needs_strong) == ({40: 80, 95: 100}, 20, True)
    assert deferring_policy(found, data_hash="abc", on_local_failure="error").on_local_failure == "error"


def test_nothing_certified_is_a_policy_without_a_threshold(tmp_path: Path) -> None:
    policy = abstaining_policy(certify(STATED, [False] * 200, IDS, 0.1), data_hash="abc")
    write_policy(tmp_path / "p.json", policy)
    assert json.loads((tmp_path / "p.json").read_text())["threshold"] is None
    assert read_policy(tmp_path / "p.json") == policy


def test_a_policy_reads_as_it_was_written_with_a_byte_order_mark_too(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    policy, path = Policy.model_validate(data), tmp_path / "new" / "p.json"
    write_policy(path, policy)
    assert read_policy(path) == policy and read_policy(path).id == policy.id
    assert path.read_text().startswith("{\n") and json.loads(path.read_text()) == data
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_policy(path) == policy


OTHER_VALUES: dict[str, Any] = {
    "threshold": 0.42, "procedure": "fixed-sequence", "risk": 0.2, "delta": 0.1, "n": 201, "data_hash": "abd", "model": "n",
    "coverage": 0.4, "min_coverage": 0.1, "on_alarm": "abstain", "replaces": "0123456789ab",
    "slices": [{"column": "dataset", "value": "a", "responses": 9, "acted_on": 5, "events": 1, "rate": 0.2}],
    "format": "integer", "template": {"enable_thinking": False}, "on_local_failure": "defer",
    "confidences": {"0.4": 81, "0.95": 100}, "never_confident": 21,
}  # fmt: skip


@pytest.mark.parametrize("field", OTHER_VALUES)
def test_the_id_changes_with_every_field(data: dict[str, Any], field: str) -> None:
    policy = Policy.model_validate(data)
    assert len(policy.id) == 12 and policy.id == Policy.model_validate(data).id
    assert Policy.model_validate({**data, field: OTHER_VALUES[field]}).id != policy.id


def test_the_id_changes_with_the_sampling_and_with_what_is_done_below_the_threshold(
    data: dict[str, Any],
) -> None:
    others = [
        {**data, "sampling": {**data["sampling"], **change}}
        for change in ({"temperature": 0}, {"top_p": 1}, {"max_tokens": 65}, {"stop": []})
    ]
    others += [{**data, "sampling": None}, {**data, "otherwise": "defer", "risk": None, "epsilon": 0.1}]
    names = [Policy.model_validate(other).id for other in (data, *others)]
    assert len(set(names)) == len(names)
    expectation = {"guarantee": "expectation", "delta": None, "procedure": "conformal-risk-control"}
    assert Policy.model_validate({**data, **expectation}).id not in names
    others_than = {"kind", "version", "sampling", "otherwise", "epsilon", "guarantee"}
    assert {*OTHER_VALUES, *others_than} == set(Policy.model_fields)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"kind": "policy"}, "not a policy; write one with calibsft certify or route"),
        ({"version": 1}, "policy version 1 is not 3; use the calibsft that wrote it"),
        ({"version": None}, "policy version None is not 3"),
        ({"threshhold": 3}, "unknown key 'threshhold'; did you mean 'threshold'?"),
        ({"sampling": {"heat": 1}}, "unknown key 'sampling.heat'; known: temperature"),
        ({"threshold": 0.835}, "0.835 is no multiple of 0.01; confidences in a policy have two decimals: correct it"),
        ({"threshold": 83}, "threshold = 83: input should be less than or equal to 1; correct that key"),
        ({"threshold": "0.83"}, "threshold = '0.83': input should be a valid number"),
        ({"threshold": True}, "threshold = True: input should be a valid number"),
        ({"threshold": -0.1}, "threshold = -0.1: input should be greater than or equal to 0"),
        ({"guarantee": "certain"}, "guarantee = 'certain' (known: high-probability, expectation)"),
        ({"guarantee": "expectation"}, "a guarantee with high probability has a delta, one in expectation has none"),
        ({"procedure": "bonferroni"}, "unknown procedure 'bonferroni' (known: union, fixed-sequence, recycled, split)"),
        ({"delta": None, "guarantee": "expectation"}, "unknown procedure 'union' (known: conformal-risk-control)"),
        ({"on_alarm": "ring"}, "on_alarm = 'ring' (known: warn, abstain, defer)"),
        ({"risk": 1}, "risk = 1: input should be less than 1"),
        ({"risk": float("nan")}, "risk = nan: input should be"),
        ({"risk": None}, "a policy that abstains has a risk, one that defers an epsilon, and none has both; change"),
        ({"epsilon": 0.1}, "a policy that abstains has a risk"),
        ({"otherwise": "defer"}, "a policy that abstains has a risk"),
        ({"otherwise": "guess"}, "otherwise = 'guess' (known: abstain, defer)"),
        ({"on_local_failure": "abstain"}, "on_local_failure = 'abstain' (known: defer, error)"),
        ({"format": "percent"}, "unknown confidence format 'percent' (known: probability,"),
        ({"confidences": {"40": 1}}, "input should be less than or equal to 1"),
        ({"confidences": {"0.4": -1}}, "confidences.0.4 = -1: input should be greater than or equal to 0"),
        ({"model": ""}, "model = '': string should have at least 1 character"),
        ({"n": 0}, "n = 0: input should be greater than or equal to 1"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_by_its_name(
    tmp_path: Path, data: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    assert told in refused(tmp_path / "p.json", json.dumps({**data, **change}))


@pytest.mark.parametrize(
    "text, told",
    [
        ("{'kind': 1}", "not JSON; write it again with calibsft certify or route"),
        ("", "not JSON"),
        (b"\xff\xfe{\x00", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a policy; write one with calibsft certify or route"),
        ("null", "not a policy"),
        ("{}", "not a policy"),
    ],
    ids=["quotes", "empty", "utf-16", "deep", "list", "null", "other"],
)
def test_what_is_no_policy_at_all_is_refused_with_the_way_to_one(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    assert told in refused(tmp_path / "p.json", text)


def test_a_missing_policy_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"p\.json: cannot be read \(No such file or directory\); check the path"
    ):
        read_policy(tmp_path / "p.json")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_policy(tmp_path)


def test_only_a_policy_is_ever_overwritten(tmp_path: Path, data: dict[str, Any]) -> None:
    policy, path = Policy.model_validate(data), tmp_path / "p.json"
    for text in ('{"threshold": 3}', "notes", json.dumps({**data, "version": 1}), ""):
        path.write_text(text)
        with pytest.raises(
            InputError, match=r"exists and is not a policy.*choose another file with --policy"
        ):
            write_policy(path, policy)
        assert path.read_text() == text
    with pytest.raises(InputError, match="exists and is not a policy"):
        write_policy(tmp_path, policy)
    path.write_text(json.dumps({**data, "risk": 0.3}))
    with pytest.raises(InputError, match=r"there is a policy already.*--force"):
        write_policy(path, policy)
    write_policy(path, policy, force=True)
    assert read_policy(path) == policy and [file.name for file in tmp_path.iterdir()] == ["p.json"]


# Policies of the version that wrote whole hundredths


def of_hundredths(data: dict[str, Any]) -> dict[str, Any]:
    """The same policy as the older version wrote it."""
    newer = ("guarantee", "coverage", "min_coverage", "slices", "on_alarm", "replaces")
    older = {name: value for name, value in data.items() if name not in newer}
    return {**older, "version": 2, "threshold": 41, "confidences": {"40": 80, "95": 100}}


def test_a_policy_of_hundredths_is_read_with_a_warning(
    tmp_path: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(of_hundredths(data)))
    assert read_policy(path) == Policy.model_validate(data)
    said = capsys.readouterr().err
    assert (
        "p.json: a policy of version 2, whose threshold 41 means 0.41; write it again with calibsft certify"
        in said
    )
    path.write_text(json.dumps({**of_hundredths(data), "threshold": None}))
    assert (read_policy(path).threshold, read_policy(path).coverage) == (None, 0.0)


@pytest.mark.parametrize(
    "change, told",
    [
        (
            {"threshold": 0.41},
            "not a complete policy of version 2; write it again with calibsft certify or route",
        ),
        ({"threshold": 101}, "threshold = 1.01: input should be less than or equal to 1"),
        ({"confidences": {"high": 1}}, "not a complete policy of version 2"),
        ({"confidences": [1]}, "not a complete policy of version 2"),
        ({"n": 0}, "not a complete policy of version 2"),
        ({"risk": None}, "a policy that abstains has a risk"),
    ],
)
def test_a_broken_policy_of_hundredths_is_refused(
    tmp_path: Path, data: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    assert told in refused(tmp_path / "p.json", json.dumps({**of_hundredths(data), **change}))
