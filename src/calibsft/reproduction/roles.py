"""Which benchmark plays which part: where the paper singles out a hard or an easy one, its counterpart here is one too.

The base model's Pass@1 orders the benchmarks of a split, so that no trained model chooses what it is compared on. The places
are chosen by the paper's words; in its own table AIME 2026, the middle one, has a lower Pass@1 than MinervaMath.
"""

from calibsft.reproduction.study import Study

# The benchmark of questions like those of the training, which the paper calls DeepScaleR-Eval.
HELD_OUT = "held-out-id"
# By role: the split, and the place among the benchmarks in ascending order of Pass@1, as a share of the way.
RANKS = {
    "hard-id": ("id", 0.0),
    "middle-id": ("id", 0.5),
    "upper-middle-id": ("id", 0.75),
    "easy-id": ("id", 1.0),
    "hard-ood": ("ood", 0.0),
    "middle-ood": ("ood", 0.5),
    "upper-middle-ood": ("ood", 0.75),
    "easy-ood": ("ood", 0.9),
    "high-accuracy-ood": ("ood", 1.0),
}


def roles(study: Study) -> dict[str, str]:
    """The benchmark of each role; the study lists the held-out one first."""
    base, held_out = study.model(), study.recipe.eval.benchmarks[0]

    def accuracy(name: str) -> float:
        return float(base.of(name, "pass@1")[0, 0])

    splits = base.scores[0].splits.items()
    ranked = {
        split: sorted((name for name in names if name != held_out), key=accuracy) for split, names in splits
    }
    found = {
        role: ranked[split][round(share * (len(ranked[split]) - 1))] for role, (split, share) in RANKS.items()
    }
    return {HELD_OUT: held_out, **found}
