"""`calibsft diagnose`: is a CalibSFT stage worth it before RL, from responses or from a model that is sampled first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibsft.cli.evaluate import perform_evaluation
from calibsft.cli.options import (
    AsJson,
    By,
    Conditions,
    DataDir,
    Device,
    Dtype,
    FormatName,
    Fresh,
    JudgeModel,
    JudgeUrl,
    Result,
    Seed,
    Stop,
    judge_settings,
    listed,
    print_results,
)
from calibsft.errors import InputError

if TYPE_CHECKING:
    from calibsft.metrics.selection import Where
    from calibsft.prior import Diagnosis

FILE_ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet", ".gz", ".json", ".txt", ".tsv", ".xlsx")
CHECKPOINT = "config.json"


def diagnose(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODEL",
            help="CSV, JSONL or Parquet with confidence, correct (and question_id, dataset), a folder that `verify` or"
            " `eval` wrote; or a checkpoint folder or Hub id, which is sampled first.",
        ),
    ],
    malformed: Annotated[
        str | None,
        typer.Option(
            "--malformed",
            help="Rows without a readable confidence: error, or drop or counted, which both leave them out and tell"
            " their share. Default: counted, with a warning.",
        ),
    ] = None,
    where: Conditions = None,
    by: By = None,
    group_size: Annotated[
        int, typer.Option("--group-size", min=1, help="Responses per question in the RL that is to follow.")
    ] = 8,
    benchmarks: Annotated[
        str | None,
        typer.Option(
            "--benchmarks",
            help="For a model: what to ask, comma-separated; `calibsft ls benchmarks` lists them.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="For a model: folder for its responses; an unfinished one is resumed."),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", "-n", help="For a model: responses per question.")
    ] = 16,
    limit: Annotated[
        int, typer.Option("--limit", help="For a model: only the first so many questions of each benchmark.")
    ] = 50,
    temperature: Annotated[float, typer.Option("--temperature", help="As RL would sample.")] = 1.0,
    top_p: float = 1.0,
    max_new_tokens: int = 16384,
    stop: Stop = None,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sequences decoded side by side.")] = 64,
    data_dir: DataDir = None,
    format: FormatName = "probability",
    judge: JudgeModel = None,
    judge_url: JudgeUrl = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Is a CalibSFT stage worth it before RL? `calibsft diagnose responses.csv`, with the reasons.

    Tells how few confidences a model states, how much of RL's gradient reaches the others, and what they cost
    against the questions' success rates. A model is sampled first: `calibsft diagnose M --benchmarks math-500 --out d`.
    """
    from calibsft.metrics.confidences import require_policy
    from calibsft.metrics.selection import Where

    require_policy(malformed)  # before a model is sampled
    rows = Where.of(where or ())
    if not _is_model(what):
        if benchmarks or out:
            raise InputError(
                f"{what}: its responses are there already; --benchmarks and --out are for a model"
            )
        _print(Path(what), malformed, group_size, rows, by, as_json)
        return
    if not benchmarks or out is None:
        raise InputError(_what_to_add(what))
    from calibsft.engines import default_engine
    from calibsft.evaluation.settings import EvalSettings
    from calibsft.settings import validated

    data = {
        "benchmarks": listed(benchmarks),
        "data_dir": str(data_dir) if data_dir else None,
        "samples": samples,
        "limit": limit,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop or ()),
    }
    settings = validated(EvalSettings, data, "eval")
    # An evaluation as `calibsft eval` leaves it: it can be scored, reported and diagnosed again.
    engine = default_engine(max_rows=max_rows)
    judging = judge_settings(judge, judge_url)
    perform_evaluation(what, engine, settings, judging, format, seed, device, dtype, out, fresh, "diagnose")
    _print(out, malformed, group_size, rows, by, as_json)


def _is_model(what: str) -> bool:
    """Whether to sample: a checkpoint folder, or a name that is neither here nor that of a file."""
    path = Path(what)
    if path.is_dir():
        return (path / CHECKPOINT).is_file()
    return not path.exists() and not what.lower().endswith(FILE_ENDINGS)


def _what_to_add(what: str) -> str:
    add = "add --benchmarks, e.g. math-500,gsm8k, and --out FOLDER"
    if Path(what).is_dir():
        return f"{what}: a model is sampled before it can be diagnosed; {add}"
    return f"{what}: no such file or folder; if it is a model on the Hub, which is sampled first, {add}"


def _diagnose_file(path: Path, malformed: str | None, group_size: int, where: "Where") -> "Diagnosis":
    """The diagnosis of some rows of a file, of a folder of verdicts, or of an evaluation."""
    from calibsft import prior
    from calibsft.metrics.files import read_scored

    # Both leave such rows out of the prior, but only what is read can be told.
    policy = "counted" if malformed == "drop" else malformed
    frame, _ = read_scored(path, policy, where=where, unread_are="are left out of the prior")
    keys = [name for name in ("dataset", "question_id") if name in frame.columns]
    questions = frame.select(keys).to_struct() if "question_id" in keys else None
    known = "well_formed" in frame.columns
    malformed_share = int((~frame["well_formed"]).sum()) / len(frame) if known else None
    try:
        return prior.diagnose(frame["confidence"], frame["correct"], questions, group_size, malformed_share)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _print(
    path: Path, malformed: str | None, group_size: int, where: "Where", by: str | None, as_json: bool
) -> None:
    from calibsft.metrics.selection import parts
    from calibsft.report.diagnosis import diagnosis_lines

    results = {}
    for value, rows in parts(path, where, by).items():
        found = _diagnose_file(path, malformed, group_size, rows)
        results[value] = Result(diagnosis_lines(found), found.to_json())
    print_results(results, by, as_json)
