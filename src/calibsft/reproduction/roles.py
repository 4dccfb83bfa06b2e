"""Which benchmark plays which part: where the paper singles one out, its counterpart here has the same rank of difficulty.

The ranks are those of the base model's Pass@1 within a split, so that no trained model chooses what it is compared on.
"""

from collections.abc import Callable

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
    """The benchmark of each role."""
    base, found = study.model(), {}
    for role, (split, share) in RANKS.items():
        names = [name for name in base.scores[0].splits[split] if name != study.recipe.eval.benchmarks[0]]
        accuracy: Callable[[str], float] = lambda name: float(base.of(name, "pass@1")[0, 0])  # noqa: E731
        ranked = sorted(names, key=accuracy)
        found[role] = ranked[round(share * (len(ranked) - 1))]
    # The study lists it first.
    return {HELD_OUT: study.recipe.eval.benchmarks[0], **found}
