"""What `certify` and `route` do alike: policy files, one for each part of the data, and results on standard output."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibsft.cli.options import Result, print_results
from calibsft.errors import unknown_name
from calibsft.progress import warn

if TYPE_CHECKING:
    from calibsft.decisions import Certificate, Route, Spread
    from calibsft.decisions.files import Calibration
    from calibsft.decisions.policy import Policy

NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with all that is told of it.

    Attributes
    ----------
    left_out : rows that it is not calibrated on.
    more : what `--json` has besides the decision.
    held_out : what it does to held-out halves, of which there are `splits`; empty if it was not tried.
    lines : the decision in words.
    warnings : why it may not mean what it seems to; one that is None is not there.
    """

    decision: "Certificate | Route"
    policy: "Policy"
    left_out: int
    more: dict[str, Any]
    held_out: "Mapping[str, Spread | None]"
    splits: int
    lines: Sequence[str]
    warnings: Sequence[str | None]


def known_of(
    given: "Calibration", model: str | None, format_name: str | None, on_local_failure: str | None
) -> dict[str, Any]:
    """What a policy says of the local model: what an evaluation knows, unless options say otherwise."""
    from calibsft.decisions.policy import FAILURES
    from calibsft.responses.formats import get_format

    if format_name is not None:
        get_format(format_name)
    if on_local_failure not in (None, *FAILURES):
        unknown_name("way to handle a local failure", on_local_failure, list(FAILURES))
    options = {"model": model, "format": format_name, "on_local_failure": on_local_failure}
    return given.known | {name: value for name, value in options.items() if value is not None}


def policy_paths(path: Path, parts: Sequence[str], force: bool) -> list[Path]:
    """Where the policy of each part goes, all of them checked: `path`, with the part's name if it has one."""
    from calibsft.decisions.policy import require_writable

    taken: list[Path] = []
    for part in parts:
        # A value comes from the data and may be anything, also a path that leads elsewhere.
        value = re.sub(r"[^A-Za-z0-9._-]+", "_", part)[:NAME_CHARACTERS]
        name = f"{path.stem}-{value}" if part else path.stem
        while path.with_name(f"{name}{path.suffix}") in taken:
            name += "_"
        found = path.with_name(f"{name}{path.suffix}")
        require_writable(found, force)
        taken.append(found)
    return taken


def exceeded(held_out: "Mapping[str, Spread | None]", name: str, budget: float, what: str) -> str | None:
    """What to say if a decision does worse on held-out halves than it allows."""
    found = held_out.get(name)
    if found is None or found.mean <= budget:
        return None
    return (
        f"held out, {100 * found.mean:.1f} % {what}, more than the {100 * budget:g} % allowed: the responses that it is"
        " calibrated on are unlike the others; do not rely on the policy before you know why"
    )


def finish(
    decided: Mapping[str, Decided], paths: Sequence[Path], by: str | None, as_json: bool, force: bool
) -> None:
    """Write the policies, then print the decisions: as JSON with their whole tables, or in words."""
    from calibsft.decisions.policy import write_policy

    for found, path in zip(decided.values(), paths, strict=True):
        write_policy(path, found.policy, force)
        for text in filter(None, found.warnings):
            warn(text)
    results = [_result(found, path) for found, path in zip(decided.values(), paths, strict=True)]
    print_results(dict(zip(decided, results, strict=True)), by, as_json)


def _result(found: Decided, path: Path) -> Result:
    from calibsft.report.decisions import policy_line

    left = (
        [f"left out: {found.left_out:,} rows without a readable gold or confidence"] if found.left_out else []
    )
    spreads = {name: spread and asdict(spread) for name, spread in found.held_out.items()}
    tried = {"splits": found.splits, **spreads} if spreads else None
    rest = {"held_out": tried, "left_out": found.left_out, "policy": str(path)}
    warnings = [text for text in found.warnings if text]
    return Result(
        [*found.lines, "", *left, policy_line(str(path), found.policy)],
        {**asdict(found.decision), **found.more, **rest, "warnings": warnings},
    )
