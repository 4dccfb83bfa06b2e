"""A copy of the package with a newcomer's thing in it: the file that the docs show, its import, and one line in a dict.

Nothing else of the copy is changed, so whatever its commands then know of the thing follows from the dict.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import calibsft

PACKAGE = Path(calibsft.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
LONGEST = 60
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@dataclass(frozen=True)
class Newcomer:
    """What is added.

    Attributes
    ----------
    file
        Its place in the package; the docs name it so before they show it.
    listing, listed
        The file with the dict, and the dict's name.
    line
        What stands in the dict, without a comma.
    page
        The page of the docs.
    """

    file: str
    listing: str
    listed: str
    line: str
    page: str = "extending.md"

    @property
    def code(self) -> str:
        """The whole file, as the docs show it."""
        page = (DOCS / self.page).read_text(encoding="utf-8")
        _, named, after = page.partition(f"`{self.file}`")
        assert named, f"{self.page} does not name {self.file}"
        found = re.search(r"^```python\n(.*?)^```", after, re.MULTILINE | re.DOTALL)
        assert found, f"{self.page} does not show {self.file}"
        return found[1]

    @property
    def import_line(self) -> str:
        module = self.file.removesuffix(".py").replace("/", ".")
        return f"from calibsft.{module} import {self.line.rpartition(' ')[2]}"


@dataclass(frozen=True)
class PackageCopy:
    """A folder that holds the copied package, and room for the files of a test."""

    root: Path

    def run(self, *words: object, status: int = 0) -> str:
        """What a command of the copy, run in its folder, prints; where it is to fail, what it says on standard error."""
        command = [sys.executable, "-m", "calibsft", *map(str, words)]
        environment = os.environ | ENVIRONMENT | {"PYTHONPATH": str(self.root)}
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def write(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """A JSONL file in the folder of the commands."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.root / name).write_text(text, encoding="utf-8")


def playground_response(answer: str, confidence: str) -> str:
    """A response without the spaces that the playground's tokenizer lacks."""
    return f"<think></think><answer>{answer}</answer><confidence>{confidence}</confidence>"


def copy_with(root: Path, newcomer: Newcomer) -> PackageCopy:
    """A copy of the package in `root` to which `newcomer` is added as the docs say."""
    code = newcomer.code
    assert len(code.splitlines()) <= LONGEST
    package = Path(shutil.copytree(PACKAGE, root / "calibsft"))
    file, listing = package / newcomer.file, package / newcomer.listing
    assert not file.exists()
    file.write_text(code, encoding="utf-8")
    before = listing.read_text(encoding="utf-8")
    after = _with_line(before, newcomer)
    assert len(after.splitlines()) == len(before.splitlines()) + 2
    listing.write_text(after, encoding="utf-8")
    return PackageCopy(root)


def _with_line(source: str, newcomer: Newcomer) -> str:
    """The module of the dict with one line for the import and one at the end of the dict."""
    lines = source.splitlines()
    last = _last_entry(source, newcomer.listed)
    indent = lines[last - 1][: -len(lines[last - 1].lstrip())]
    lines.insert(last, f"{indent}{newcomer.line},")
    first = next(number for number, line in enumerate(lines) if line.startswith("from calibsft."))
    lines.insert(first, newcomer.import_line)
    return "\n".join(lines) + "\n"


def _last_entry(source: str, listed: str) -> int:
    """The line on which the last entry of a dict ends: of its own entries, or of those that it is made from."""
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    (value,) = [node.value for node in assigned if _target(node) == listed]
    if isinstance(value, ast.DictComp):
        (generator,) = value.generators
        assert isinstance(generator.iter, ast.Tuple)
        entries = generator.iter.elts
    else:
        assert isinstance(value, ast.Dict)
        entries = value.values
    return int(entries[-1].end_lineno or 0)


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""
