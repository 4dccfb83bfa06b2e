"""The packages that calibsft needs, and those of its extras: installed, and of versions that fit."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from calibsft.doctor.finding import Finding

PACKAGE = "calibsft"
# Extras for those who change calibsft, or for environments that a script makes.
NOT_FOR_USERS = {"dev", "verl"}
MISSING = "not installed"


def required_findings() -> Iterator[Finding]:
    """One finding for all packages that are as they should be, and one for each other."""
    wrong = list(_wrong(_requirements("")))
    for requirement, fault in wrong:
        detail = f"{requirement.name} is {fault}"
        remedy = f"pip install '{requirement}'"
        yield Finding("packages", requirement.name, "broken", detail, remedy)
    right = len(_requirements("")) - len(wrong)
    yield Finding(
        "packages", "required", "ok", f"{right} of {right + len(wrong)} are installed, in versions that fit"
    )


def extra_findings() -> Iterator[Finding]:
    """One finding for each extra."""
    for name in sorted(set(_extras()) - NOT_FOR_USERS):
        wrong = list(_wrong(_requirements(name)))
        if wrong:
            remedy = f"pip install '{PACKAGE}[{name}]'"
            yield Finding("extras", name, "absent", _together(wrong), remedy)
        else:
            yield Finding("extras", name, "ok", "installed")


def _wrong(requirements: list[Requirement]) -> Iterator[tuple[Requirement, str]]:
    """Requirements that are not met, each with what the package is instead."""
    for requirement in requirements:
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield requirement, MISSING
            continue
        # A build for one machine, such as 2.13.0+cpu, and a release candidate are versions too.
        if not requirement.specifier.contains(installed, prereleases=True):
            yield requirement, f"{installed}, needed is {requirement.specifier}"


def _together(wrong: list[tuple[Requirement, str]]) -> str:
    """What is wrong with several packages, those that are missing in one list."""
    missing = [requirement.name for requirement, fault in wrong if fault == MISSING]
    others = [f"{requirement.name} is {fault}" for requirement, fault in wrong if fault != MISSING]
    return "; ".join([*([f"{MISSING}: {', '.join(missing)}"] if missing else []), *others])


def _requirements(extra: str) -> list[Requirement]:
    """What calibsft itself needs, or one of its extras besides."""
    found = map(Requirement, requires(PACKAGE) or ())
    asked = [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]
    return [one for one in asked if bool(extra) == ("extra" in str(one.marker))]


def _extras() -> Iterator[str]:
    yield from metadata(PACKAGE).get_all("Provides-Extra") or ()
