"""The machine: Python, processors, memory, disk, GPUs."""

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from calibsft import __version__
from calibsft.doctor.finding import Finding
from calibsft.doctor.trial import try_module

PART = "machine"
GIB = 2**30


def machine_findings() -> Iterator[Finding]:
    yield Finding(PART, "calibsft", "ok", __version__)
    yield Finding(PART, "Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding(PART, "processors", "ok", f"{processors}, with {memory:.0f} GiB of memory")
    free = shutil.disk_usage(Path.cwd()).free / GIB
    yield Finding(PART, "disk", "ok", f"{free:.0f} GiB free in this folder")
    yield _gpus()


def _gpus() -> Finding:
    trial = try_module(__name__, gpu_names.__name__)
    if not trial.worked:
        return Finding(PART, "GPUs", "broken", trial.message, "reinstall torch")
    if trial.message:
        return Finding(PART, "GPUs", "ok", trial.message)
    if shutil.which("nvidia-smi"):
        detail = "this torch does not see the GPUs of this machine"
        return Finding(PART, "GPUs", "broken", detail, "install a torch for this machine's CUDA")
    return Finding(PART, "GPUs", "absent", "none; models run on the CPU")


def gpu_names() -> str:
    """The GPUs that torch sees, with their memory."""
    import torch

    devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{device.name} ({device.total_memory / GIB:.0f} GiB)" for device in devices)
