"""What reports and figures are made from: runs, evaluations and users' files, alone or side by side.

A run is read by `runs`, a user's file exactly as `calibsft score` reads it. Does not draw or write anything.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import JOURNAL, MANIFEST, read_manifest, shards, telling_damage
from calibsft.errors import InputError, unknown_name
from calibsft.files.cells import text_column
from calibsft.files.columns import require_columns
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.parquet import ROWS
from calibsft.files.reading import read_table
from calibsft.metrics.files import EVERYTHING, FORM, ScoredFile
from calibsft.metrics.selection import Where, parts
from calibsft.report.responses import evaluated_responses, file_responses
from calibsft.report.runs import read_evaluation, summarise, summarise_training
from calibsft.report.summary import ModelResult, Responses, RunSummary
from calibsft.responses.parse import Reason
from calibsft.schema import KEYS, QUESTION_KEYS

ONE_DATASET = "all"
REASON_UNKNOWN = "unknown"
TEXTS = ("response", "question", "answer")
# What sources have several of, and the fields of those records that name a model or a stage.
RECORDS = ("models", "training_sets", "costs", "training", "gradients", "responses")
LABELS = ("label", "title", "counterpart", "start", "stage")


def read_sources(
    paths: Sequence[Path],
    malformed: str | None = None,
    responses: int = 0,
    where: Where = EVERYTHING,
    by: str | None = None,
    dialect: Dialect = OURS,
) -> RunSummary:
    """All that a report or a figure may show of runs, evaluations and files side by side.

    Parameters
    ----------
    paths : run folders, files that `calibsft score` reads, folders of verdicts, and folders that `calibsft eval` or
        `calibsft rl` wrote.
    malformed : what to do with confidences of a file that cannot be read: "error", "counted" or "drop"; None: "counted",
        with a warning.
    responses : about how many responses can be read on the page.
    where : which rows of every source to take.
    by : the column whose values are shown side by side, as if each were a source.
    dialect : the names of the columns of files, and the scale of their confidences.
    """
    chosen = [
        (path, _label(label, value, len(paths)), rows)
        for path, label in zip(paths, _labels(paths), strict=True)
        for value, rows in _values(path, where, by, dialect).items()
    ]
    share = responses // len(chosen)
    with telling_damage(chain.from_iterable(map(_folders, paths))):
        found = [_part(path, label, malformed, share, rows, dialect) for path, label, rows in chosen]
    options = [
        *map(str, paths),
        *(f"--where {'='.join(pair)}" for pair in where.pairs),
        *([f"--by {by}"] if by else []),
        *dialect.options,
    ]
    return replace(_together(found), command=f"calibsft report {' '.join(options)}")


def _folders(path: Path) -> list[Path]:
    """What may be damaged: the source itself, and the finished stages of a run."""
    return [path, *sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}"))]


def _values(path: Path, where: Where, by: str | None, dialect: Dialect) -> dict[str, Where]:
    """The rows to take of a source, for each value of the column `by`."""
    if by is not None and is_run(path):
        raise InputError(
            f"{path}: a run has several models, which --by does not separate; give one of its evaluations"
        )
    if (where or by is not None) and (path / JOURNAL).is_file():
        raise InputError(f"{path}: a training has no rows that --where or --by could choose; leave them out")
    return parts(path, where, by, dialect)


def _label(source: str, value: str, sources: int) -> str:
    """The label of a part: its value, after the label of its source if there are several."""
    if not value:
        return source
    return f"{source}, {value}" if sources > 1 else value


def only_benchmark(summary: RunSummary, name: str) -> RunSummary:
    """The responses to one benchmark, of the models that answered it; an unknown one is refused with the nearest name."""
    known = sorted({str(dataset) for model in summary.models for dataset in model.rows["dataset"].unique()})
    if name not in known:
        unknown_name("benchmark", name, known)
    models = [
        replace(model, rows=model.rows.filter(dataset=name), budgets=model.benchmark_budgets.get(name))
        for model in summary.models
    ]
    return replace(summary, models=tuple(m for m in models if not m.rows.is_empty()), benchmark=name)


def is_run(path: Path) -> bool:
    """Whether this is the folder of a run, rather than of one stage, or a file."""
    return path.is_dir() and not shards(path) and not any((path / name).is_file() for name in (ROWS, JOURNAL))


def _part(
    path: Path, label: str, malformed: str | None, responses: int, where: Where, dialect: Dialect
) -> RunSummary:
    if is_run(path):
        return _selected(path, replace(summarise(path, responses), name=label), where)
    if (path / JOURNAL).is_file():
        return summarise_training(path, label)
    if (path / ROWS).is_file():
        read_manifest(path)  # refuses one that is not finished
        origins = evaluated_responses([(label, path)], responses)
        return _selected(
            path, RunSummary(label, (read_evaluation(path, label),), responses=tuple(origins)), where
        )
    scored = ScoredFile(path, malformed, where=where, dialect=dialect).read()
    rows = _with_texts(path, scored, malformed, where, dialect) if responses else scored
    rows = _with_all_columns(rows)
    origins = file_responses(label, rows, responses)
    return RunSummary(label, (ModelResult(label, rows),), responses=tuple(origins))


def _selected(path: Path, summary: RunSummary, where: Where) -> RunSummary:
    """Keep the chosen rows of every evaluated model; budgets and estimators are scores of all rows and are left out."""
    if not where:
        return summary
    models = []
    for model in summary.models:
        require_columns(path, model.rows.columns, where.columns)
        rows = model.rows.filter(where.mask(model.rows))
        if rows.is_empty():
            raise InputError(f"{path}: no row of {model.label} has {where}; choose other values with --where")
        models.append(replace(model, rows=rows, budgets=None, benchmark_budgets={}, estimators={}))
    rows_of = {model.label: model.rows for model in models}
    origins = [
        _responses_among(part, rows_of[part.label]) if part.label in rows_of else part
        for part in summary.responses
    ]
    return replace(summary, models=tuple(models), responses=tuple(part for part in origins if len(part.rows)))


def _responses_among(part: Responses, rows: pl.DataFrame) -> Responses:
    """The responses that are among `rows`, with their questions."""
    shown = part.rows.join(rows, on=KEYS, how="semi", maintain_order="left")
    asked = part.questions.join(shown, on=QUESTION_KEYS, how="semi", maintain_order="left")
    return replace(part, rows=shown, questions=asked, total=len(rows))


def _with_texts(
    path: Path, rows: pl.DataFrame, malformed: str | None, where: Where, dialect: Dialect
) -> pl.DataFrame:
    """`rows` with what can be read of a user's file: responses, and what goes with them."""
    table = where.of_file(path, read_table(path, dialect=dialect), dialect)
    if "response" not in table.columns:
        return rows
    # With "counted" only rows without `correct` are left out, so texts and scores stay aligned.
    every = ScoredFile(path, "counted", where=where, dialect=dialect).read()
    scored = table.filter(pl.col("correct").is_not_null())
    texts = [text_column(path, scored, name) for name in TEXTS if name in scored.columns]
    golds = [_golds(path, scored)] if "gold" in scored.columns else []
    joined = every.hstack([*texts, *golds]).with_columns(pl.col("response").fill_null(""))
    return joined.drop_nulls("confidence") if malformed == "drop" else joined


def _golds(path: Path, rows: pl.DataFrame) -> pl.Series:
    """Right answers as lists of texts, one or several for each row."""
    if isinstance(rows["gold"].dtype, pl.List):
        return rows["gold"].cast(pl.List(pl.String), strict=False)
    return text_column(path, rows, "gold").to_frame().select(pl.concat_list(pl.all())).to_series()


def _with_all_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that a user's file may lack: the dataset, and why a response is malformed."""
    if "dataset" not in rows.columns:
        rows = rows.with_columns(dataset=pl.lit(ONE_DATASET))
    known = {name: pl.col(name) for name in FORM if name in rows.columns}
    guess = (
        pl.when(pl.col("confidence").is_null())
        .then(pl.lit(Reason.BAD_CONFIDENCE))
        .when(~known.get("well_formed", pl.lit(True)))
        .then(pl.lit(REASON_UNKNOWN))
        .otherwise(pl.lit(Reason.OK))
    )
    return rows.with_columns(reason=pl.coalesce(known.get("reason"), guess))


def _together(found: Sequence[RunSummary]) -> RunSummary:
    """Join several sources; every label gets the name of its source before it."""
    if len(found) == 1:
        return found[0]
    joined: dict[str, Any] = {
        field: tuple(chain.from_iterable(_named(part, field) for part in found)) for field in RECORDS
    }
    if all(len(part.models) == 1 for part in found):
        # Evaluations and files know nothing of their lineage: they are compared with the first one given.
        first, *others = joined["models"]
        joined["models"] = (first, *(replace(other, counterpart=first.label) for other in others))
    recipes = [f"# {part.name}\n{part.recipe_yaml}" for part in found if part.recipe_yaml]
    return RunSummary(
        name=", ".join(part.name for part in found), recipe_yaml="---\n".join(recipes), **joined
    )


def _named(part: RunSummary, field: str) -> Iterator[Any]:
    """The records of a source with its name before their labels."""
    for record in getattr(part, field):
        labels = {name: getattr(record, name) for name in LABELS if hasattr(record, name)}
        named = {
            name: f"{part.name}: {label}" for name, label in labels.items() if label not in ("", part.name)
        }
        yield replace(record, **named)


def _labels(paths: Sequence[Path]) -> list[str]:
    """Files by their name without the ending; files of one name by that of their folder too."""
    names = [path.resolve().name.removesuffix(".gz") for path in paths]
    stems = [Path(name).stem if path.is_file() else name for path, name in zip(paths, names, strict=True)]
    known = Counter(stems)
    return [
        stem if known[stem] == 1 else f"{path.resolve().parent.name}/{stem}"
        for path, stem in zip(paths, stems, strict=True)
    ]
