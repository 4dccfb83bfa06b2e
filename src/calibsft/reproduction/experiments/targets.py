"""Target construction: five targets on one pool of pairs, before and after fine-tuning; λ on the same pool."""

from calibsft.metrics.metric import Column, fraction, percent
from calibsft.metrics.registry import METRICS
from calibsft.reproduction.experiment import Cells, Experiment, split_columns
from calibsft.reproduction.labels import label_auroc, label_brier, right_closed_shares
from calibsft.reproduction.quantity import exact
from calibsft.reproduction.study import SPLITS, Pipeline, Study

TARGETS: dict[str, Pipeline] = {
    "CSFT": ("calibsft@pool-csft",),
    "UaIT": ("calibsft@pool-uait",),
    "SaySelf": ("calibsft@pool-sayself",),
    "LoVeC": ("calibsft@pool-lovec",),
    "CalibSFT": ("calibsft@pool-calibsft",),
}
WEIGHTS: dict[str, Pipeline] = {
    "0": ("calibsft@pool-lambda-0",),
    "0.25": ("calibsft@pool-lambda-0.25",),
    "0.5": ("calibsft@pool-calibsft",),
    "0.75": ("calibsft@pool-lambda-0.75",),
    "1": ("calibsft@pool-lambda-1",),
}
# LoVeC's labels are the scores of this model, which has to be made before.
JUDGE: Pipeline = ("base@judge",)
BINS = ("[0.0,0.1]", *(f"({tenth / 10:.1f},{(tenth + 1) / 10:.1f}]" for tenth in range(1, 10)))
JUDGED = ("auroc", "brier")


def construct(study: Study) -> Cells:
    cells: Cells = {}
    for row, pipeline in TARGETS.items():
        model = study.model(*pipeline)
        data = model.folders("data")[0]  # one training set for all seeds
        cells[row] = {"pre.auroc": exact(label_auroc(data)), "pre.brier": exact(label_brier(data))}
        cells[row] |= {f"post.{metric}": model.of("id", metric) for metric in JUDGED}
    return cells


def distribute(study: Study) -> Cells:
    cells: Cells = {}
    for row, pipeline in TARGETS.items():
        shares = right_closed_shares(study.model(*pipeline).folders("data")[0])
        cells[row] = {name: exact(share) for name, share in zip(BINS, shares, strict=True)}
        cells[row]["largest"] = exact(max(shares))
    return cells


def weigh(study: Study) -> Cells:
    cells: Cells = {}
    for row, pipeline in WEIGHTS.items():
        model = study.model(*pipeline)
        cells[row] = {f"{split}.{metric}": model.of(split, metric) for split in SPLITS for metric in JUDGED}
        cells[row]["pre.auroc"] = exact(label_auroc(model.folders("data")[0]))
    return cells


CONSTRUCTION = Experiment(
    "targets",
    "Target construction",
    "Table target_construction",
    (JUDGE, *TARGETS.values()),
    construct,
    tuple(
        Column(f"{when}.{metric}", f"{title} {METRICS[metric].title}", METRICS[metric].better, fraction)
        for when, title in (("pre", "Target"), ("post", "ID"))
        for metric in JUDGED
    ),
    "All targets use one pool: the same number of questions at each success rate of ten responses, with one right and one"
    " wrong response each.",
)
DISTRIBUTION = Experiment(
    "target-distribution",
    "Distribution of targets",
    "Table training_target_distribution",
    (JUDGE, *TARGETS.values()),
    distribute,
    tuple(Column(name, name, None, percent) for name in BINS),
)
LAMBDA = Experiment(
    "lambda",
    "Mixing weight λ",
    "Table lambda_ablation",
    tuple(WEIGHTS.values()),
    weigh,
    (*split_columns(*JUDGED), Column("pre.auroc", "Target AUROC", None, fraction)),
)
