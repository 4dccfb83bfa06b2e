"""`calibsft build`: graded responses to a training set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibsft.artifacts import CARD, file_hash
from calibsft.cli.options import AsJson, FormatName, Fresh, HashCheck, Out, Seed, perform
from calibsft.errors import InputError
from calibsft.progress import say
from calibsft.settings import Settings, validated
from calibsft.targets import TARGETS, TargetSection

if TYPE_CHECKING:
    from calibsft.responses.formats import Format
    from calibsft.targets.pool import Pool


class BuildSettings(Settings):
    """The section of a recipe that shapes a training set."""

    targets: TargetSection


def build(
    source: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSONL or Parquet with question_id, question, response, correct; or a rollout folder."
        ),
    ],
    out: Out,
    verdicts: Annotated[
        Path | None,
        typer.Option("--verdicts", help="Folder that `calibsft verify` wrote, for a rollout folder."),
    ] = None,
    mix: Annotated[
        float | None,
        typer.Option(
            "--mix",
            "--lambda",
            help="Of calibsft: weight of the question's success rate against the response's correctness. Default: 0.5.",
        ),
    ] = None,
    format: FormatName = "probability",
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from-format",
            help="How the responses write their confidence, where --format is another. Default: --format for a file, the"
            " verdicts' own for a rollout folder.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", "-n", help="Use the first so many responses of every question alone."),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target", help="; ".join(f"{name}: {t.description}" for name, t in TARGETS.items()) + "."
        ),
    ] = "calibsft",
    balance: Annotated[
        bool,
        typer.Option("--balance/--no-balance", help="Draw the same number of responses for every target."),
    ] = True,
    min_group: Annotated[
        int, typer.Option("--min-group", help="Leave out targets with fewer responses than this.")
    ] = 1,
    redraws: Annotated[
        int, typer.Option("--redraws", help="Balanced draws, one per epoch of training in turn.")
    ] = 1,
    seed: Seed = 0,
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    as_json: AsJson = False,
) -> None:
    """Turn graded responses into a training set: sft.parquet and sft.jsonl (chat format), and labels.parquet for all of them.

    Each response's confidence is replaced by its target: for calibsft mix * (its question's success rate) + (1 - mix) * (is it
    correct). Reasoning and answer stay byte-identical. Responses of one format make a training set in another:
    `--from-format probability --format integer`.
    """
    from calibsft.report.terminal import build_lines
    from calibsft.responses.formats import get_format
    from calibsft.targets.build import SUMMARY
    from calibsft.targets.build import build as build_targets

    data: dict[str, Any] = {
        "name": target,
        "samples": samples,
        "balance": balance,
        "min_group": min_group,
        "redraws": redraws,
    }
    if mix is not None:
        data["mix"] = mix
    settings = validated(BuildSettings, {"targets": data}, "build").targets
    confidence_format = get_format(format)
    pool, written, inputs = _opened(source, verdicts, from_format, confidence_format)

    lines: list[str] = []  # printed when the work is done: an output that fails is no failure of the stage

    def work(folder: Path) -> dict[str, Any]:
        summary = build_targets(pool, settings, confidence_format, seed, str(source), folder, written)
        lines.extend(build_lines(summary))
        say(
            "build: sft.jsonl holds wrong responses too, and plain SFT on it would imitate their reasoning; use calibsft sft, or"
            f" mask as {folder / CARD} says"
        )
        return {"rows": summary.rows, "group_size": summary.group_size}

    shaped = {
        "format": format,
        "from_format": written.name,
        "seed": seed,
        "targets": settings.model_dump(mode="json"),
    }
    perform(out, "build", shaped, inputs, work, fresh, [source, verdicts], hash_check)
    if as_json:
        print((out / SUMMARY).read_text(encoding="utf-8"), end="")
    elif lines:
        print("\n".join(lines))


def _opened(
    source: Path, verdicts: Path | None, from_format: str | None, confidence_format: "Format"
) -> "tuple[Pool, Format, dict[str, str]]":
    """The pool, how its responses write their confidence, and hashes of what it is made from."""
    from calibsft.artifacts import read_manifest
    from calibsft.responses.formats import get_format
    from calibsft.targets.pool import pool_of_file, pool_of_run

    if not source.is_dir():
        written = get_format(from_format) if from_format else confidence_format
        return pool_of_file(source, written), written, {"pool": file_hash(source)}
    if verdicts is None:
        raise InputError(
            f"{source}: a rollout folder needs its verdicts; add --verdicts with the folder that calibsft verify wrote"
        )
    manifests = {"rollout": read_manifest(source), "verify": read_manifest(verdicts)}
    hashes = {stage: manifest["content_hash"] for stage, manifest in manifests.items()}
    if manifests["verify"]["inputs"].get("rollout") != hashes["rollout"]:
        raise InputError(
            f"{verdicts}: these are not verdicts on the rollouts in {source}; run calibsft verify {source} first"
        )
    return pool_of_run(source, verdicts), _graded_format(verdicts, from_format), hashes


def _graded_format(verdicts: Path, from_format: str | None) -> "Format":
    """The format that verdicts were made for; refuses another one in `--from-format`."""
    from calibsft.artifacts import recorded_settings
    from calibsft.responses.formats import get_format

    graded = get_format(recorded_settings(verdicts)["format"])
    if from_format and get_format(from_format) != graded:
        raise InputError(
            f"{verdicts}: these verdicts are for the format '{graded.name}', not '{from_format}'; leave --from-format out, or"
            f" run calibsft verify with --format {from_format}"
        )
    return graded
