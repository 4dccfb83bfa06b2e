"""The RL methods, one file each. To add one: a file with a `Method`, a line here, a row in the tests' tables."""

from calibsft.errors import unknown_name
from calibsft.rl.method import Method
from calibsft.rl.methods.c3rl import C3RL
from calibsft.rl.methods.coca import COCA
from calibsft.rl.methods.dcpo import DCPO
from calibsft.rl.methods.redoubt import REDOUBT
from calibsft.rl.methods.rlcr import RLCR
from calibsft.rl.methods.rlvr import RLVR

METHODS = {method.name: method for method in (RLVR, RLCR, COCA, DCPO, C3RL, REDOUBT)}


def get_method(name: str) -> Method:
    """The method called `name`; an unknown name is refused with the nearest right one."""
    return METHODS[name] if name in METHODS else unknown_name("RL method", name, list(METHODS))
