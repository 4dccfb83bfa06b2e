"""Text from a run - labels, dataset names, reasons, recipe, command - stays text in HTML, Markdown and SVG."""

import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from calibsft.metrics import score_table
from calibsft.report import page as report_page
from calibsft.report.markup import markdown_table
from calibsft.report.page import write_page, write_report
from calibsft.report.seed_tables import each_seed_table, spread_table
from calibsft.report.summary import (
    GradientShare,
    ModelResult,
    Responses,
    RunSummary,
    SeedResult,
    StageCost,
    TrainingRun,
    TrainingSet,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "</script></style></title></code></pre><svg onload=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "a|b\n| --- |\n# heading",
    "````\n```\n<b>x</b>\n~~~",
    "[click](javascript:alert(1)) ![x](http://evil.example/y) <http://evil.example>",
    "$\\frac{1}{0}$ $x_ $ \\",
    "**bold** _it_ ~~no~~ &lt;b&gt;",
    "\x1b[31mred\x00\x08\u202egnp.exe\u2028next",
    "x" * 3000,
]
FIGURES = 11
SAFE_TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "p", "h1", "h2", "section", "div", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "aside", "ul", "li", "figure", "picture", "source", "img", "figcaption", "pre",
    "code", "details", "summary", "footer", "nav", "a", "small", "form", "label", "select", "option", "input", "button",
    "noscript", "script",
}  # fmt: skip
SCRIPT = Path(report_page.__file__).parent / "templates" / "inspector.js"


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and self.scripts:
            attributes, before = self.scripts.pop()
            self.scripts.append((attributes, before + data))
        else:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def hostile_run(text: str) -> RunSummary:
    rows = pl.DataFrame(
        {
            "dataset": [text, text, f"{text} 2", f"{text} 2"],
            "split": ["id", "id", "ood", "ood"],
            "question_id": ["1", "2", "1", text],
            "sample": [0, 0, 0, 0],
            "confidence": [0.9, 0.3, None, 0.2],
            "correct": [True, False, True, False],
            "well_formed": [True, True, False, True],
            "reason": ["ok", "ok", text, "ok"],
        }
    )
    said = rows.with_columns(answer=pl.lit(text), response=pl.lit(text))
    questions = said.select("dataset", "question_id").unique(maintain_order=True)
    questions = questions.with_columns(question=pl.lit(text), gold=pl.concat_list(pl.lit(text)))
    budgets = pl.DataFrame({"budget": [8, None], "pass@1": [0.4, 0.5], "ece": [0.2, 0.1]})
    names = {"label": text, "method": text, "start": text, "calibrated": False}
    scores = {key: [0.4, 0.5] for key in ("pass@1", "auroc", "brier", "ece")}
    steps = pl.DataFrame(
        {"step": [1, 2], "distinct_values": [2.0, 3.0], "confidence_entropy": [1.0, 1.5], **scores}
    )
    evals = pl.DataFrame({"step": [1, 2], "split": ["id", text], **scores})
    shares = pl.DataFrame({"confidence": [0.9], "probability": [1.0], "gradient_share": [1.0]})
    return RunSummary(
        name=text,
        models=(
            ModelResult(text, rows, method=text, calibrated=False, budgets=budgets),
            ModelResult("plain", rows),
        ),
        training_sets=(TrainingSet(text, {text: 3, "0.10": 2}, {text: 2, "0.10": 2}, {text: 7}),),
        costs=(StageCost(text, 1.0, 10, 1.0),),
        recipe_yaml=f"name: {text}\nlast: line\n",
        command=f"calibsft run {text}",
        training=(TrainingRun(**names, steps=steps, evals=evals),),
        gradients=(GradientShare(text, 8, shares),),
        responses=(Responses(text, False, said, questions, 4),),
    )


@pytest.fixture(scope="module", params=HOSTILE, ids=range(len(HOSTILE)))
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A hostile text and the folder of the report that is full of it."""
    page = write_report(hostile_run(request.param), tmp_path_factory.mktemp("report"), ["svg"])
    return request.param, page.parent


def pictures_of(page: Page) -> list[str]:
    """The addresses of all pictures, in both themes."""
    return [value for name, value in page.attributes if name in {"src", "srcset"}]


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_hostile_text_adds_no_element_attribute_or_request_to_the_page(report: tuple[str, Path]) -> None:
    text, folder = report
    page = page_of(folder)
    assert page.tags <= SAFE_TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    sources = pictures_of(page)
    assert len(sources) == 2 * FIGURES and all(
        value.startswith("data:image/svg+xml;base64,") for value in sources
    )
    (policy,) = [value for name, value in page.attributes if name == "content" and "-src" in value]
    assert re.fullmatch(
        r"default-src 'none'; img-src data:; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+';"
        r" base-uri 'none'; form-action 'none'",
        policy,
    )
    visible = "".join(char if char.isprintable() else " " for char in text)
    # Title, heading, two headline tables, four benchmark rows, reasons, filter, cost, command: all show it as text.
    assert page.text.count(visible) >= 11
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2028]", page.text)


def test_the_only_script_is_ours_and_all_else_is_packed(report: tuple[str, Path]) -> None:
    *data, (attributes, code) = page_of(report[1]).scripts
    assert attributes == {} and code == SCRIPT.read_text(encoding="utf-8")
    assert len(data) == 2
    for kind, text in data:
        assert kind["type"] == "application/octet-stream" and re.fullmatch(r"[A-Za-z0-9+/]+=*", text)


def test_the_script_never_makes_markup_or_code_of_text() -> None:
    code = SCRIPT.read_text(encoding="utf-8")
    for risky in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval",
        "Function(",
        "fetch(",
        "http",
    ):
        assert risky not in code, risky


def test_hostile_text_stays_text_inside_the_figures(report: tuple[str, Path]) -> None:
    text, folder = report
    images = [b64decode(value.split(",")[1]) for value in pictures_of(page_of(folder))]
    assert sorted(images) == sorted(path.read_bytes() for path in (folder / "figures").glob("*.svg"))
    label = "".join(char if char.isprintable() else " " for char in text)[:23]
    for image in images:
        assert label in "".join(ElementTree.fromstring(image).itertext())
        names = {element.tag.split("}")[1] for element in ElementTree.fromstring(image).iter()}
        assert names <= {
            "svg",
            "defs",
            "style",
            "g",
            "path",
            "use",
            "clipPath",
            "pattern",
            "rect",
            "text",
            "tspan",
        }
        assert b"evil.example" not in re.sub(rb"<text.*?</text>|<!--.*?-->", b"", image, flags=re.S)


def test_hostile_text_does_not_break_markdown_tables_or_fences(report: tuple[str, Path]) -> None:
    lines = (report[1] / "report.md").read_text(encoding="utf-8").split("\n")
    outside, fence = [], ""
    for line in lines:
        if not fence and (opened := re.match(r"(`{3,})(sh|yaml)$", line)):
            fence = opened[1]
        elif fence and re.fullmatch(fence + "`*", line.strip()):
            fence = ""
        elif not fence:
            outside.append(line)
    assert not fence
    widths = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) - 1 for line in outside if line.startswith("|")]
    # Two headline tables (2 rows each), priors (2), two of further metrics (2 each), benchmarks (4), without unreadable (2),
    # reasons (2), filter (1), cost (2), each with header and rule.
    headline, details = [9] * 4 + [9] * 4 + [6] * 4, [17] * 4 + [17] * 4 + [11] * 6 + [5] * 4 + [2] * 4
    assert widths == headline + details + [2] * 3 + [5] * 4
    assert not [line for line in outside if "<" in line]
    assert [line for line in outside if line.startswith("# ")] == [outside[0]]
    images = [line for line in outside if re.search(r"(?<!\\)\]\(", line)]
    assert len(images) == FIGURES and all("](figures/" in line for line in images)
    assert not any(re.search(r"(?<!\\)`", line) for line in outside)
    assert "## Recipe" in outside


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_labels_do_not_break_the_seeds_table(text: str) -> None:
    model = hostile_run(text).models[0]
    results = [SeedResult(seed, text, score_table(model.rows), 3.0) for seed in (0, 1)]
    results.append(SeedResult(1, f"{text} 2", score_table(model.rows)))
    spread = spread_table(results)
    assert spread is not None
    # A title, two lines of header and as many rows as models, or models and seeds; below the means, who has fewer.
    for table, lines_of_it, rows, bars in ((each_seed_table(results), 7, 3, 10), (spread, 8, 2, 9)):
        lines = markdown_table(table).split("\n")
        assert len(lines) == lines_of_it
        cells = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines[2 : 4 + rows]}
        assert cells == {bars} and not any("<" in line for line in lines)


def test_the_page_names_no_address_outside_the_text_of_the_run(tmp_path: Path) -> None:
    page = write_page(hostile_run("plain"), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
