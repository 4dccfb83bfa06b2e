"""README's results: they are those of the generated study, and nothing there was written by hand."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_table_of_results_is_that_of_the_study() -> None:
    command = [sys.executable, ROOT / "scripts/readme-study", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_figures_of_the_study_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    figures = [part.split('"')[1] for part in text.split("<") if part.startswith(("img", "source"))]
    shown = [name for part in text.split('"') if (name := part).startswith("docs/reproduction/figures/")]
    assert len(shown) == len(figures) == 4
    assert all((ROOT / name).is_file() for name in shown)
