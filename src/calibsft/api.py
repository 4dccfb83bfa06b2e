"""The stages and the analyses as Python functions, for scripts and notebooks.

A stage function takes the options of its command by keyword (`samples=8` for `--samples 8`), or whole sections as settings
objects or dictionaries (`rollout=RolloutSettings(samples=8)`). It does the same work in the same folder, resumes and refuses
like the command, and returns a `StageResult`. Progress goes to standard error, which notebooks show. Bad input raises
`InputError`.

A file of another program is read with `columns` and `scale`, as with these options of the commands:
`score("theirs.csv", columns={"confidence": "prob", "correct": "is_correct"}, scale="percent")`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibsft.artifacts import read_manifest
from calibsft.files.dialect import Dialect
from calibsft.prior import Diagnosis
from calibsft.stages import STAGES

if TYPE_CHECKING:
    from calibsft.decisions import Certificate, Route, Selection
    from calibsft.report.drawing import Picture

PathLike = str | Path
# What a file calls our columns: {"correct": "is_correct"}.
Columns = Mapping[str, str] | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class StageResult:
    """A finished stage.

    Attributes
    ----------
    path : its folder.
    facts : its manifest: cost, versions, hashes and results.
    results : what the command prints with `--json`; empty for stages that print nothing.
    """

    path: Path
    facts: dict[str, Any]
    results: dict[str, Any]

    @property
    def model(self) -> Path:
        """The checkpoint, if the stage trained a model."""
        return self.path / "model"


def _dialect(columns: Columns, scale: str | None, *sources: PathLike | None) -> Dialect:
    return Dialect.of(columns, scale, [Path(source) for source in sources if source is not None])


def _perform(kind: str, out: PathLike, fresh: bool, given: dict[str, Any]) -> StageResult:
    stage, path = STAGES[kind].of(given), Path(out)
    stage.perform(path, fresh=fresh)
    return StageResult(path, read_manifest(path), stage.results(path))


def sample(*, model: PathLike, out: PathLike, fresh: bool = False, **options: Any) -> StageResult:
    """Sample responses, n per question: `sample(model=…, questions="q.jsonl", samples=8, out="rollouts")`."""
    return _perform("rollout", out, fresh, {"model": str(model), **options})


def verify(*, responses: PathLike, out: PathLike, fresh: bool = False, **options: Any) -> StageResult:
    """Parse and grade responses: `verify(responses="rollouts", out="verdicts").results["overall"]["correct"]`."""
    return _perform("verify", out, fresh, {"responses": responses, **options})


def measure(
    *,
    rollouts: PathLike,
    names: Sequence[str],
    out: PathLike,
    verdicts: PathLike | None = None,
    fresh: bool = False,
    **options: Any,
) -> StageResult:
    """Measure evidence of responses, for targets that need it: `measure(…, names=["mean-logprob"], out="evidence")`.

    `rollouts` is a folder of rollouts, with its `verdicts`, or a file of responses.
    """
    given = {"rollouts": rollouts, "verdicts": verdicts, "names": tuple(names), **options}
    return _perform("evidence", out, fresh, given)


def build(*, source: PathLike, out: PathLike, fresh: bool = False, **options: Any) -> StageResult:
    """Turn graded responses into a training set: `build(source="rollouts", verdicts="verdicts", out="data")`."""
    return _perform("build", out, fresh, {"source": source, **options})


def fine_tune(
    *, model: PathLike, data: PathLike, out: PathLike, fresh: bool = False, **options: Any
) -> StageResult:
    """Fine-tune with CalibSFT's loss: `fine_tune(model=…, data="data", steps=180, out="tuned").model`."""
    return _perform("sft", out, fresh, {"model": str(model), "data": data, **options})


def train(
    *, model: PathLike, method: str, data: PathLike, out: PathLike, fresh: bool = False, **options: Any
) -> StageResult:
    """Confidence-aware RL: `train(model="tuned/model", method="rlcr", data="questions.jsonl", out="rl").model`."""
    return _perform("rl", out, fresh, {"model": str(model), "method": method, "data": data, **options})


def evaluate(*, model: PathLike, out: PathLike, fresh: bool = False, **options: Any) -> StageResult:
    """Sample, verify and score: `evaluate(model=…, benchmarks=["math-500"], out="eval").results["overall"]["brier"]`."""
    return _perform("eval", out, fresh, {"model": str(model), **options})


def score(
    source: PathLike,
    *,
    malformed: str | None = None,
    by: str = "dataset",
    intervals: bool = False,
    baseline: PathLike | None = None,
    check: bool = False,
    columns: Columns = None,
    scale: str | None = None,
) -> dict[str, Any]:
    """Every metric of a file or folder of responses, as `calibsft score --json` prints them."""
    from calibsft.metrics import score_file

    other = None if baseline is None else Path(baseline)
    dialect = _dialect(columns, scale, source, baseline)
    found = score_file(Path(source), malformed, by, intervals, other, check=check, dialect=dialect)
    return dict(found)


def diagnose(
    source: PathLike,
    *,
    malformed: str | None = None,
    group_size: int = 8,
    columns: Columns = None,
    scale: str | None = None,
) -> Diagnosis:
    """What RL can learn from the confidence prior of these responses, and whether CalibSFT is worth it."""
    from calibsft.prior.files import diagnose_file

    return diagnose_file(Path(source), malformed, group_size, dialect=_dialect(columns, scale, source))


def certify(
    source: PathLike,
    *,
    risk: float,
    malformed: str | None = None,
    per_question: str = "random",
    columns: Columns = None,
    scale: str | None = None,
    **options: Any,
) -> "Certificate":
    """The threshold above which at most `risk` of the answers are wrong; options as for `calibsft.decisions.certify`."""
    from calibsft import decisions
    from calibsft.decisions.files import read_calibration

    given = read_calibration(Path(source), malformed, dialect=_dialect(columns, scale, source))
    responses = given.rows["confidence"], given.rows["correct"], given.questions
    return decisions.certify(*responses, risk, per_question=per_question, **options)


def select(
    source: PathLike,
    batch: PathLike,
    *,
    risk: float,
    malformed: str | None = None,
    per_question: str = "random",
    columns: Columns = None,
    scale: str | None = None,
    **options: Any,
) -> "Selection":
    """Which answers of `batch` to keep, so that on average at most `risk` of them are wrong, from labelled ones."""
    from calibsft import decisions
    from calibsft.decisions.files import read_batch, read_calibration

    dialect = _dialect(columns, scale, source, batch)
    given = read_calibration(Path(source), malformed, dialect=dialect)
    responses = given.rows["confidence"], given.rows["correct"], given.questions
    _, offered = read_batch(Path(batch), dialect)
    return decisions.select(*responses, offered, risk, per_question=per_question, **options)


def route(
    source: PathLike,
    *,
    epsilon: float,
    strong: PathLike | None = None,
    malformed: str | None = None,
    per_question: str = "random",
    columns: Columns = None,
    scale: str | None = None,
    **options: Any,
) -> "Route":
    """The threshold above which a small model keeps its questions; options as for `calibsft.decisions.route`."""
    from calibsft import decisions
    from calibsft.decisions.files import read_routing

    other = None if strong is None else Path(strong)
    dialect = _dialect(columns, scale, source, strong)
    given = read_routing(Path(source), other, malformed, per_question, dialect=dialect)
    rows = given.rows
    responses = rows["confidence"], rows["local_correct"], rows["strong_correct"], given.questions
    return decisions.route(*responses, epsilon, per_question=per_question, **options)


def report(
    *sources: PathLike,
    out: PathLike,
    malformed: str | None = None,
    responses: int = 100_000,
    columns: Columns = None,
    scale: str | None = None,
) -> Path:
    """Write a page that compares runs, evaluations or files; a folder `out` also gets Markdown and figures."""
    from calibsft.report.page import write_to
    from calibsft.report.sources import read_sources

    dialect = _dialect(columns, scale, *sources)
    summary = read_sources([Path(source) for source in sources], malformed, responses, dialect=dialect)
    return write_to(summary, Path(out))


def plot(
    figure: str,
    *sources: PathLike,
    out: PathLike,
    theme: str = "light",
    malformed: str | None = None,
    benchmark: str | None = None,
    by: str | None = None,
    columns: Columns = None,
    scale: str | None = None,
) -> "Picture":
    """Draw one figure, which notebooks show: `plot("reliability", "responses.csv", out="reliability.png")`."""
    from calibsft.report.drawing import draw_to

    paths, dialect = [Path(source) for source in sources], _dialect(columns, scale, *sources)
    return draw_to(Path(out), figure, paths, theme, malformed, benchmark, by=by, dialect=dialect)
