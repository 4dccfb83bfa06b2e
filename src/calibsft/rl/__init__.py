"""Confidence-aware RL: methods as pure functions, dynamic sampling, and a trainer on TRL's GRPOTrainer.

`segment_advantages`, `trl_reward` and `METHODS` work without torch, for use in any other trainer.
"""

from calibsft.rl.advantages import segment_advantages
from calibsft.rl.methods import METHODS
from calibsft.rl.reward_functions import trl_reward

__all__ = ["METHODS", "segment_advantages", "trl_reward"]
