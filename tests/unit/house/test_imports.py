"""What importing the package and asking for help loads: nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "matplotlib", "sklearn")


def loaded(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after `program`."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint('LOADED', *{{m.split('.')[0] for m in sys.modules}})"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    found = loaded("import calibsft")
    assert "calibsft" in found
    assert not found & {*HEAVY, "polars", "numpy", "pydantic", "scipy"}


HELP = """
sys.argv = ["calibsft", *{arguments!r}]
from calibsft.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
"""


def test_the_doctor_itself_loads_nothing_heavy() -> None:
    assert not loaded("import calibsft.doctor") & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["sft", "--help"], ["rollout", "--help"], ["run", "tiny", "--dry-run"]],
)
def test_help_version_and_dry_run_load_no_torch(arguments: list[str]) -> None:
    assert not loaded(HELP.format(arguments=arguments)) & set(HEAVY)


@pytest.mark.parametrize(
    "module",
    [
        "responses",
        "metrics",
        "targets",
        "recipe",
        "artifacts",
        "files.reading",
        "pipeline",
        "prior",
        "engines",
        "monitoring",
        "report.terminal",
        "report.scores",
        "report.decisions",
        "report.diagnosis",
        "report.monitoring",
    ],
)
def test_parts_that_need_no_model_load_no_torch(module: str) -> None:
    assert not loaded(f"import calibsft.{module}") & set(HEAVY)


def test_the_check_sees_a_heavy_import() -> None:
    assert "polars" in loaded("import calibsft.files.reading")
