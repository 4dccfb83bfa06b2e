"""Where the questions to sample for come from: a benchmark by name, or a user's own file."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from calibsft.artifacts import file_hash
from calibsft.benchmarks import BENCHMARKS, Benchmark, get_benchmark
from calibsft.benchmarks.files import load_questions
from calibsft.benchmarks.sources import local_files
from calibsft.schema import Question
from calibsft.settings import Settings
from calibsft.tables import TABLE_ENDINGS

PLAYGROUND = "playground"


class QuestionSettings(Settings):
    """What to train on: the playground's own questions, a benchmark, or a file with question_id, question, gold."""

    source: str = PLAYGROUND
    data_dir: str | None = Field(None, description="folder with the benchmark's files, instead of the Hub")
    limit: int | None = Field(None, ge=1)


def load_source(source: str, data_dir: str | None = None) -> list[Question]:
    """The questions of the benchmark called `source`, else of the file at that path.

    Parameters
    ----------
    data_dir
        A folder with the benchmark's files, read instead of the Hub.
    """
    if source in BENCHMARKS:
        return list(BENCHMARKS[source].load(Path(data_dir) if data_dir else None))
    return load_questions(Path(source))


def source_hash(source: str, data_dir: str | None = None) -> str:
    """What a stage records of its questions: a file's content, or a benchmark's version and local files."""
    return benchmark_hash(source, data_dir) if source in BENCHMARKS else file_hash(Path(source))


def benchmark_hash(name: str, data_dir: str | None) -> str:
    """A benchmark's version, and the content of the files that it is read from."""
    benchmark = get_benchmark(name)
    said = f"version {benchmark.version}"
    if data_dir is None or benchmark.embedded:
        return said
    return " ".join([said, *map(file_hash, local_files(benchmark.place, Path(data_dir)))])


def benchmark_inputs(names: Iterable[str], data_dir: str | None) -> dict[str, str]:
    """What an evaluation records of the benchmarks and files that it asks."""
    return {
        f"benchmark {name}": file_hash(Path(name)) if is_own(name) else benchmark_hash(name, data_dir)
        for name in names
    }


def is_own(name: str) -> bool:
    """Whether this names a file of questions, and no benchmark."""
    return name not in BENCHMARKS and name.lower().removesuffix(".gz").endswith(TABLE_ENDINGS)


def evaluated_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`, or the questions of a user's own file as one."""
    if not is_own(name):
        return get_benchmark(name)
    questions = load_questions(Path(name))
    dataset = questions[0].dataset
    return Benchmark(dataset, f"questions of {name}", "own", questions[0].grader, embedded=lambda: questions)
