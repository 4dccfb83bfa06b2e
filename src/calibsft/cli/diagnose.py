"""`calibsft diagnose`: is CalibSFT worth it before RL? From responses, or from a model, which is sampled first."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.cli.options import (
    READING,
    AsJson,
    By,
    Columns,
    Conditions,
    Fresh,
    Result,
    ScaleName,
    print_results,
)
from calibsft.errors import InputError
from calibsft.files.cells import require_policy
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where, parts
from calibsft.prior.files import diagnose_file
from calibsft.report.diagnosis import diagnosis_lines
from calibsft.settings.options import Option
from calibsft.stages.evaluate import EvalStage

# Enough samples for a success rate, enough questions to show the prior, and the temperature of RL.
AS_RL_SAMPLES = {"samples": 16, "limit": 50, "temperature": 1.0}
FILE_ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet", ".gz", ".json", ".eval", ".txt", ".tsv", ".xlsx")
CHECKPOINT = "config.json"


def diagnose(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODEL",
            help="CSV, JSONL or Parquet with confidence, correct (and optionally question_id, dataset); a folder that"
            " `calibsft verify` or `calibsft eval` wrote; or a checkpoint folder or Hub id, which is sampled first.",
        ),
    ],
    malformed: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Responses without a readable confidence: error (refuse the file), drop or counted (both leave them out and"
            " show their share). Default: counted, with a warning.",
            rich_help_panel=READING,
        ),
    ] = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    by: By = None,
    group_size: Annotated[int, typer.Option(min=1, help="Responses per question in the planned RL.")] = 8,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the responses of a model; an unfinished one is resumed."
        ),
    ] = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Tell whether a model needs CalibSFT before RL, and why.

    ```sh
    calibsft diagnose responses.csv
    calibsft diagnose Qwen/Qwen3-0.6B --benchmarks math-500 --out diagnosis
    ```

    Shows how few confidence values the model states, how little of RL's gradient would reach the other values, and how far
    the stated ones are from the questions' success rates. A model is sampled first.
    """
    require_policy(malformed)  # before a model is sampled
    chosen = Where.of(where or ())
    asked = {name: value for name, value in given.items() if value is not None}
    path = Path(what)
    dialect = Dialect.of(columns, scale, [path])
    if _is_model(what):
        if dialect:
            raise InputError(f"{what}: a model, and --columns and --scale are for files; leave them out")
        path = _sampled(what, asked, out, fresh)
    elif asked or out:
        raise InputError(
            f"{what}: these are responses; leave out --out and sampling options, which are for a model"
        )
    results = {}
    for value, rows in parts(path, chosen, by, dialect).items():
        found = diagnose_file(path, malformed, group_size, rows, dialect)
        results[value] = Result(diagnosis_lines(found), found.to_json())
    print_results(results, by, as_json)


def _sampled(what: str, asked: dict[str, Any], out: Path | None, fresh: bool) -> Path:
    """The folder with the responses of a model, which is sampled as RL would unless the options say otherwise."""
    if not {"benchmarks", "questions"} & asked.keys() or out is None:
        raise InputError(_what_to_add(what))
    defaults = {k: v for k, v in AS_RL_SAMPLES.items() if k != "limit" or "subset" not in asked}
    # The same folder as from `calibsft eval`: it can be scored, reported and diagnosed again.
    EvalStage.of({"model": what, **defaults, **asked}).perform(out, "diagnose", fresh)
    return out


def sampling_options() -> list[Option]:
    """The sampling options: those of an evaluation, with the defaults of a diagnosis."""
    return [
        replace(option, default=str(AS_RL_SAMPLES.get(option.name, option.default)))
        for option in EvalStage.options()
        if option.name != "model"
    ]


def _is_model(what: str) -> bool:
    """Whether this is a model: a checkpoint folder, or a name that neither exists here nor ends like a file."""
    path = Path(what)
    if path.is_dir():
        return (path / CHECKPOINT).is_file()
    return not path.exists() and not what.lower().endswith(FILE_ENDINGS)


def _what_to_add(what: str) -> str:
    add = "add --benchmarks, e.g. math-500,gsm8k, and --out FOLDER"
    if Path(what).is_dir():
        return f"{what}: a model is sampled before it can be diagnosed; {add}"
    return f"{what}: no such file or folder; if it is a model on the Hub, which is sampled first, {add}"
