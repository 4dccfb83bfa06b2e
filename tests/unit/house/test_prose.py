"""The prose of README and the docs: short lines, and the words of the glossary instead of those that it replaces."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "reproduction" not in page.parts),
]
LONGEST = 100
# What a reader has to read twice or look up, and what to write instead.
PLAINLY = {
    r"for want of": "without, out of",
    r"mend(s|ed|ing)?": "fix, correct",
    r"anew": "again",
    r"torn": "damaged",
    r"corrupt(s|ed)?": "damaged",
    r"were (it|they)": "if, even if",
    r"(is|are) told": "shown, printed",
    r"of (yours|one's own)": "your own",
    r"from which \w+ on": "the threshold",
    r"reliability (plot|chart)": "reliability diagram",
    r"cut-?offs?": "threshold",
    r"hold-out": "holdout",
    r"ground truths?": "gold",
    r"OOM": "out of memory",
}
GENERATED = re.compile(r"^<!-- ([\w-]+): scripts/.*?^<!-- end of \1 -->$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def written(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page outside code and generated parts, with their numbers."""
    for block in (GENERATED, FENCE):
        text = block.sub(lambda found: "\n" * found[0].count("\n"), text)
    yield from enumerate(text.splitlines(), 1)


def too_long(text: str) -> list[int]:
    """The lines of prose that are; those of tables and of HTML may be long."""
    return [
        number
        for number, line in written(text)
        if len(line) > LONGEST and not line.lstrip().startswith(("|", "<"))
    ]


def hard_words(text: str) -> list[str]:
    """The words that have a plainer one, each with it; a phrase may go over two lines."""
    sentences = " ".join(word for _, line in written(text) for word in line.split())
    words = re.sub(r"`[^`]*`", "", sentences)
    return [
        f"{found[0]}: {plainly}"
        for pattern, plainly in PLAINLY.items()
        for found in re.finditer(rf"\b{pattern}\b", words, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page: Path) -> None:
    assert too_long(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_are_plain(page: Path) -> None:
    assert hard_words(page.read_text(encoding="utf-8")) == []


def test_lengths_are_counted_in_characters_and_outside_code_tables_and_generated_parts() -> None:
    long = "ä" * 101
    page = f"```sh\n{long}\n```\n| {long} |\n<!-- a: scripts/a -->\n{long}\n<!-- end of a -->\n{'ä' * 100}\n"
    assert too_long(page) == []
    assert too_long(f"{page}{long}\n") == [9]


def test_a_phrase_over_two_lines_is_found_and_code_is_not_read() -> None:
    assert hard_words("`mend` and\n```\nanew\n```\nstopped for\nwant of memory") == [
        "for want of: without, out of"
    ]
