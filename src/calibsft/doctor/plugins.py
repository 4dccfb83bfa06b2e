"""Whether trainers that calibsft extends have really taken its plug-in; some of them hide that it failed."""

from collections.abc import Iterator
from importlib.util import find_spec

from calibsft.doctor.finding import Finding
from calibsft.doctor.trial import try_module
from calibsft.integrations.exports import TRAINERS

PART = "plug-ins"


def plugin_findings() -> Iterator[Finding]:
    for name, trainer in TRAINERS.items():
        if find_spec(trainer.package) is None:
            detail = f"{trainer.package} is not installed"
            yield Finding(PART, name, "absent", detail, f"see {trainer.manual}")
            continue
        trial = try_module(*trainer.proof)
        if trial.worked:
            yield Finding(PART, name, "ok", trial.said)
        else:
            yield Finding(PART, name, "broken", trial.said, f"see {trainer.manual}")
