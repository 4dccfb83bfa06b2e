"""Policy files: what was decided, from which data, what it promises, and what a gateway needs to act on it.

Plain JSON with a version, for people to review: thresholds and other confidences are in [0, 1]. It holds the counts
of calibration, so that a gateway can notice when live responses no longer look like those. Does not decide anything
(`selective` and `routing` do) and does not serve (`gateway`).
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from calibsft.artifacts import write_json
from calibsft.decisions import conformal
from calibsft.decisions.guarantees import EXPECTATION, HIGH_PROBABILITY, promise
from calibsft.decisions.procedures import PROCEDURES
from calibsft.decisions.routing import Route
from calibsft.decisions.selective import Certificate
from calibsft.decisions.slices import Slice
from calibsft.decisions.thresholds import LAST_THRESHOLD
from calibsft.errors import InputError, unknown_name
from calibsft.progress import warn
from calibsft.responses.formats import get_format
from calibsft.responses.settings import Template
from calibsft.settings import Settings, validated

VERSION: Literal[3] = 3
# The last version whose thresholds were whole hundredths.
HUNDREDTHS_VERSION = 2
KIND: Literal["calibsft-policy"] = "calibsft-policy"
ABSTAIN, DEFER, ERROR, WARN = "abstain", "defer", "error", "warn"
FAILURES = (DEFER, ERROR)
ALARMS = (WARN, ABSTAIN, DEFER)
ID_CHARACTERS = 12


def _on_the_grid(confidence: float) -> float:
    nearest = round(confidence * LAST_THRESHOLD) / LAST_THRESHOLD
    if abs(nearest - confidence) > 1e-9:
        raise InputError(
            f"{confidence} is no multiple of 0.01; confidences in a policy have two decimals: correct it"
        )
    return nearest


GridConfidence = Annotated[float, Field(ge=0, le=1, strict=True), AfterValidator(_on_the_grid)]
# A key of a JSON object is a text.
GridKey = Annotated[float, Field(ge=0, le=1), AfterValidator(_on_the_grid)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Sampling(Settings):
    """How the calibration responses were sampled; the guarantee holds only for responses sampled the same way."""

    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)
    stop: tuple[str, ...] = ()


class Policy(Settings):
    """The threshold, what happens below it, and what that promises.

    Attributes
    ----------
    otherwise : what happens below the threshold: abstain, or defer to the strong model.
    threshold : a confidence; answer if the stated one is at least that. None: never.
    guarantee, procedure, delta : what kind of promise it is, and how it was tested; delta is None for one in expectation.
    risk, epsilon : the allowed error rate if it abstains, the allowed loss of accuracy if it defers.
    n : how many questions it was calibrated on; `data_hash` is the SHA-256 of their data.
    coverage : the share of these questions that reach the threshold; `min_coverage` is the least that was asked for.
    slices : what the threshold does to parts of the responses.
    model, format, sampling : the local model, how it writes confidences, and how it was sampled, if that is known.
    template : the arguments of its chat template, which a gateway asks the server to use.
    on_local_failure : what happens to a question to which the local model gives no reply at all.
    on_alarm : what a gateway does when labels show that the promise is broken: warn, abstain or defer everything.
    replaces : the id of the policy that this one is to replace.
    confidences : number of calibration responses by the threshold that they reach; `never_confident` counts
        those without a confidence to act on.
    """

    kind: Literal["calibsft-policy"] = KIND
    version: Literal[3] = VERSION
    otherwise: Literal["abstain", "defer"]
    threshold: GridConfidence | None
    guarantee: Literal["high-probability", "expectation"]
    procedure: str
    risk: float | None = Field(None, gt=0, lt=1)
    epsilon: float | None = Field(None, gt=0, lt=1)
    delta: float | None = Field(None, gt=0, lt=1)
    n: int = Field(ge=1)
    coverage: Share | None = None
    min_coverage: Share | None = None
    slices: tuple[Slice, ...] = ()
    data_hash: str
    model: str | None = Field(None, min_length=1)
    format: str = "probability"
    template: Template = Field({})
    sampling: Sampling | None = None
    on_local_failure: Literal["defer", "error"]
    on_alarm: Literal["warn", "abstain", "defer"] = "warn"
    replaces: str | None = None
    confidences: dict[GridKey, Count] = Field(default_factory=dict)
    never_confident: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        ours, other = (self.risk, self.epsilon) if self.otherwise == ABSTAIN else (self.epsilon, self.risk)
        if ours is None or other is not None:
            raise ValueError(
                "a policy that abstains has a risk, one that defers an epsilon, and none has both"
            )
        if (self.delta is None) != (self.guarantee == EXPECTATION):
            raise ValueError("a guarantee with high probability has a delta, one in expectation has none")
        known = [conformal.NAME] if self.guarantee == EXPECTATION else list(PROCEDURES)
        if self.procedure not in known:
            unknown_name("procedure", self.procedure, known)
        return self

    @property
    def hundredths(self) -> int | None:
        """The threshold as the whole number of hundredths that confidences are compared with."""
        return None if self.threshold is None else round(self.threshold * LAST_THRESHOLD)

    @property
    def calibrated(self) -> dict[int, int]:
        """The counts of calibration by hundredths."""
        return {round(stated * LAST_THRESHOLD): count for stated, count in self.confidences.items()}

    @property
    def budget(self) -> float:
        """The allowed error rate, or the allowed loss."""
        found = self.risk if self.otherwise == ABSTAIN else self.epsilon
        assert found is not None
        return found

    @property
    def promise(self) -> str:
        """What it promises, in one sentence."""
        what = "of the answers given are wrong" if self.otherwise == ABSTAIN else "of accuracy is lost"
        return promise(f"at most {100 * self.budget:g} % {what}", self.guarantee, self.delta)

    @property
    def id(self) -> str:
        """A short name that changes with anything in the policy."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:ID_CHARACTERS]

    @property
    def needs_strong(self) -> bool:
        return DEFER in (self.otherwise, self.on_local_failure, self.on_alarm)


def abstaining_policy(certificate: Certificate, **known: Any) -> Policy:
    """The policy of a certificate; `known` are the fields that the certificate lacks."""
    accepted = [candidate.accepted for candidate in certificate.candidates]
    given = {"otherwise": ABSTAIN, "guarantee": HIGH_PROBABILITY, "risk": certificate.risk, **known}
    return _policy(certificate, accepted, certificate.coverage, given)


def deferring_policy(route: Route, **known: Any) -> Policy:
    """The policy of a route; `known` are the fields that the route lacks."""
    kept = [candidate.kept for candidate in route.candidates]
    given = {"otherwise": DEFER, "guarantee": route.guarantee, "epsilon": route.epsilon, **known}
    return _policy(route, kept, 1 - route.outcome.deferred, given)


def _policy(
    decision: Certificate | Route, reached: list[int], coverage: float, known: dict[str, Any]
) -> Policy:
    """A checked policy; `reached` is the number of responses that reach each threshold."""
    exactly = [here - above for here, above in zip(reached, [*reached[1:], 0], strict=True)]
    failure = DEFER if known["otherwise"] == DEFER else ERROR
    known["on_local_failure"] = known.get("on_local_failure") or failure
    data = {
        "threshold": decision.threshold,
        "procedure": decision.procedure,
        "delta": decision.delta,
        "n": decision.questions,
        "coverage": coverage,
        "confidences": {
            hundredth / LAST_THRESHOLD: count for hundredth, count in enumerate(exactly) if count
        },
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
            f"{path}: exists and is not a policy of this version; choose another file with --policy"
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
    if data.get("version") == HUNDREDTHS_VERSION:
        return _of_hundredths(path, data)
    if data.get("version") != VERSION:
        raise InputError(
            f"{path}: policy version {data.get('version')!r} is not {VERSION}; use the calibsft that wrote it"
        )
    return _checked(data, str(path))


def _of_hundredths(path: Path, data: dict[str, Any]) -> Policy:
    """A policy of the version whose thresholds were whole hundredths, which is read with a warning."""
    try:
        counts = {int(key) / LAST_THRESHOLD: count for key, count in data.get("confidences", {}).items()}
        reached = data["threshold"]
        if reached is not None and type(reached) is not int:
            raise ValueError(reached)
        threshold = None if reached is None else reached / LAST_THRESHOLD
        over = sum(count for stated, count in counts.items() if threshold is not None and stated >= threshold)
        coverage = over / data["n"]
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not a complete policy of version {HUNDREDTHS_VERSION}; write it again with calibsft certify or route"
        ) from error
    policy = _checked(
        {
            **data,
            "version": VERSION,
            "threshold": threshold,
            "confidences": counts,
            "guarantee": HIGH_PROBABILITY,
            "coverage": coverage,
        },
        str(path),
    )
    warn(
        f"{path}: a policy of version {HUNDREDTHS_VERSION}, whose threshold {reached} means {threshold}; write it again with"
        f" calibsft {'certify' if policy.otherwise == ABSTAIN else 'route'} --force"
    )
    return policy
