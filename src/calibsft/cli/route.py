"""`calibsft route`: the threshold above which the local model keeps a question, with a guarantee."""

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

# The panel of help.
STRONG = "The strong model"


def route(
    file: Annotated[
        Path,
        Argument(
            help="CSV, JSONL or Parquet with question_id, confidence, local_correct, strong_correct (and optionally"
            " strong_tokens, dataset, well_formed); with --strong or --strong-url, responses of the local model as"
            " `calibsft certify` reads them."
        ),
    ],
    epsilon: Annotated[
        float,
        Option(metavar="LOSS", help="Accuracy that may be lost against deferring every question, e.g. 0.01."),
    ],
    strong: Annotated[
        Path | None,
        Option(
            help="The strong model's responses to the same questions, if the first file does not have them; --where and"
            " --by do not apply to them.",
            rich_help_panel=STRONG,
        ),
    ] = None,
    strong_url: Annotated[
        str | None,
        Option(
            help="Servers of the strong model, comma-separated, e.g. http://localhost:8000/v1. They are asked the questions"
            " of the first argument, which must be an evaluation. The API key is read from CALIBSFT_ENGINE_API_KEY or"
            " OPENAI_API_KEY.",
            metavar="URL,…",
            rich_help_panel=STRONG,
        ),
    ] = None,
    strong_model: Annotated[
        str | None,
        Option(metavar="MODEL", help="The strong model's name on its servers.", rich_help_panel=STRONG),
    ] = None,
    strong_tokenizer: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Checkpoint whose tokenizer counts the strong model's tokens; default: its own.",
            rich_help_panel=STRONG,
        ),
    ] = None,
    strong_out: Annotated[
        Path,
        Option(
            metavar="FOLDER",
            help="Folder for the strong model's evaluation; an unfinished one is resumed.",
            rich_help_panel=STRONG,
        ),
    ] = Path("strong"),
    **given: Any,
) -> None:
    """Find the confidence threshold above which a local model keeps a question instead of deferring it to a strong one.

    ```sh
    calibsft route both.csv --epsilon 0.01
    calibsft route eval-local --strong eval-strong --epsilon 0.01
    calibsft route eval-local --epsilon 0.01 --strong-model M --strong-url URL
    ```

    Finds the lowest threshold that loses at most --epsilon of accuracy against deferring every question, with probability
    1 − --delta, or on average (--guarantee expectation). If there is none, the policy defers everything. The strong model's
    answers stand in the file, in a second file or evaluation, or are asked for now at its server.
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
