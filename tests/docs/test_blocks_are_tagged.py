"""Every code block of the documentation says what language it is in, and no table of exceptions is longer than it needs to be."""

import re
from pathlib import Path

import pytest

from doc_pages import ROOT, blocks, commands, pages
from doc_tables import TABLES

KNOWN = {"sh", "console", "python", "text", "yaml", "json", "toml", "bash"}
PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_has_a_tag_that_the_tests_know(page: Path) -> None:
    untagged = [f"{block.place}: '{block.language}'" for block in blocks(page) if block.language not in KNOWN]
    assert not untagged


def test_every_rule_of_the_tables_is_used() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    texts = {
        *(block.text for block in found),
        *(block.place for block in found),
        *(command.text for block in found if block.language in ("sh", "console") for command in commands(block)),
    }  # fmt: skip
    unused = [
        f"{name}: {rule.pattern}"
        for name, table in TABLES.items()
        for rule in table
        if not any(rule.fits(text) for text in texts)
    ]
    assert not unused, "leave these rules out"


def test_tests_that_reasons_name_exist() -> None:
    reasons = "\n".join(rule.reason for table in TABLES.values() for rule in table)
    named = re.findall(r"tests/[\w/]+\.py", reasons)
    assert named and not [path for path in named if not (ROOT / path).is_file()]
