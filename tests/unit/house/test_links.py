"""Links in the pages of the repository: every file and every heading that one leads to exists."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "examples").rglob("*.ipynb"),
    )
)
IN_HTML = re.compile(r'(?:src|srcset|href)="([^"]*)"')
HTML_ANCHOR = re.compile(r'<[^>]+ (?:id|name)="([^"]+)"')


def text_of(page: Path) -> str:
    """The Markdown of a page; of a notebook, that of its cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text_of(page))


def links(page: Path) -> Iterator[str]:
    """Where links and pictures lead; text in code is none."""
    for block in tokens(page):
        if block.type == "html_block":
            yield from IN_HTML.findall(block.content)
        for token in block.children or ():
            if token.type == "link_open":
                yield str(token.attrs["href"])
            elif token.type == "image":
                yield str(token.attrs["src"])
            elif token.type == "html_inline":
                yield from IN_HTML.findall(token.content)


def anchors(page: Path) -> set[str]:
    """The headings of a page as the repository's file view names them, and explicit anchors."""
    found = set(HTML_ANCHOR.findall(text_of(page)))
    counts: dict[str, int] = {}
    blocks = tokens(page)
    for block, inline in pairwise(blocks):
        if block.type == "heading_open":
            shown = "".join(token.content for token in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
            count = counts[slug] = counts.get(slug, -1) + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found


def complaint(page: Path, link: str, root: Path) -> str:
    """What is wrong with a link; nothing if it leads somewhere."""
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return "" if link.startswith(("https://", "mailto:")) else f"{link}: not https"
    target, _, anchor = unquote(link).partition("#")
    file = (page.parent / target).resolve() if target else page
    if not file.is_relative_to(root) or not file.is_file():
        return f"{link}: no such file"
    if anchor and (file.suffix not in (".md", ".ipynb") or anchor not in anchors(file)):
        return f"{link}: no such heading"
    return ""


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    assert not [said for link in links(page) if (said := complaint(page, link, ROOT))]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text(
        "# Ünits, `code` → more\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"
    )
    page = tmp_path / "page.md"
    good = ["other.md", "other.md#ünits-code--more", "other.md#twice-1", "#here", "https://example.org/x"]
    bad = [
        "absent.md",
        "other.md#twice-2",
        "other.md#no-heading",
        "#there",
        "http://example.org",
        "../out.md",
        ".",
    ]
    text = "# Here\n\n" + "\n".join(f"[a]({link})\n" for link in good + bad)
    page.write_text(text + '\n`[code](nowhere.md)`\n\n<img src="absent.png">\n')
    failing = [link for link in links(page) if complaint(page, link, tmp_path)]
    assert [unquote(link) for link in failing] == [*bad, "absent.png"]
