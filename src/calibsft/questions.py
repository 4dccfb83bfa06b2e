"""Where questions come from: a benchmark by name, or a user's own file; and which of them are asked."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from calibsft.artifacts import file_hash
from calibsft.benchmarks import BENCHMARKS, Benchmark, get_benchmark
from calibsft.benchmarks.files import dataset_name, load_questions
from calibsft.benchmarks.sources import local_files
from calibsft.errors import InputError
from calibsft.files.reading import is_table
from calibsft.schema import Question
from calibsft.settings import DataDir, Flag, Mark, Seed, Settings

REVISION = "commit, tag or branch of the benchmark's dataset on the Hub; default: the newest commit"
# Models that were sampled with different seeds can then be compared on the same questions.
SUBSET_SEED = "seed of this draw; --seed does not change it"


class QuestionSettings(Settings):
    """The questions to train on: a benchmark (the playground's included) or a file."""

    title: ClassVar[str] = "Questions"

    source: Annotated[
        str,
        Mark.CONTENT,
        Flag(
            "--questions",
            help="file of questions: CSV, JSONL or Parquet with question_id, question, gold (and optionally kind, the grader)",
            always=True,
            metavar="FILE",
        ),
        Flag(
            "--benchmark",
            help="the questions of a benchmark, instead of a file; `calibsft ls benchmarks` lists them",
            always=True,
            metavar="NAME",
        ),
    ]
    data_dir: DataDir = None
    limit: Annotated[
        int | None,
        Flag("--limit", always=True),
        Field(ge=1, description="ask only the first so many questions"),
    ] = None
    offset: Annotated[
        int | None,
        Flag("--offset", always=True),
        Field(ge=1, description="skip the first so many questions; a limit counts after them"),
    ] = None
    subset: Annotated[
        int | None,
        Flag("--subset", always=True),
        Field(ge=1, description="ask so many questions, drawn at random"),
    ] = None
    subset_seed: Annotated[Seed, Flag("--subset-seed", always=True), Field(description=SUBSET_SEED)] = 0
    revision: str | None = Field(None, min_length=1, description=REVISION)

    @model_validator(mode="after")
    def _seed_has_a_subset(self) -> Self:
        if self.subset_seed and not self.subset:
            raise InputError(
                "questions.subset_seed means nothing without questions.subset; give both, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _revision_is_of_a_dataset(self) -> Self:
        if self.revision:
            require_hub("questions.revision", self.source, self.data_dir)
        return self


def asked_questions(settings: QuestionSettings) -> list[Question]:
    """The questions that the settings name: from the offset on, drawn, up to the limit."""
    source, data_dir = settings.source, settings.data_dir
    if source in BENCHMARKS:
        found = BENCHMARKS[source].at(settings.revision).load(Path(data_dir) if data_dir else None)
    else:
        found = load_questions(Path(source))
    asked = chosen(found[settings.offset :], settings.limit, settings.subset, settings.subset_seed)
    if not asked:
        raise InputError(
            f"{source} has {len(found)} questions and questions.offset is {settings.offset}, so that none is left;"
            " lower it"
        )
    return asked


def chosen(
    questions: Sequence[Question], limit: int | None, subset: int | None, subset_seed: int
) -> list[Question]:
    """`subset` questions drawn at random, and of those the first `limit`; all where both are None."""
    drawn = questions if subset is None else _drawn(questions, subset, subset_seed)
    return list(drawn[:limit])


def _drawn(questions: Sequence[Question], count: int, seed: int) -> list[Question]:
    """A uniform draw without replacement, in the order of `questions`: those with the smallest keyed hashes of their ids.

    It depends only on the seed and the ids, and a smaller draw with the same seed is part of a larger one.
    """
    ranks = {q.id: blake2b(repr((seed, q.id)).encode(), digest_size=16).digest() for q in questions}
    kept = set(sorted(ranks, key=ranks.__getitem__)[:count])
    return [question for question in questions if question.id in kept]


def source_hash(source: str, data_dir: str | None) -> str:
    """The input that a stage records for its questions: a file's hash, or a benchmark's version and local files."""
    if source not in BENCHMARKS:
        return file_hash(Path(source))
    benchmark = BENCHMARKS[source]
    identity = f"{source} version {benchmark.version}"
    if data_dir is None or benchmark.embedded:
        return identity
    return " ".join([identity, *map(file_hash, local_files(benchmark.place, Path(data_dir)))])


def benchmark_inputs(names: Iterable[str], data_dir: str | None) -> dict[str, str]:
    """The inputs that an evaluation records for its benchmarks and files."""
    return {f"benchmark {name}": source_hash(name, data_dir) for name in names}


def is_own(name: str) -> bool:
    """Whether `name` is a file of questions and not a benchmark."""
    return name not in BENCHMARKS and is_table(name)


def require_hub(key: str, name: str, data_dir: str | None) -> None:
    """Refuse the revision in the setting `key` if the questions of `name` do not come from the Hub."""
    if name not in BENCHMARKS or BENCHMARKS[name].embedded:
        raise InputError(f"{key} means nothing for '{name}', which is not from the Hub; leave it out")
    if data_dir is not None:
        raise InputError(f"{key} means nothing with data_dir, which is read instead of the Hub; leave it out")


def shown_name(name: str) -> str:
    """What results call the benchmark or file `name`."""
    return dataset_name(Path(name)) if is_own(name) else name


def require_known(name: str) -> str:
    """`name` if it is a benchmark or a file of questions; refuses any other, and suggests the nearest name."""
    return name if is_own(name) else get_benchmark(name).name


def evaluated_benchmark(name: str) -> Benchmark:
    """The benchmark `name`, or one made from a user's own file."""
    if not is_own(name):
        return get_benchmark(name)
    questions = load_questions(Path(name))
    dataset = questions[0].dataset
    return Benchmark(dataset, f"questions of {name}", "own", questions[0].grader, embedded=lambda: questions)
