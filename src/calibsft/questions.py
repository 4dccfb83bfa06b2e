"""Where questions come from: a benchmark by name, or a user's own file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from calibsft.artifacts import file_hash
from calibsft.benchmarks import BENCHMARKS, Benchmark, get_benchmark
from calibsft.benchmarks.files import load_questions
from calibsft.benchmarks.sources import local_files
from calibsft.files.reading import TABLE_ENDINGS
from calibsft.schema import Question
from calibsft.settings import DataDir, Flag, Mark, Settings


class QuestionSettings(Settings):
    """The questions to train on: a benchmark (the playground's included) or a file."""

    source: Annotated[
        str,
        Mark.CONTENT,
        Flag(
            "--questions",
            help="CSV, JSONL or Parquet with question_id, question, gold (and kind: the grader)",
            always=True,
        ),
        Flag(
            "--benchmark",
            help="instead of a file: a benchmark's questions; `calibsft ls benchmarks` lists them",
            always=True,
        ),
    ]
    data_dir: DataDir = None
    limit: Annotated[
        int | None, Flag("--limit", always=True), Field(ge=1, description="only the first so many questions")
    ] = None


def load_source(source: str, data_dir: str | None = None) -> list[Question]:
    """The questions of the benchmark `source`, else of the file at that path.

    Parameters
    ----------
    data_dir
        A folder with the benchmark's files, read instead of the Hub.
    """
    if source in BENCHMARKS:
        return list(BENCHMARKS[source].load(Path(data_dir) if data_dir else None))
    return load_questions(Path(source))


def source_hash(source: str, data_dir: str | None = None) -> str:
    """The input that a stage records for its questions: a file's hash, or a benchmark's version and local files."""
    return benchmark_hash(source, data_dir) if source in BENCHMARKS else file_hash(Path(source))


def benchmark_hash(name: str, data_dir: str | None) -> str:
    """A benchmark's version, and the hashes of its files if they are local."""
    benchmark = get_benchmark(name)
    said = f"{name} version {benchmark.version}"
    if data_dir is None or benchmark.embedded:
        return said
    return " ".join([said, *map(file_hash, local_files(benchmark.place, Path(data_dir)))])


def benchmark_inputs(names: Iterable[str], data_dir: str | None) -> dict[str, str]:
    """The inputs that an evaluation records for its benchmarks and files."""
    return {
        f"benchmark {name}": file_hash(Path(name)) if is_own(name) else benchmark_hash(name, data_dir)
        for name in names
    }


def is_own(name: str) -> bool:
    """Whether `name` is a file of questions and not a benchmark."""
    return name not in BENCHMARKS and name.lower().removesuffix(".gz").endswith(TABLE_ENDINGS)


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
