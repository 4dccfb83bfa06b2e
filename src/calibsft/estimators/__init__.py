"""Where a confidence comes from: what the model says, its token probabilities, or agreement among samples.

An estimator turns the verified responses of one evaluation into rows for `metrics.score_table`, so that estimators can be
compared. Each has one file and is listed in `ESTIMATORS`. Does not sample and does not score.
"""

from collections.abc import Sequence

from calibsft.errors import InputError, unknown_name
from calibsft.estimators.estimator import Estimator, Evaluated
from calibsft.estimators.self_consistency import SELF_CONSISTENCY
from calibsft.estimators.token_probability import TOKEN_PROBABILITY
from calibsft.estimators.verbalized import VERBALIZED
from calibsft.responses.formats import Format

__all__ = ["ESTIMATORS", "Estimator", "Evaluated", "choose_estimators", "get_estimator"]

ESTIMATORS: dict[str, Estimator] = {
    estimator.name: estimator
    for estimator in (
        VERBALIZED,
        TOKEN_PROBABILITY,
        SELF_CONSISTENCY,
    )
}


def get_estimator(name: str) -> Estimator:
    """The estimator called `name`; an unknown name is refused with the nearest right one."""
    if name not in ESTIMATORS:
        unknown_name("estimator", name, list(ESTIMATORS))
    return ESTIMATORS[name]


def choose_estimators(names: Sequence[str], confidence_format: Format) -> list[Estimator]:
    """The verbalized estimator, then those called `names`; refuses one that is not defined for the format."""
    for name in names:
        formats = get_estimator(name).formats
        if formats and confidence_format.name not in formats:
            raise InputError(
                f"the estimator {name} is defined for the {' and '.join(formats)} formats, not for"
                f" '{confidence_format.name}'; leave it out for models that write their confidence so"
            )
    return [ESTIMATORS[name] for name in dict.fromkeys((VERBALIZED.name, *names))]
