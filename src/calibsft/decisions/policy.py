"""Policy files: what was decided, from which data, and what a gateway needs to act on it.

Plain JSON with a version. A policy says which confidences are answered and what happens to the others. It holds the counts
of calibration, so that a gateway can notice when live responses no longer look like those. Does not decide anything (`selective` and `routing` do) and does not serve (`gateway`).
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from calibsft.artifacts import write_json
from calibsft.decisions.routing import Route
from calibsft.decisions.selective import LAST_THRESHOLD, Certificate
from calibsft.errors import InputError
from calibsft.responses.formats import get_format
from calibsft.responses.settings import Template
from calibsft.settings import Settings, validated

VERSION: Literal[2] = 2
KIND: Literal["calibsft-policy"] = "calibsft-policy"
ABSTAIN, DEFER, ERROR = "abstain", "defer", "error"
FAILURES = (DEFER, ERROR)
ID_CHARACTERS = 12

Hundredths = Annotated[int, Field(ge=0, le=LAST_THRESHOLD)]
Count = Annotated[int, Field(ge=0)]


class Sampling(Settings):
    """How the calibration responses were sampled; the guarantee holds only for responses sampled the same way."""

    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)
    stop: tuple[str, ...] = ()


class Policy(Settings):
    """The threshold, and what happens below it.

    Attributes
    ----------
    otherwise : what happens below the threshold: abstain, or defer to the strong model.
    threshold : in hundredths; answer if the confidence is at least that. None: never.
    risk, epsilon : the allowed error rate if it abstains, the allowed loss of accuracy if it defers.
    n : how many questions it was calibrated on; `data_hash` is the SHA-256 of their data.
    model, format, sampling : the local model, how it writes confidences, and how it was sampled, if that is known.
    template : the arguments of its chat template, which a gateway asks the server to use.
    on_local_failure : what happens to a question to which the local model gives no reply at all.
    confidences : number of calibration responses by confidence in hundredths, rounded down; `never_confident` counts
        those without a confidence to act on.
    """

    kind: Literal["calibsft-policy"] = KIND
    version: Literal[2] = VERSION
    otherwise: Literal["abstain", "defer"]
    threshold: int | None = Field(ge=0, le=LAST_THRESHOLD, strict=True)
    procedure: Literal["union", "fixed-sequence"]
    risk: float | None = Field(None, gt=0, lt=1)
    epsilon: float | None = Field(None, gt=0, lt=1)
    delta: float = Field(gt=0, lt=1)
    n: int = Field(ge=1)
    data_hash: str
    model: str | None = Field(None, min_length=1)
    format: str = "probability"
    template: Template = Field({})
    sampling: Sampling | None = None
    on_local_failure: Literal["defer", "error"]
    confidences: dict[Hundredths, Count] = Field(default_factory=dict)
    never_confident: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        ours, other = (self.risk, self.epsilon) if self.otherwise == ABSTAIN else (self.epsilon, self.risk)
        if ours is None or other is not None:
            raise ValueError(
                "a policy that abstains has a risk, one that defers an epsilon, and none has both"
            )
        return self

    @property
    def id(self) -> str:
        """A short name that changes with anything in the policy."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:ID_CHARACTERS]

    @property
    def needs_strong(self) -> bool:
        return DEFER in (self.otherwise, self.on_local_failure)


def abstaining_policy(certificate: Certificate, **known: Any) -> Policy:
    """The policy of a certificate; `known` are the fields that the certificate lacks."""
    accepted = [candidate.accepted for candidate in certificate.candidates]
    return _policy(certificate, accepted, otherwise=ABSTAIN, risk=certificate.risk, **known)


def deferring_policy(route: Route, **known: Any) -> Policy:
    """The policy of a route; `known` are the fields that the route lacks."""
    kept = [candidate.kept for candidate in route.candidates]
    return _policy(route, kept, otherwise=DEFER, epsilon=route.epsilon, **known)


def _policy(decision: Certificate | Route, reached: list[int], **known: Any) -> Policy:
    """A checked policy; `reached` is the number of responses that reach each threshold."""
    exactly = [here - above for here, above in zip(reached, [*reached[1:], 0], strict=True)]
    failure = DEFER if known["otherwise"] == DEFER else ERROR
    known["on_local_failure"] = known.get("on_local_failure") or failure
    data = {
        "threshold": decision.threshold,
        "procedure": decision.procedure,
        "delta": decision.delta,
        "n": decision.questions,
        "confidences": {hundredth: count for hundredth, count in enumerate(exactly) if count},
        "never_confident": decision.questions - reached[0],
        **known,
    }
    return _checked(data, "policy")


def _checked(data: dict[str, Any], source: str) -> Policy:
    policy = validated(Policy, data, source)
    try:
        get_format(policy.format)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    return policy


def write_policy(path: Path, policy: Policy, force: bool = False) -> None:
    """Write the policy; `force` replaces an earlier policy, and no other file is ever replaced."""
    require_writable(path, force)
    write_json(path, policy.model_dump(mode="json"))


def require_writable(path: Path, force: bool) -> None:
    """Refuse a path with a file that a policy must not replace."""
    if not path.exists():
        return
    try:
        read_policy(path)
    except InputError as error:
        raise InputError(
            f"{path}: there is something else than a policy of this version; choose another file with --policy"
        ) from error
    if not force:
        raise InputError(
            f"{path}: there is a policy already, which a gateway may act on; choose another file with --policy, or"
            " replace it with --force"
        )


def read_policy(path: Path) -> Policy:
    """The policy in a file; an error names what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON; write it again with calibsft certify or route") from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise InputError(f"{path}: not a policy; write one with calibsft certify or route")
    if data.get("version") != VERSION:
        raise InputError(
            f"{path}: policy version {data.get('version')!r} is not {VERSION}; use the calibsft that wrote it"
        )
    return _checked(data, str(path))
