"""Lets verl train on a CPU, for tests: verl loads this module through VERL_USE_EXTERNAL_MODULES.

verl asks one object for everything about devices. This one answers for a CPU, where there is nothing to synchronise or free.
"""

from types import SimpleNamespace
from typing import Any

import torch
from verl.plugin.platform import platform_manager
from verl.plugin.platform.platform_cuda import PlatformCUDA

NOTHING = SimpleNamespace(
    is_available=lambda: False,
    get_device_name=lambda: "CPU",
    empty_cache=lambda: None,
    synchronize=lambda: None,
    set_device=lambda index: None,
    memory_allocated=lambda: 0,
    memory_reserved=lambda: 0,
    max_memory_allocated=lambda: 0,
    max_memory_reserved=lambda: 0,
    mem_get_info=lambda: (0, 0),
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
)


class CpuPlatform(PlatformCUDA):  # type: ignore[misc]
    device_name = "cpu"
    device_module = NOTHING

    def current_device(self) -> Any:
        return "cpu"

    def communication_backend_name(self) -> str:
        return "gloo"


platform_manager._current_platform = CpuPlatform()
