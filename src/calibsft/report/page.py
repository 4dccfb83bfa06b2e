"""Write a run's report: report.html (self-contained), report.md and figures/*.svg.

The page asks nothing of the network and runs no script: its content security policy forbids both, figures are
images in data: URIs, and all text of the run is escaped. Does not read run folders; what is said is `content`.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from calibsft import __version__
from calibsft.artifacts import write_text
from calibsft.report.content import LEAD, MEASURES, Content, build_content
from calibsft.report.markup import markdown_code, markdown_table, markdown_text
from calibsft.report.summary import RunSummary
from calibsft.text import printable

FOLD_ROWS = 12  # longer tables of the details are folded away


def write_report(summary: RunSummary, folder: Path) -> Path:
    """Write the report of a run into `folder`, replacing an earlier one.

    Each file appears complete or not at all; report.html comes last.

    Returns
    -------
    The path of report.html.
    """
    content = build_content(summary)
    for figure in content.figures:
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg)
    write_text(folder / "report.md", _markdown(content))
    page = folder / "report.html"
    write_text(page, _html(content))
    return page


def _html(content: Content) -> str:
    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["printable"] = printable
    page = environment.get_template("report.html.j2")
    return page.render(
        content=content,
        lead=LEAD,
        measures=MEASURES,
        fold_rows=FOLD_ROWS,
        version=__version__,
    )


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
        markdown_text(MEASURES),
        *images,
        "## Details",
        *(markdown_table(table) for table in content.details),
        "## Recipe",
        markdown_code(content.command, "sh"),
        markdown_code(content.recipe, "yaml"),
    ]
    return "\n\n".join(parts) + "\n"
