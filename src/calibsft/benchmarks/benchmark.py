"""The type of a benchmark: data and at most one small function from a row to a question."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from calibsft.benchmarks.reading import Fields, read_rows
from calibsft.benchmarks.row import Row
from calibsft.benchmarks.sources import Place, hub_rows, local_files
from calibsft.schema import Question


def plain_question(row: Row) -> Question:
    """The question of a row with a question (or problem) and one answer."""
    return row.question(row.text("question", "problem"), row.text("answer"), id=row.own_id("id"))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A versioned set of questions.

    Attributes
    ----------
    domain
        "id" if questions like these are trained on, "ood" if not, "own" for a user's file; results are averaged by
        domain.
    grader
        The grader of the answers.
    row_graders
        Other graders, where `to_question` chooses one per row.
    samples
        Responses per question at evaluation.
    version
        Raise it whenever a question, an id or a gold changes.
    size
        The number of questions as published; None if it is not fixed.
    hub, config, hub_split, revision
        Where the Hub has the data; without a revision the newest is loaded.
    leaderboard
        The task of the dataset's leaderboard on the Hub; empty if it has none.
    to_question
        Makes a question of a row.
    stems, parts
        Names of local files besides the benchmark's own name and the Hub's; see `sources.Place`.
    expand
        Makes rows of one record of the data.
    select
        Chooses and orders the questions of the benchmark.
    embedded
        Gives the questions of a benchmark without data files.
    training
        Whether this is for training and not for evaluation.
    """

    name: str
    description: str
    domain: Literal["id", "ood", "own"]
    grader: str
    samples: int = 4
    version: int = 1
    size: int | None = None
    hub: str = ""
    config: str | None = None
    hub_split: str = "test"
    leaderboard: str = ""
    to_question: Callable[[Row], Question] = plain_question
    stems: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    expand: Callable[[Fields], list[Fields]] = lambda fields: [fields]
    select: Callable[[list[Question]], list[Question]] = lambda questions: questions
    embedded: Callable[[], Sequence[Question]] | None = None
    training: bool = False
    row_graders: tuple[str, ...] = ()
    revision: str | None = None

    @property
    def place(self) -> Place:
        """Where to look for the data."""
        names = (self.name, self.hub.rpartition("/")[2], *self.stems)
        stems = tuple(dict.fromkeys(names))
        return Place(self.hub, self.config, self.hub_split, stems, self.parts, self.revision)

    def at(self, revision: str | None) -> Self:
        """This benchmark with the data of another revision; None keeps its own."""
        return replace(self, revision=revision) if revision else self

    def load(self, data_dir: Path | None = None) -> list[Question]:
        """The questions, in a fixed order, each with its own id.

        The data comes from the files in `data_dir`, else from the Hub; an embedded benchmark needs neither.
        """
        if self.embedded:
            return list(self.embedded())
        return distinct(self.select([self.to_question(row) for row in self.rows(data_dir)]))

    def rows(self, data_dir: Path | None = None) -> Iterator[Row]:
        """All rows of the data."""
        if data_dir is None:
            sources = [(self.place.shown, hub_rows(self.place))]
        else:
            sources = [(str(path), read_rows(path)) for path in local_files(self.place, data_dir)]
        index = 0
        for source, records in sources:
            rows = (fields for record in records for fields in self.expand(record))
            for number, fields in enumerate(rows, start=1):
                yield Row(source, number, index, fields, self.name, self.grader)
                index += 1


def distinct(questions: Sequence[Question]) -> list[Question]:
    """Questions with distinct ids: a repeated question is left out, another question with the same id gets a suffix."""
    taken = {question.id for question in questions}
    named: dict[str, Question] = {}
    for question in dict.fromkeys(questions):
        id_ = question.id
        if id_ in named:
            id_ = next(new for count in itertools.count(2) if (new := f"{id_}-{count}") not in taken)
            taken.add(id_)
        named[id_] = replace(question, id=id_)
    return list(named.values())
