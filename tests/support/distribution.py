"""Wheels and source distributions of this checkout, built as `python -m build` builds them."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(kind: str, source: Path, out: Path) -> Path:
    """A distribution of the project in `source`; `kind` is wheel or sdist."""
    # The backend that pyproject.toml names, in a process of its own, since it builds the folder that it is in.
    program = f"import sys; from hatchling.build import build_{kind}; print(build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def unpacked(sdist: Path, out: Path) -> Path:
    """The folder of the project that a source distribution holds."""
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    (folder,) = out.iterdir()
    return folder


def contents(wheel: Path) -> dict[str, bytes]:
    """Every file of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
