"""What `certify` and `route` share: options, one policy file per part of the data, and results on standard output."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from calibsft.cli.options import AsJson, By, Conditions, Malformed, Result, print_results
from calibsft.errors import unknown_name
from calibsft.metrics.selection import Where, parts
from calibsft.progress import warn
from calibsft.responses.formats import get_format

if TYPE_CHECKING:
    from calibsft.decisions import Certificate, Route, Spread
    from calibsft.decisions.files import Calibration
    from calibsft.decisions.policy import Policy

NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """The options of both commands, in the order of their help."""

    delta: Annotated[float, Option(help="Probability that the guarantee does not hold.")] = 0.05
    procedure: Annotated[
        str,
        Option(help="union, the paper's; or fixed-sequence, which certifies more with the same guarantee."),
    ] = "union"
    per_question: Annotated[
        str,
        Option(
            help="Where questions have several responses: calibrate on a random one, or on the first of the file."
        ),
    ] = "random"
    where: Conditions = None
    by: By = None
    splits: Annotated[
        int, Option(min=0, help="Random splits to try it on: calibrate on one half, count on the other.")
    ] = 10
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of everything random in this command.")] = 0
    malformed: Malformed = None
    policy: Annotated[Path, Option(help="Policy file to write, which `calibsft serve` acts on.")] = Path(
        "policy.json"
    )
    force: Annotated[bool, Option("--force", help="Replace an existing policy file.")] = False
    model: Annotated[
        str | None, Option(help="The model's name, for the policy; an evaluation knows its own.")
    ] = None
    format: Annotated[
        str | None,
        Option(
            help="How the model writes confidences, for the policy: probability, probability-0.05, integer or linguistic."
            " An evaluation knows its own; else probability."
        ),
    ] = None
    on_local_failure: Annotated[
        str | None, Option(help="What a gateway does when the local model fails: defer or error.")
    ] = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision, with everything that is printed about it.

    Attributes
    ----------
    left_out : the number of rows left out of calibration.
    more : further fields of `--json`, besides the threshold and its candidates.
    held_out : results on held-out halves; empty if it was not tried.
    lines : the decision in words.
    warnings : reasons not to trust it; None entries are skipped.
    """

    found: "Certificate | Route"
    policy: "Policy"
    left_out: int
    more: dict[str, Any]
    held_out: "Mapping[str, Spread | None]"
    lines: Sequence[str]
    warnings: Sequence[str | None]


def decide(file: Path, options: DecisionOptions, decide_part: Callable[[Where], Decision]) -> None:
    """Decide for each part of the file, write the policies, then print them in words or as JSON with whole tables."""
    from calibsft.decisions.policy import write_policy

    wanted = parts(file, Where.of(options.where or ()), options.by)
    paths = _policy_paths(options.policy, list(wanted), options.force)
    decisions = [decide_part(rows) for rows in wanted.values()]
    for decision, path in zip(decisions, paths, strict=True):
        write_policy(path, decision.policy, options.force)
        for text in filter(None, decision.warnings):
            warn(text)
    results = [_result(*decided, options.splits) for decided in zip(decisions, paths, strict=True)]
    print_results(dict(zip(wanted, results, strict=True)), options.by, options.as_json)


def known_of(given: "Calibration", options: DecisionOptions) -> dict[str, Any]:
    """What a policy records of the local model: options, else what the evaluation knows."""
    from calibsft.decisions.policy import FAILURES

    if options.format is not None:
        get_format(options.format)
    if options.on_local_failure not in (None, *FAILURES):
        unknown_name("way to handle a local failure", options.on_local_failure, list(FAILURES))
    said = {name: getattr(options, name) for name in ("model", "format", "on_local_failure")}
    return given.known | {name: value for name, value in said.items() if value is not None}


def _policy_paths(path: Path, parts: Sequence[str], force: bool) -> list[Path]:
    """The policy file of each part: `path`, with the part's name if it has one. Checks that all can be written."""
    from calibsft.decisions.policy import require_writable

    taken: list[Path] = []
    for part in parts:
        # A value comes from the data and may be anything, even a path to another folder.
        value = re.sub(r"[^A-Za-z0-9._-]+", "_", part)[:NAME_CHARACTERS]
        name = f"{path.stem}-{value}" if part else path.stem
        while path.with_name(f"{name}{path.suffix}") in taken:
            name += "_"
        found = path.with_name(f"{name}{path.suffix}")
        require_writable(found, force)
        taken.append(found)
    return taken


def exceeded(held_out: "Mapping[str, Spread | None]", name: str, budget: float, what: str) -> str | None:
    """The warning if a decision does worse on held-out halves than it promises, else None."""
    found = held_out.get(name)
    if found is None or found.mean <= budget:
        return None
    return (
        f"held out, {100 * found.mean:.1f} % {what}, more than the {100 * budget:g} % allowed: the responses that it is"
        " calibrated on are unlike the others; do not rely on the policy before you know why"
    )


def _result(decision: Decision, path: Path, splits: int) -> Result:
    from calibsft.report.decisions import policy_line

    left_out, warnings = decision.left_out, [text for text in decision.warnings if text]
    left = [f"left out: {left_out:,} rows without a readable gold or confidence"] if left_out else []
    spreads = {name: spread and asdict(spread) for name, spread in decision.held_out.items()}
    tried = {"splits": splits, **spreads} if spreads else None
    rest = {"held_out": tried, "left_out": left_out, "policy": str(path), "warnings": warnings}
    return Result(
        [*decision.lines, "", *left, policy_line(str(path), decision.policy)],
        {**asdict(decision.found), **decision.more, **rest},
    )
