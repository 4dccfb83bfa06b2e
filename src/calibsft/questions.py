"""Where the questions to sample for come from: a benchmark by name, or a user's own file."""

from pathlib import Path

from calibsft.artifacts import file_hash
from calibsft.benchmarks import BENCHMARKS
from calibsft.benchmarks.files import load_questions
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


def source_hash(source: str) -> str:
    """What a stage records of its questions: a file's content, or a benchmark's version."""
    if source in BENCHMARKS:
        return f"{source}, version {BENCHMARKS[source].version}"
    return file_hash(Path(source))
