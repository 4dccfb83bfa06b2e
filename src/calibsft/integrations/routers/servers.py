"""The servers that a router is configured with: addresses and model names. Holds no keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the models are.

    Attributes
    ----------
    gateway : the address of `calibsft serve`, which acts on the policy.
    local, strong : addresses of the servers themselves; `local_model` and `strong_model` their models.
    """

    gateway: str
    local: str
    local_model: str
    strong: str
    strong_model: str
