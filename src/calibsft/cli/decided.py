"""What `certify` and `route` do alike once they have decided: the policy file, and the result on standard output."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibsft.errors import unknown_name
from calibsft.text import printable

if TYPE_CHECKING:
    from calibsft.decisions import Certificate, Route, Spread
    from calibsft.decisions.files import Calibration
    from calibsft.decisions.policy import Policy


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


def finish(
    decision: "Certificate | Route",
    left_out: int,
    more: dict[str, Any],
    held_out: "Mapping[str, Spread | None]",
    splits: int,
    path: Path,
    policy: "Policy",
    lines: Sequence[str],
    as_json: bool,
) -> None:
    """Write the policy, then print the decision: as JSON with its whole table, or as `lines`."""
    from calibsft.decisions.policy import write_policy
    from calibsft.report.decisions import policy_line

    write_policy(path, policy)
    if not as_json:
        left = [f"left out: {left_out:,} rows without a readable gold or confidence"] if left_out else []
        print("\n".join(printable(line) for line in [*lines, "", *left, policy_line(str(path), policy)]))
        return
    spreads = {name: spread and asdict(spread) for name, spread in held_out.items()}
    tried = {"splits": splits, **spreads} if spreads else None
    more = {**more, "held_out": tried, "left_out": left_out, "policy": str(path)}
    print(json.dumps({**asdict(decision), **more}, indent=2))
