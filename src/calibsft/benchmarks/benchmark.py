"""What a benchmark is: data plus at most one small function; loader, grader and CLI know the rest."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from calibsft.benchmarks.reading import read_rows
from calibsft.benchmarks.row import Row
from calibsft.benchmarks.sources import Place, hub_rows, local_files
from calibsft.schema import Question

Fields = dict[str, Any]


def plain_question(row: Row) -> Question:
    """The question of a row with a question (or problem) and one answer."""
    return row.question(row.text("question", "problem"), row.text("answer"), id=row.own_id("id"))


def one_row(fields: Fields) -> list[Fields]:
    return [fields]


def all_questions(questions: list[Question]) -> list[Question]:
    return questions


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A versioned set of questions.

    Attributes
    ----------
    domain
        "id" when questions like these are trained on, "ood" otherwise, "own" for a user's file; results are averaged by
        domain.
    grader
        The kind that grades the answers.
    row_graders
        Other kinds, where `to_question` chooses one per row.
    samples
        Responses per question at evaluation.
    version
        Raise it whenever a question, an id or a gold changes.
    size
        How many questions there are as published; None where that is not fixed.
    hub, config, hub_split
        Where the Hub has the data.
    to_question
        Makes a question of a row.
    stems, parts
        Names of local files beyond the benchmark's own name and the Hub's; see `sources.Place`.
    expand
        The rows that one record of the data stands for.
    select
        Which of all the questions belong to the benchmark, in which order.
    embedded
        The questions themselves, for a benchmark without data files.
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
    to_question: Callable[[Row], Question] = plain_question
    stems: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    expand: Callable[[Fields], list[Fields]] = one_row
    select: Callable[[list[Question]], list[Question]] = all_questions
    embedded: Callable[[], Sequence[Question]] | None = None
    training: bool = False
    row_graders: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where the data is looked for."""
        names = (self.name, self.hub.rpartition("/")[2], *self.stems)
        return Place(self.hub, self.config, self.hub_split, tuple(dict.fromkeys(names)), self.parts)

    def load(self, data_dir: Path | None = None) -> list[Question]:
        """The questions, in a fixed order, each with its own id.

        Parameters
        ----------
        data_dir
            A folder with the benchmark's files; None loads them from the Hub. An embedded benchmark needs
            neither. Data that is missing or cannot be read raises `InputError`.
        """
        if self.embedded:
            return list(self.embedded())
        return distinct(self.select([self.to_question(row) for row in self.rows(data_dir)]))

    def rows(self, data_dir: Path | None = None) -> Iterator[Row]:
        """The rows of the data, before anything is left out."""
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
    """Questions with one id each: a repeated one is left out, another one under its id gets a suffix."""
    taken, seen = {question.id for question in questions}, set[str]()
    named = []
    for question in dict.fromkeys(questions):
        id_ = question.id
        if id_ in seen:
            id_ = next(new for count in itertools.count(2) if (new := f"{id_}-{count}") not in taken)
            taken.add(id_)
        seen.add(id_)
        named.append(replace(question, id=id_))
    return named
