"""What a recipe's run would cost, before anything is done: responses, steps, tokens, disk, GPU memory by part, GPU-hours.

One file for each of these. Everything follows from the plan; costs that only a measurement can tell are the paper's, or a
rate that the user gives. Loads no model and no heavy library.
"""

from calibsft.estimates.estimate import Estimate, estimate
from calibsft.estimates.gpus import require_fit
from calibsft.estimates.lines import estimate_lines

__all__ = ["Estimate", "estimate", "estimate_lines", "require_fit"]
