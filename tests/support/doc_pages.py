"""The pages of the documentation, their fenced code blocks, and the commands in these.

Pages are found, not listed, so a new page is covered at once. Runs nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*.md")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes
    ----------
    page
        Relative to the root of the documentation.
    line
        On which its text begins.
    language
        The tag of the fence; empty if it has none.
    """

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a block, continuation lines joined; `output` is what a console block shows below it."""

    place: str
    text: str
    output: str = ""


def pages(root: Path = ROOT) -> list[Path]:
    return sorted({path for pattern in PAGES for path in root.glob(pattern)})


def blocks(page: Path, root: Path = ROOT) -> list[Block]:
    """The fenced blocks of a page, in order; also those inside of lists."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if fence := FENCE.match(line):
            text = "".join(_inside(lines, fence[2], len(fence[1])))
            language = fence[3].strip().split(" ")[0]
            found.append(Block(page.relative_to(root).as_posix(), number + 1, language, text))
    return found


def _inside(lines: Iterator[tuple[int, str]], mark: str, indent: int) -> Iterator[str]:
    for _, line in lines:
        if line.strip() == mark:
            return
        yield line[:indent].lstrip() + line[indent:] + "\n"
    raise AssertionError(f"a block that begins with {mark} has no end")


def commands(block: Block) -> list[Command]:
    """The commands of a shell block, or those behind the prompts of a console block."""
    if block.language != "console":
        return list(_joined(block))
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    shown = [part.partition("\n") for part in parts]
    return [Command(block.place, command.strip(), output) for command, _, output in shown]


def _joined(block: Block) -> Iterator[Command]:
    begun, at = "", 0
    for number, line in enumerate(block.text.splitlines(), block.line):
        at = at if begun else number
        begun += line
        if line.endswith("\\"):
            begun = begun[:-1]
            continue
        if begun.strip() and not begun.lstrip().startswith("#"):
            yield Command(f"{block.page}:{at}", begun.strip())
        begun = ""
