"""What this environment has and what really works in it: the findings of `calibsft doctor`.

Libraries are imported in processes of their own, since a broken one may take minutes, print, or end its process. Changes
nothing and asks no server.
"""

from collections.abc import Callable, Iterator

from calibsft.doctor.engines import engine_findings
from calibsft.doctor.finding import Finding
from calibsft.doctor.machine import machine_findings
from calibsft.doctor.packages import extra_findings, required_findings
from calibsft.doctor.plugins import plugin_findings

__all__ = ["Finding", "findings"]

CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    machine_findings,
    required_findings,
    extra_findings,
    engine_findings,
    plugin_findings,
)


def findings() -> Iterator[Finding]:
    """All findings, part by part, each as soon as it is known."""
    for check in CHECKS:
        yield from check()
