"""Where the questions to sample for come from: a benchmark by name, or a user's own file."""

from collections.abc import Iterable
from pathlib import Path

from calibsft.artifacts import file_hash
from calibsft.benchmarks import BENCHMARKS, get_benchmark
from calibsft.benchmarks.files import load_questions
from calibsft.benchmarks.sources import local_files
from calibsft.schema import Question


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
    """What an evaluation records of the benchmarks that it asks."""
    return {f"benchmark {name}": benchmark_hash(name, data_dir) for name in names}
