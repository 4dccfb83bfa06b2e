"""The dialect of a file of another program: the names of its columns, and the scale of its confidences.

Every reader of responses takes a `Dialect`, so that `--columns` and `--scale` mean the same in all commands. Folders that
stages wrote have our names and probabilities. Does not read files.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.errors import InputError, did_you_mean
from calibsft.files.cells import shown
from calibsft.files.scales import HUNDRED, PERCENT, PROBABILITY, SCALES, ScaleGuess, get_scale
from calibsft.progress import warn

# Every column that a reader of responses knows.
OUR_COLUMNS = (
    "question_id", "dataset", "sample", "question", "response", "confidence", "correct", "gold", "kind", "tolerance",
    "answer", "split", "finished", "well_formed", "reason", "token_ids", "local_correct", "strong_correct", "strong_tokens",
    "mean_logprob",
)  # fmt: skip
COLUMNS_HELP = "Names of columns in the file, if they differ from ours, e.g. correct=is_correct,confidence=prob. Repeatable."
SCALE_HELP = (
    "How the file writes confidences: probability (0 to 1), percent (0 to 100) or digit (0 to 9, read as ninths);"
    " default: probability."
)
# A comma inside a name does not separate two pairs.
_BETWEEN_PAIRS = re.compile(r",(?=[^,=]+=)")
# Names that other programs give to our columns, in small letters without marks between words.
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "confidence": (
        "conf", "prob", "probability", "p", "pcorrect", "ptrue", "confidencescore", "statedconfidence",
        "verbalizedconfidence", "certainty", "confidencelevel", "predprob", "score",
    ),
    "correct": (
        "iscorrect", "correctness", "label", "islabelcorrect", "right", "isright", "acc", "accuracy", "exactmatch", "em",
        "passed", "score", "grade",
    ),
    "question_id": ("qid", "questionid", "id", "uid", "docid", "problemid", "exampleid", "itemid", "taskid", "index", "idx"),
    "dataset": ("benchmark", "task", "subset", "source"),
    "question": ("prompt", "problem", "query", "input", "instruction"),
    "response": ("completion", "output", "generation", "modeloutput", "modelresponse", "text", "prediction", "responses"),
    "gold": ("target", "groundtruth", "reference", "goldanswer", "correctanswer", "referenceanswer", "expected", "golds"),
    "local_correct": ("smallcorrect", "weakcorrect", "localiscorrect"),
    "strong_correct": ("largecorrect", "bigcorrect", "strongiscorrect"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dialect:
    """The names of a file's columns, as pairs of ours and theirs, and the scale of its confidences.

    Without a scale confidences are probabilities, and refused where they look like anything else.

    Attributes
    ----------
    parsed : whether a log gives the confidences that its responses state; a stage that parses responses wants their texts
        alone.
    """

    columns: tuple[tuple[str, str], ...] = ()
    scale: str | None = None
    parsed: bool = True

    @classmethod
    def of(
        cls,
        columns: Mapping[str, str] | Sequence[str] | None = None,
        scale: str | None = None,
        sources: Sequence[Path] = (),
    ) -> "Dialect":
        """The dialect that the options give; refused if all `sources` are folders, where it means nothing."""
        found = cls(column_pairs(columns or ()), None if scale is None else get_scale(scale).name)
        if found and sources and all(path.is_dir() for path in sources):
            raise InputError(
                f"{', '.join(map(str, sources))}: --columns and --scale are for files, and a folder of a stage has our"
                " names and probabilities; leave them out"
            )
        return found

    def __bool__(self) -> bool:
        return self != OURS

    def at(self, path: Path) -> "Dialect":
        """The dialect of `path`: ours in a folder that a stage wrote."""
        return OURS if path.is_dir() else self

    def among(self, names: Collection[str]) -> "Dialect":
        """The dialect of a file with these columns, which need not have all that are named."""
        return replace(self, columns=tuple(pair for pair in self.columns if pair[1] in names))

    def unparsed(self) -> "Dialect":
        """The same for a stage that parses responses itself."""
        return replace(self, parsed=False)

    def theirs(self, ours: str) -> str:
        """What the file calls our column."""
        return dict(self.columns).get(ours, ours)

    def meanings(self, theirs: str) -> tuple[str, ...]:
        """Our names for a column of the file, its own included."""
        return (theirs, *(ours for ours, other in self.columns if other == theirs))

    def named(self, rows: pl.DataFrame) -> pl.DataFrame:
        """A whole table with our columns beside those of the file."""
        return rows.with_columns(
            pl.col(theirs).alias(ours) for ours, theirs in self.columns if theirs in rows.columns
        )

    @property
    def options(self) -> list[str]:
        """The options that give this dialect."""
        named = [columns_option(dict(self.columns))] if self.columns else []
        return [*named, *([f"--scale {self.scale}"] if self.scale else [])]

    @property
    def format(self) -> str | None:
        """How a response writes a confidence on the scale; None if no format of ours does."""
        return SCALES[self.scale or PROBABILITY].format

    def confidences(self, raw: pl.Series) -> pl.Series:
        """A column of confidences in [0, 1], null where a cell is not on the scale."""
        return SCALES[self.scale or PROBABILITY].read(raw)

    def read_confidences(self, path: Path, raw: pl.Series) -> pl.Series:
        """The same of a whole file; refuses one whose confidences look as if they were on another scale."""
        guess, found = ScaleGuess(), self.confidences(raw)
        guess.add(raw, found)
        self.refuse_other_scale(path, guess)
        return found

    def refuse_other_scale(self, path: Path, guess: ScaleGuess) -> None:
        """Refuse confidences that look as if they were on another scale; warn if the scale was given."""
        if self.scale == PERCENT and 0 < guess.largest <= 1 / HUNDRED:
            warn(
                f"{path}: none of {guess.read:,} confidences is above 1 %; leave --scale {PERCENT} out if they are in [0, 1]"
            )
        if self.scale is not None or guess.scale is None:
            return
        looks = "percentages" if guess.scale == PERCENT else "digits"
        raise InputError(
            f"{path}: 'confidence' looks like {looks}, {guess.above:,} of {guess.above + guess.read:,} numbers being above 1;"
            f" add --scale {guess.scale}, or --scale {PROBABILITY} if these are mistakes of the model"
        )

    def unread(self, complaint: str) -> str:
        """A complaint about a probability, as one about a number on the scale."""
        return complaint.replace(SCALES[PROBABILITY].unread, SCALES[self.scale or PROBABILITY].unread)


OURS = Dialect()


def column_pairs(given: Mapping[str, str] | Sequence[str] | str) -> tuple[tuple[str, str], ...]:
    """Pairs of our names and theirs, from a mapping or from texts such as correct=is_correct,confidence=prob."""
    texts = [given] if isinstance(given, str) else given
    pairs = list(texts.items()) if isinstance(texts, Mapping) else [*map(_pair, _parted(texts))]
    for place, (ours, _) in enumerate(pairs):
        if ours not in OUR_COLUMNS:
            raise InputError(
                f"--columns {'='.join(pairs[place])}: no column of ours is called {shown(ours)}"
                f"{did_you_mean(ours, OUR_COLUMNS)}; write our name on the left, e.g. correct=is_correct"
            )
        if ours in [other for other, _ in pairs[:place]]:
            raise InputError(f"--columns names {shown(ours)} twice; name it once")
    return tuple(pairs)


def column_texts(given: Any) -> tuple[str, ...]:
    """The pairs of names that a setting holds, given as a mapping, a text or texts."""
    return tuple("=".join(pair) for pair in column_pairs(given or ()))


def _parted(texts: Sequence[str]) -> list[str]:
    return [pair for text in texts for pair in _BETWEEN_PAIRS.split(text)]


def _pair(text: str) -> tuple[str, str]:
    ours, mark, theirs = text.partition("=")
    if not mark or not ours.strip() or not theirs.strip():
        raise InputError(
            f"--columns {shown(text)} is no pair of names; write ours on the left, e.g. --columns correct=is_correct"
        )
    return ours.strip(), theirs.strip()


def recognised(ours: str, names: Sequence[str]) -> str | None:
    """The column among `names` that is probably ours under another name."""
    by_word = {re.sub(r"[\W_]+", "", name).casefold(): name for name in reversed(names)}
    words = (ours.replace("_", ""), *OTHER_NAMES.get(ours, ()))
    return next((by_word[word] for word in words if word in by_word), None)


def columns_option(pairs: Mapping[str, str]) -> str:
    """The option that gives a file's names of our columns, quoted for a shell."""
    return f"--columns {shlex.quote(','.join('='.join(pair) for pair in pairs.items()))}"
