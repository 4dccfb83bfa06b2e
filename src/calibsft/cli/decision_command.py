"""What `certify` and `route` share: options, one policy file per part of the data, and results on standard output."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
from typer import Option

from calibsft.cli.options import (
    READING,
    AsJson,
    By,
    Columns,
    Conditions,
    Malformed,
    Result,
    ScaleName,
    print_results,
)
from calibsft.errors import InputError, unknown_name
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where, parts
from calibsft.progress import warn
from calibsft.responses.formats import get_format

if TYPE_CHECKING:
    from calibsft.decisions import Certificate, Route, Spread
    from calibsft.decisions.files import Calibration
    from calibsft.decisions.policy import Policy
    from calibsft.decisions.slices import Slice

SPLITS = ("id", "ood")
# Panels of help.
GUARANTEE = "Guarantee"
CHECKS = "Checks"
POLICY = "Policy file"
NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """The options of both commands, in the order of their help."""

    guarantee: Annotated[
        str,
        Option(
            metavar="NAME",
            help="high-probability: the budget is kept with probability 1 − --delta; or expectation, for route only: it is"
            " kept on average over calibrations, which needs fewer labels.",
            rich_help_panel=GUARANTEE,
        ),
    ] = "high-probability"
    delta: Annotated[
        float,
        Option(help="Largest probability with which the guarantee may fail.", rich_help_panel=GUARANTEE),
    ] = 0.05
    procedure: Annotated[
        str,
        Option(
            metavar="NAME",
            help="How thresholds are tested: union, as in the paper; fixed-sequence, recycled or split mostly find a lower"
            " threshold with the same guarantee. route has union and fixed-sequence.",
            rich_help_panel=GUARANTEE,
        ),
    ] = "union"
    per_question: Annotated[
        str,
        Option(
            metavar="random|first",
            help="Which response to calibrate on where a question has several.",
            rich_help_panel=GUARANTEE,
        ),
    ] = "random"
    columns: Columns = None
    scale: ScaleName = None
    where: Conditions = None
    split: Annotated[
        str | None,
        Option(
            metavar="id|ood",
            help="Use only the benchmarks of this split of an evaluation.",
            rich_help_panel=READING,
        ),
    ] = None
    by: By = None
    slices: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Also show, and record in the policy, the results for every value of this column; default: dataset, if the"
            " file has it. Repeatable.",
            rich_help_panel=CHECKS,
        ),
    ] = None
    splits: Annotated[
        int,
        Option(
            min=0,
            help="Random splits for the held-out results: calibrate on one half, count on the other.",
            rich_help_panel=CHECKS,
        ),
    ] = 10
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of everything random in this command.")] = 0
    malformed: Malformed = None
    policy: Annotated[
        Path,
        Option(
            metavar="FILE", help="Policy file to write; `calibsft serve` acts on it.", rich_help_panel=POLICY
        ),
    ] = Path("policy.json")
    force: Annotated[
        bool, Option("--force", help="Replace an existing policy file.", rich_help_panel=POLICY)
    ] = False
    model: Annotated[
        str | None,
        Option(
            help="The model's name, to record in the policy; default: that of the evaluation.",
            rich_help_panel=POLICY,
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(
            metavar="FORMAT",
            help="How the model writes its confidence, to record in the policy: probability, probability-0.05, integer or"
            " linguistic; default: that of the evaluation, or probability.",
            rich_help_panel=POLICY,
        ),
    ] = None
    on_local_failure: Annotated[
        str | None,
        Option(
            metavar="defer|error",
            help="What the gateway does when the local model fails; default: defer if the policy defers, else error.",
            rich_help_panel=POLICY,
        ),
    ] = None
    on_alarm: Annotated[
        str,
        Option(
            metavar="ACTION",
            help="What the gateway does when labels show that the promise is broken: warn, abstain or defer.",
            rich_help_panel=POLICY,
        ),
    ] = "warn"
    min_coverage: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Write no policy that answers (route: keeps) less than this share of the questions.",
            rich_help_panel=POLICY,
        ),
    ] = None
    replaces: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Policy in use that the new one replaces; default: the one that --force overwrites.",
            rich_help_panel=POLICY,
        ),
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


def decide(
    file: Path, options: DecisionOptions, dialect: Dialect, decide_part: Callable[[Where], Decision]
) -> None:
    """Decide for each part of the file, write the policies, then print them in words or as JSON with whole tables."""
    from calibsft.decisions.policy import write_policy

    wanted = parts(file, _rows(options), options.by, dialect)
    paths = _policy_paths(options.policy, list(wanted), options.force)
    decisions = [decide_part(rows) for rows in wanted.values()]
    policies = [_replacing(d.policy, path, options) for d, path in zip(decisions, paths, strict=True)]
    for policy, part in zip(policies, wanted, strict=True):
        _require_coverage(policy, part)
    for decision, policy, path in zip(decisions, policies, paths, strict=True):
        write_policy(path, policy, options.force)
        for text in filter(None, decision.warnings):
            warn(text)
    results = [_result(*decided, options.splits) for decided in zip(decisions, policies, paths, strict=True)]
    print_results(dict(zip(wanted, results, strict=True)), options.by, options.as_json)


def _rows(options: DecisionOptions) -> Where:
    """The rows that --where and --split select."""
    where = Where.of(options.where or ())
    if options.split is None:
        return where
    if options.split not in SPLITS:
        unknown_name("split", options.split, list(SPLITS))
    return where.also("split", options.split)


def _replacing(policy: "Policy", path: Path, options: DecisionOptions) -> "Policy":
    """The policy with the id of the one that it replaces."""
    from calibsft.decisions.policy import read_policy

    replaced = options.replaces or (path if path.exists() else None)
    return policy if replaced is None else policy.model_copy(update={"replaces": read_policy(replaced).id})


def _require_coverage(policy: "Policy", part: str) -> None:
    least, found = policy.min_coverage, policy.coverage
    if least is None or found is None or found >= least:
        return
    of = f" for {part}" if part else ""
    raise InputError(
        f"only {100 * found:.1f} % of the questions reach the threshold{of}, less than the {100 * least:g} % of"
        " --min-coverage; no policy was written: allow a larger budget, give more questions, or ask for less coverage"
    )


def known_of(given: "Calibration", options: DecisionOptions) -> dict[str, Any]:
    """What a policy records of the local model and its use: options, else what the evaluation knows."""
    from calibsft.decisions.policy import ALARMS, FAILURES

    if options.format is not None:
        get_format(options.format)
    if options.on_local_failure not in (None, *FAILURES):
        unknown_name("way to handle a local failure", options.on_local_failure, list(FAILURES))
    if options.on_alarm not in ALARMS:
        unknown_name("way to handle an alarm", options.on_alarm, list(ALARMS))
    names = ("model", "format", "on_local_failure", "on_alarm", "min_coverage")
    chosen = {name: getattr(options, name) for name in names}
    return given.known | {name: value for name, value in chosen.items() if value is not None}


def reaches(confidence: pl.Series, threshold: float | None) -> pl.Series:
    """Which confidences reach a threshold; a missing one never does, and none reaches None."""
    if threshold is None:
        return pl.repeat(False, len(confidence), eager=True)
    from calibsft.decisions.thresholds import hundredths

    stated = hundredths(confidence.cast(pl.Float64).fill_null(0).to_numpy())
    return pl.Series(stated >= round(100 * threshold)) & confidence.is_not_null()


def parts_of_policy(
    rows: pl.DataFrame, options: DecisionOptions, acted_on: pl.Series, event: pl.Series, share_of_all: bool
) -> "tuple[Slice, ...]":
    """What the threshold does to every dataset, and to every value of the columns of --slices."""
    from calibsft.decisions.slices import slices_of

    named = options.slices or (["dataset"] if "dataset" in rows.columns else [])
    judged = rows.with_columns(acted_on=acted_on, event=event)
    return slices_of(judged, named, share_of_all)


def failing_parts(slices: "Sequence[Slice]", budget: float, share_of_all: bool) -> str | None:
    """The warning that names parts whose rate is above the budget beyond chance, else None."""
    from calibsft.decisions.slices import failing

    found = failing(slices, budget, share_of_all)
    if not found:
        return None
    worst = max(found, key=lambda one: one.rate or 0.0)
    return (
        f"{len(found)} of {len(slices)} parts fail more often than the {100 * budget:g} % allowed over all questions, most of all"
        f" {worst.column}={worst.value} ({100 * (worst.rate or 0):.1f} %); the guarantee is about all questions together"
    )


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


def _result(decision: Decision, policy: "Policy", path: Path, splits: int) -> Result:
    from calibsft.report.decisions import policy_line, slice_lines

    left_out, warnings = decision.left_out, [text for text in decision.warnings if text]
    left = [f"left out: {left_out:,} rows without a readable gold or confidence"] if left_out else []
    spreads = {name: spread and asdict(spread) for name, spread in decision.held_out.items()}
    tried = {"splits": splits, **spreads} if spreads else None
    rest = {
        "promise": policy.promise,
        "held_out": tried,
        "slices": [one.model_dump() for one in policy.slices],
        "left_out": left_out,
        "policy": str(path),
        "warnings": warnings,
    }
    return Result(
        [*decision.lines, *slice_lines(policy), "", *left, policy_line(str(path), policy)],
        {**asdict(decision.found), **decision.more, **rest},
    )
