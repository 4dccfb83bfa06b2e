"""Write a run's report: report.html (self-contained), report.md, and figures/ as SVG and PNG.

The page asks nothing of the network and runs no script but its own, which shows responses: its content security policy
forbids everything else, figures are images in data: URIs, and all text of the run is escaped. Does not read run
folders; the texts come from `content`.
"""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from calibsft import __version__
from calibsft.artifacts import make_folder, write_bytes, write_text
from calibsft.report.content import LEAD, Content, build_content
from calibsft.report.figures import KINDS
from calibsft.report.markup import markdown_code, markdown_table, markdown_text
from calibsft.report.summary import RunSummary
from calibsft.text import printable

PAGE = "report.html"
PAGE_ENDINGS = (".html", ".htm")
TEMPLATES = Path(__file__).parent / "templates"
PROSE_FROM = 80  # a cell with more characters holds sentences and needs room
FOLD_ROWS = 12  # longer tables of the details are folded away


def write_report(summary: RunSummary, folder: Path, pictures: Sequence[str] = tuple(KINDS)) -> Path:
    """Write the report of a run into `folder`, replacing an earlier one; returns the path of report.html.

    Each file appears complete or not at all; report.html comes last. Figures are saved as each kind of `pictures`, SVG
    among them.
    """
    make_folder(folder)  # fails before the work rather than after it
    content = build_content(summary, pictures)
    for figure in content.figures:
        for name, picture in figure.files():
            write_bytes(folder / "figures" / name, picture)
    write_text(folder / "report.md", _markdown(content))
    page = folder / PAGE
    write_text(page, _html(content))
    return page


def write_page(summary: RunSummary, page: Path) -> Path:
    """Write the page of a report alone, which needs no other file; returns its path."""
    make_folder(page.parent)
    write_text(page, _html(build_content(summary)))
    return page


def write_to(summary: RunSummary, out: Path) -> Path:
    """Write the page alone if `out` is named like one, else the report into the folder `out`; returns the page's path."""
    is_page = out.suffix.lower() in PAGE_ENDINGS and not out.is_dir()
    return (write_page if is_page else write_report)(summary, out)


def _html(content: Content) -> str:
    styles = ("report.css", *(("inspector.css",) if content.responses else ()))
    script = "inspector.js" if content.responses else ""
    return render_page(
        "report.html.j2",
        styles,
        script,
        content=content,
        lead=LEAD,
        fold_rows=FOLD_ROWS,
        prose_from=PROSE_FROM,
    )


def render_page(template: str, styles: Sequence[str], script: str = "", **context: Any) -> str:
    """A page that needs no other file: a template with the texts of its styles and its script, by their files' names."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    style, code = "".join(map(_text, styles)), _text(script) if script else ""
    return environment.get_template(template).render(
        version=__version__, style=Markup(style), script=Markup(code), policy=_policy(style, code), **context
    )


def _text(template: str) -> str:
    return (TEMPLATES / template).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """What a browser may do with the page: show images inside it, and use just this style and this script."""
    allowed = [f"style-src '{_digest(style)}'", *([f"script-src '{_digest(script)}'"] if script else [])]
    return "; ".join(
        ["default-src 'none'", "img-src data:", *allowed, "base-uri 'none'", "form-action 'none'"]
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _markdown(content: Content) -> str:
    images = [
        f"## {figure.title}\n\n![{figure.title}](figures/{figure.name}.svg)\n\n{figure.caption}"
        for figure in content.figures
    ]
    parts = [
        f"# {markdown_text(content.title)}",
        LEAD,
        "\n".join(f"- {sentence}" for sentence in content.reading),
        *(markdown_table(table) for table in content.headline),
        *([markdown_text(content.measures)] if content.measures else []),
        *(markdown_table(table) for table in content.comparisons),
        *images,
        "## Details",
        *(markdown_table(table) for table in content.details),
        "## Recipe",
        markdown_code(content.command, "sh"),
        markdown_code(content.recipe, "yaml"),
    ]
    return "\n\n".join(parts) + "\n"
