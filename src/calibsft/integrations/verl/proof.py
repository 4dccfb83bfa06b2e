"""Whether verl has the plug-in: asked of verl's own registries, since verl hides what goes wrong when it loads one."""

from calibsft.integrations.verl.settings import REWARD_MANAGER, TRAINER


def registered() -> str:
    """What verl has of the plug-in; raises `LookupError` if anything is missing."""
    import verl
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.v1 import get_trainer_cls

    found = []
    for what, look_up, name in (
        ("reward manager", get_reward_manager_cls, REWARD_MANAGER),
        ("trainer", get_trainer_cls, TRAINER),
    ):
        try:
            look_up(name)
        except (KeyError, ValueError) as error:
            raise LookupError(f"verl does not know the {what} '{name}'") from error
        found.append(f"{what} '{name}'")
    return f"verl {verl.__version__} has the {' and the '.join(found)}"
