"""What verl loads at its start, by the entry point `verl.plugins`: gives it the reward manager and the trainer.

verl loads this module and calls nothing in it, so registering is done on import. It hides what goes wrong here; therefore
a failure is logged first.
"""

import logging

from calibsft.integrations.verl.settings import REWARD_MANAGER, TRAINER


def register() -> None:
    from verl.experimental.reward_loop.reward_manager import register as register_reward_manager
    from verl.trainer.ppo.v1 import register_trainer

    from calibsft.integrations.verl.reward_manager import CalibRewardManager
    from calibsft.integrations.verl.trainer import CalibPpoTrainer

    register_reward_manager(REWARD_MANAGER)(CalibRewardManager)
    register_trainer(TRAINER)(CalibPpoTrainer)


try:
    register()
except Exception:
    logging.getLogger(__name__).exception("calibsft's plug-in for verl could not be loaded")
    raise
