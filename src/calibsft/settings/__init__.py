"""What every section of settings is: typed, frozen, strict.

Each room owns its section; `recipe` composes them, and commands and the Python API take their options from them. The error
for an unknown key names the nearest known one; the error for a wrong value names its key. Knows no section itself.
"""

from calibsft.settings.base import (
    DataDir,
    Device,
    Dtype,
    Flag,
    Mark,
    Metavar,
    Seed,
    Settings,
    Stop,
    require_plain_address,
)
from calibsft.settings.choice import CommonTo, OneOf
from calibsft.settings.overrides import apply_override, merged, parse_overrides
from calibsft.settings.validation import validated

__all__ = [
    "CommonTo",
    "DataDir",
    "Device",
    "Dtype",
    "Flag",
    "Mark",
    "Metavar",
    "OneOf",
    "Seed",
    "Settings",
    "Stop",
    "apply_override",
    "merged",
    "parse_overrides",
    "require_plain_address",
    "validated",
]
