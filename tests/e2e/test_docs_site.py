"""The documentation as a site: it builds without a complaint and without a network, has everything, and loads nothing."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
import typer
from markdown_it import MarkdownIt

import calibsft
from browser_page import Open
from calibsft import api
from calibsft.cli.app import app

ROOT = Path(__file__).parents[2]
# Attributes by which a page loads something without being asked to; `href` does so in <link> alone.
LOADING = ("src", "srcset", "poster", "data")
NOBODY = "http://127.0.0.1:9"


class Page(HTMLParser):
    """What a page loads, where its links lead, and what they can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in LOADING or (name == "href" and tag == "link"):
                self.loads.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name in ("id", "name"):
                self.anchors.add(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "site"
    # Whoever asked for something from the network would get an error.
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOBODY)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, **offline, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page by its place in the site."""
    return {path.relative_to(site).as_posix(): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[str, Page]) -> None:
    loaded = {
        f"{name}: {place}" for name, page in pages.items() for place in page.loads if is_elsewhere(place)
    }
    for sheet in site.rglob("*.css"):
        named = re.findall(r"""(?:url\(|@import )["']?([^"')]+)""", sheet.read_text("utf-8"))
        loaded |= {f"{sheet.name}: {place}" for place in named if is_elsewhere(place)}
    assert not loaded
    # The theme would load the program that draws these from another host.
    assert not [name for name in pages if 'class="mermaid"' in (site / name).read_text("utf-8")]


def is_elsewhere(place: str) -> bool:
    return re.match(r"([a-z]+:)?//", place.strip(), re.IGNORECASE) is not None


def test_every_link_leads_to_a_page_and_an_anchor_of_it(site: Path, pages: dict[str, Page]) -> None:
    broken = [
        f"{name}: {link}"
        for name, page in pages.items()
        for link in page.links
        if not leads(site, pages, name, link)
    ]
    assert not broken


def leads(site: Path, pages: dict[str, Page], name: str, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return link.startswith(("https:", "mailto:", "data:", "blob:"))
    # 404.html is shown for any address, so its links begin with /
    target, _, anchor = unquote(urljoin(f"/{name}", link)).lstrip("/").partition("#")
    target = f"{target}index.html" if target.endswith("/") or not target else target
    if anchor and target in pages:
        return anchor in pages[target].anchors or target.startswith("reproduction/reproduction.")
    return (site / target).is_file()


def commands() -> Iterator[tuple[str, set[str]]]:
    """Every command that help shows, with its options."""
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if not command.hidden:
            context = typer.Context(command, info_name=name)
            yield name, {option for parameter in command.get_params(context) for option in parameter.opts}


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = (site / "reference/commands.html").read_text("utf-8")
    sections = dict(re.findall(r'<h2 id="calibsft-([^"]+)">(.*?)(?=<h2 |</article>)', text, re.DOTALL))
    assert list(sections) == [name for name, _ in commands()]
    for name, options in commands():
        shown = set(re.findall(r"--?[a-z][\w.-]*", sections[name]))
        assert {option for option in options if option.startswith("-")} <= shown, name


@pytest.mark.parametrize("name", [*calibsft.FUNCTIONS, *calibsft.ROOMS])
def test_every_function_has_a_page_with_its_signature_and_text(
    name: str, site: Path, pages: dict[str, Page]
) -> None:
    place = f"reference/python/{name}.html"
    assert f"calibsft.{name}" in pages[place].anchors
    shown = re.sub(r"<[^>]+>", "", (site / place).read_text("utf-8"))
    function = getattr(api, name)
    assert set(inspect.signature(function).parameters) <= set(re.findall(r"\w+", shown))
    first = (inspect.getdoc(function) or "").split(":")[0].split("`")[0]
    assert first and first in shown


def imported_in_the_docs() -> set[str]:
    """Functions and classes of calibsft that code in README and docs/ imports."""
    found = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        blocks = MarkdownIt().parse(page.read_text("utf-8"))
        code = "\n".join(b.content for b in blocks if b.type == "fence" and b.info == "python")
        for module, names in re.findall(r"^from (calibsft[\w.]*) import (\w+(?:, \w+)*)", code, re.MULTILINE):
            found |= {f"{module}.{name}" for name in names.split(", ") if not name.isupper()}
    return found


def test_what_the_docs_import_is_in_the_reference(pages: dict[str, Page]) -> None:
    imported = imported_in_the_docs()
    assert "calibsft.metrics.evaluate" in imported
    there = set().union(
        *(page.anchors for name, page in pages.items() if name.startswith("reference/python/"))
    )
    assert not imported - there


def test_the_search_works_from_a_folder_without_a_server(site: Path, open_page: Open) -> None:
    opened = open_page(site / "index.html")
    opened.page.click("input.md-search__input")
    opened.page.keyboard.type("glossary")
    opened.page.wait_for_selector(".md-search-result__item")
    assert "Glossary" in opened.page.inner_text(".md-search-result__list")
    assert not opened.complaints
    assert all(request.startswith(("file:", "data:")) for request in opened.requests)
