"""`calibsft route`: the threshold from which on the local model may keep a question, with a guarantee."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from calibsft.cli.decision_command import (
    Decision,
    DecisionOptions,
    decide,
    exceeded,
    failing_parts,
    known_of,
    parts_of_policy,
    reaches,
)
from calibsft.engines import served_engine
from calibsft.errors import InputError
from calibsft.files.dialect import Dialect
from calibsft.metrics.files import EVERYTHING
from calibsft.metrics.selection import Where
from calibsft.settings.options import comma_separated
from calibsft.stages.strong import StrongStage


def route(
    file: Annotated[
        Path,
        Argument(
            help="CSV, JSONL or Parquet with question_id, confidence, local_correct, strong_correct (and optionally"
            " strong_tokens, dataset, well_formed); or with --strong the local model's responses as `certify` takes them."
        ),
    ],
    epsilon: Annotated[
        float, Option(help="Accuracy that may be lost against deferring everything, e.g. 0.01.")
    ],
    strong: Annotated[
        Path | None,
        Option(
            help="The strong model's responses to the same questions, if FILE does not have them; --where and --by"
            " apply to FILE."
        ),
    ] = None,
    strong_url: Annotated[
        str | None,
        Option(
            help="Servers of the strong model, comma-separated, e.g. http://localhost:8000/v1: they are asked the questions of"
            " FILE, an evaluation, and the answers are graded. The key comes from CALIBSFT_ENGINE_API_KEY or OPENAI_API_KEY."
        ),
    ] = None,
    strong_model: Annotated[str | None, Option(help="The strong model's name at its servers.")] = None,
    strong_tokenizer: Annotated[
        str | None,
        Option(help="Checkpoint whose tokenizer counts its tokens; default: the strong model's own."),
    ] = None,
    strong_out: Annotated[
        Path, Option(help="Folder for the strong model's evaluation; an unfinished one is resumed.")
    ] = Path("strong"),
    **given: Any,
) -> None:
    """Which questions may stay with a small model? `calibsft route both.csv --epsilon 0.01`

    Finds the lowest threshold at which at most --epsilon of accuracy is lost against asking the strong model everything,
    with probability 1 − --delta, or on average (--guarantee expectation). If there is none, the policy defers everything. Also takes two evaluations:
    `calibsft route small-eval --strong large-eval --epsilon 0.01`; or asks the strong model itself:
    `calibsft route small-eval --strong-url http://localhost:8000/v1 --strong-model large --epsilon 0.01`.
    """
    options = DecisionOptions(**given)
    if strong_url is not None:
        strong = _asked(file, strong, strong_url, strong_model, strong_tokenizer, strong_out)
    dialect = Dialect.of(options.columns, options.scale, [file, *([strong] if strong else [])])
    decide(file, options, dialect, lambda rows: _decide(file, strong, rows, epsilon, options, dialect))


def _asked(
    file: Path, strong: Path | None, url: str, model: str | None, tokenizer: str | None, out: Path
) -> Path:
    """The strong model's evaluation on the questions of `file`, after asking it."""
    if strong is not None:
        raise InputError(
            "--strong has the strong model's responses, and --strong-url asks for them; give one of the two"
        )
    if model is None:
        raise InputError("--strong-url needs the strong model's name; add --strong-model")
    engine = served_engine(urls=comma_separated(url), model=model, tokenizer=tokenizer)
    StrongStage.of({"local": str(file), "model": model, "engine": engine}).perform(out, "strong model")
    return out


def _decide(
    file: Path, strong: Path | None, where: Where, epsilon: float, options: DecisionOptions, dialect: Dialect
) -> Decision:
    """The route for the rows that `where` selects."""
    from calibsft import decisions
    from calibsft.decisions.files import TOKENS, read_routing
    from calibsft.decisions.policy import deferring_policy
    from calibsft.decisions.repeats import mixture_warning
    from calibsft.report.decisions import route_lines

    method, choice, seed = (options.delta, options.procedure), options.per_question, options.seed
    given = read_routing(file, strong, options.malformed, choice, seed, where, options.slices or (), dialect)
    known = known_of(given, options)
    rows = given.rows
    columns = rows["confidence"], rows["local_correct"], rows["strong_correct"], given.questions
    tokens = rows[TOKENS] if TOKENS in rows.columns else None
    found = decisions.route(*columns, epsilon, *method, tokens, choice, seed, options.guarantee)
    tried = decisions.routed_held_out(
        *columns, epsilon, *method, tokens, options.splits, seed, choice, options.guarantee
    )
    names = [field.name for field in fields(decisions.Outcome)]
    spreads = {name: decisions.Spread.of(getattr(outcome, name) for outcome in tried) for name in names}
    held_out = spreads if tried else {}
    kept = reaches(rows["confidence"], found.threshold)
    slices = parts_of_policy(
        rows, options, kept, kept & ~rows["local_correct"] & rows["strong_correct"], True
    )
    return Decision(
        found,
        deferring_policy(found, slices=slices, **known),
        given.left_out,
        {},
        held_out,
        route_lines(found, held_out, options.splits),
        [
            mixture_warning(file, where, choice, given.questions, dialect),
            mixture_warning(strong, EVERYTHING, choice, dialect=dialect) if strong else None,
            exceeded(held_out, "gross_loss", epsilon, "of accuracy is lost"),
            failing_parts(slices, epsilon, True),
        ],
    )
