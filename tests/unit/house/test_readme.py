"""README's results: they are those of the generated study, and nothing there was written by hand."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_table_of_results_is_that_of_the_study() -> None:
    command = [sys.executable, ROOT / "scripts/readme-study", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_pictures_are_there_for_light_and_for_dark_pages() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(
        r'<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\n.*src="([^"]+)">', text
    )
    assert len(pictures) == text.count("<img") == 3
    for dark, light in pictures:
        assert dark == light.replace(".", "-dark.")
        assert (ROOT / dark).is_file() and (ROOT / light).is_file()
