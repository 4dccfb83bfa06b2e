"""All experiments of the study, one file for each group that shares its models, in the order of the paper.

To add one: a file with its `Experiment`, and a line here.
"""

from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.experiments.ablations import (
    BALANCE_EXPERIMENT,
    SAMPLES_EXPERIMENT,
    SUPERVISION_EXPERIMENT,
)
from calibsft.reproduction.experiments.controls import CONTROLS
from calibsft.reproduction.experiments.cost import COST
from calibsft.reproduction.experiments.decisions import RISK_CONTROL, ROUTING
from calibsft.reproduction.experiments.dynamics import DYNAMICS
from calibsft.reproduction.experiments.formats import FORMATS_EXPERIMENT
from calibsft.reproduction.experiments.further import CORRELATION, DIVERSITY, FURTHER
from calibsft.reproduction.experiments.main_results import MAIN
from calibsft.reproduction.experiments.other_base import OTHER_BASE
from calibsft.reproduction.experiments.per_dataset import PER_DATASET
from calibsft.reproduction.experiments.prior import PRIOR
from calibsft.reproduction.experiments.probed import BUDGETS, ESTIMATORS_EXPERIMENT
from calibsft.reproduction.experiments.seeds import SEEDS
from calibsft.reproduction.experiments.single_benchmarks import ALIGNMENT, DISTRIBUTIONS, RELIABILITY
from calibsft.reproduction.experiments.targets import CONSTRUCTION, DISTRIBUTION, LAMBDA

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        PRIOR,
        DYNAMICS,
        ALIGNMENT,
        MAIN,
        CORRELATION,
        DISTRIBUTIONS,
        BUDGETS,
        FORMATS_EXPERIMENT,
        OTHER_BASE,
        PER_DATASET,
        SEEDS,
        FURTHER,
        DIVERSITY,
        DISTRIBUTION,
        CONSTRUCTION,
        BALANCE_EXPERIMENT,
        LAMBDA,
        SUPERVISION_EXPERIMENT,
        ESTIMATORS_EXPERIMENT,
        RELIABILITY,
        SAMPLES_EXPERIMENT,
        COST,
        RISK_CONTROL,
        ROUTING,
        CONTROLS,
    )
}

__all__ = ["EXPERIMENTS"]
