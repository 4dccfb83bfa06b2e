"""Files outside docs/ in the site: docs/ is laid over the repository's root.

`CONTRIBUTING.md` of the repository is the page `CONTRIBUTING.md` of the site. What a page links to comes with it, pages as
pages and other files as they are. Links are written for the repository's file view; here they are made to fit the site.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# Pages that belong to the site although no page of docs/ needs to link to them.
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
LINK = re.compile(r"(?<=\]\()(?![\w+.-]+:|#|/)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and every file outside docs/ that a page links to."""
    waiting = [path for path in PAGES if (ROOT / path).is_file()]
    for file in files.documentation_pages():
        waiting += linked(f"docs/{file.src_uri}", file.content_string)
    while waiting:
        path = waiting.pop()
        if path.startswith("docs/") or site_place(path) in files.src_uris or not (ROOT / path).is_file():
            continue
        # A page that only another page leads to needs no place in the navigation.
        kind = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path), inclusion=kind))
        if path.endswith(".md"):
            waiting += linked(path, (ROOT / path).read_text("utf-8"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links fit the site."""
    source = page.file.src_uri
    outside = page.file.generated_by is not None and (ROOT / source).is_file()
    path = source if outside else f"docs/{source}"
    here = posixpath.dirname(source)

    def fitted(link: re.Match[str]) -> str:
        place = site_place(in_repository(path, link[1]))
        return posixpath.relpath(place, here or ".") if place in files.src_uris else link[1]

    return LINK.sub(fitted, markdown)


def linked(path: str, text: str) -> list[str]:
    """The files that the page at `path` links to, by their places in the repository."""
    return [in_repository(path, target) for target in LINK.findall(text)]


def in_repository(path: str, target: str) -> str:
    """The place of a link's target, seen from the page at `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def site_place(path: str) -> str:
    """Where a file of the repository is in the site; README is its first page."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")
