"""Whether trainers and libraries that calibsft extends have really taken its plug-in; some hide that it failed."""

from collections.abc import Iterator
from importlib.util import find_spec

from calibsft.doctor.finding import Finding
from calibsft.doctor.trial import try_module
from calibsft.integrations.exports import TRAINERS, Trainer
from calibsft.integrations.plugins import PLUGINS, Plugin

PART = "plug-ins"


def plugin_findings() -> Iterator[Finding]:
    others: dict[str, Trainer | Plugin] = {**TRAINERS, **PLUGINS}
    for name, other in others.items():
        if find_spec(other.package) is None:
            detail = f"{other.package} is not installed"
            yield Finding(PART, name, "absent", detail, f"{other.install}; see {other.manual}")
            continue
        trial = try_module(*other.proof)
        if trial.worked:
            yield Finding(PART, name, "ok", trial.message)
        else:
            yield Finding(PART, name, "broken", trial.message, f"see {other.manual}")
