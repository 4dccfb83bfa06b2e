"""What came out of a study: the cells, tables and figures of its experiments, and a verdict on every claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calibsft.progress import Progress
from calibsft.report.figures import KINDS, Shown
from calibsft.report.figures.plot import show
from calibsft.report.markup import Table
from calibsft.reproduction.claims import paper_numbers, read_claims
from calibsft.reproduction.experiment import Cells, Drawing, Experiment
from calibsft.reproduction.study import Study
from calibsft.reproduction.tables import tables_of
from calibsft.reproduction.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True)
class Result:
    """One finished experiment."""

    experiment: Experiment
    cells: Cells
    tables: list[Table]
    figures: list[Shown]

    @property
    def paper(self) -> Mapping[str, Mapping[str, float]]:
        return paper_numbers().get(self.experiment.name, {})


def results_of(study: Study, experiments: Sequence[Experiment]) -> list[Result]:
    """The results of the experiments whose models are all evaluated."""
    finished = [one for one in experiments if study.is_finished(one.pipelines)]
    results = []
    with Progress("reproduce, measure", len(finished), "experiments") as progress:
        for experiment in finished:
            results.append(_result(study, experiment))
            progress.advance(1, note=experiment.name)
    return results


def _result(study: Study, experiment: Experiment) -> Result:
    cells = experiment.measure(study)
    paper = paper_numbers().get(experiment.name, {})
    figures = [_shown(study, drawing) for drawing in experiment.figures]
    return Result(
        experiment, cells, tables_of(experiment, cells, paper), [one for one in figures if one is not None]
    )


def _shown(study: Study, drawing: Drawing) -> Shown | None:
    return show(replace(drawing.plot, name=drawing.name), drawing.summary(study), tuple(KINDS))


def verdicts_of(results: Sequence[Result]) -> list[Verdict]:
    """A verdict on every claim of the paper, in its order."""
    cells = {result.experiment.name: result.cells for result in results}
    return [judge(claim, cells.get(claim.experiment)) for claim in read_claims()]
