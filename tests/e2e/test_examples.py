"""Every file in examples/ is run as its reader would run it, in an empty folder, and shows what it promises."""

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "from-responses-to-a-decision.ipynb"
LARGEST_NOTEBOOK = 300_000
LONGEST_SCRIPT = 120
PNG = b"\x89PNG"
# What each script must print, in this order.
PRINTS = {
    "score_a_csv.py": (r"theirs\.csv: 800 responses", r"^brier +0\.\d{3}   \[0\.\d{3}, 0\.\d{3}\]$", r"^figure: "),
    "verify_chat_logs.py": (r"chats\.jsonl\.gz: 200 chats", r"^malformed: {'missing_confidence': 10}$", r"^auroc +0\."),
    "calibsft_data_for_trl.py": (
        r"^right: trained on <think>.*</think><answer>.*</answer><confidence>[01]\.\d\d</confidence>",
        r"^wrong: trained on [01]\.\d\d</confidence>",
        r"^checkpoint: .*checkpoint-10$",
    ),
    "certify_and_serve.py": (
        r"^answer where the confidence is at least 0\.",
        r"^12\+30: 4[23] \(answered, confidence 0\.9",
        r"^12\*30: I am not sure enough to answer this\. \(abstained, confidence 0\.[35]\)$",
        r"^as calibrated: 100 labels, .* no alarm$",
        r"^after the model has changed: 1\d\d labels, .* ALARM$",
    ),
    "method_of_your_own.py": (
        r"^right and 0\.9 sure: 0\.98\nright and 0\.2 sure: 0\.65\nwrong and 0\.2 sure: 0\.95\nwrong and 0\.9 sure: 0\.50$",
        r"^step 1: .*\n(step .*\n){6}step 8: ",
        r"^checkpoint: .*model$",
    ),
}  # fmt: skip


def run(name: str, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, words)]
    here = os.environ | {"NO_PROXY": "127.0.0.1", "HF_DATASETS_CACHE": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)


def shown(name: str, folder: Path, *words: object) -> str:
    """What a script prints, once it holds what it must."""
    done = run(name, folder, *words)
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    for expected in PRINTS[name]:
        found = re.search(expected, rest, re.MULTILINE)
        assert found, f"{expected} is not in\n{rest}"
        rest = rest[found.end() :]
    return done.stdout


def test_every_example_has_a_test_and_a_row_in_the_table() -> None:
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert files == {*PRINTS, NOTEBOOK.name, "README.md"}
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| \[`?([^`\]]+)`?\]\(\1\) \|", table, re.MULTILINE))
    assert rows == files - {"README.md"}
    assert all(f"python examples/{name}" in table for name in PRINTS)


def test_examples_are_short_and_need_no_data_of_others() -> None:
    for name in PRINTS:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LONGEST_SCRIPT and "shared/" not in text


def test_a_csv_is_scored_and_drawn(tmp_path: Path) -> None:
    shown("score_a_csv.py", tmp_path)
    assert (tmp_path / "runs/example-score/reliability.png").read_bytes().startswith(PNG)


def test_chat_logs_are_verified_and_scored(tmp_path: Path) -> None:
    shown("verify_chat_logs.py", tmp_path, "--out", "here")
    assert not (tmp_path / "runs").exists() and (tmp_path / "here/verdicts/manifest.json").is_file()


@pytest.mark.long
def test_trl_trains_on_what_is_not_wrong(tmp_path: Path) -> None:
    shown("calibsft_data_for_trl.py", tmp_path)


def test_a_threshold_is_certified_and_served(tmp_path: Path) -> None:
    shown("certify_and_serve.py", tmp_path)
    assert json.loads((tmp_path / "runs/example-serve/policy.json").read_text())["risk"] == 0.1


@pytest.mark.long
def test_a_method_of_ones_own_is_trained_with(tmp_path: Path, short_base: Path) -> None:
    said = shown("method_of_your_own.py", tmp_path, "--model", short_base)
    # The model claims much and is nearly always wrong: to doubt is what is rewarded.
    stated = [float(value) for value in re.findall(r"stated (\S+),", said)]
    assert stated[-1] < stated[0]
    manifest = json.loads((tmp_path / "runs/example-method/rl/manifest.json").read_text())
    assert manifest["method"] == "Logarithmic"


@pytest.mark.parametrize(
    "name, words, problem",
    [
        ("score_a_csv.py", ("missing.csv",), "missing.csv"),
        ("score_a_csv.py", ("other.csv",), "column 'certainty'"),
        ("verify_chat_logs.py", ("missing.jsonl.gz",), "missing.jsonl.gz"),
    ],
)
def test_wrong_input_is_told_in_one_sentence(
    tmp_path: Path, name: str, words: Sequence[str], problem: str
) -> None:
    (tmp_path / "other.csv").write_text("question_id,confidence,correct\n1,90,1\n")
    done = run(name, tmp_path, *words)
    said = done.stderr.strip().splitlines()
    assert done.returncode == 1 and said[-1].startswith("Error: ") and problem in said[-1]
    assert "Traceback" not in done.stderr


def test_the_notebook_prints_and_draws_what_it_was_committed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert NOTEBOOK.stat().st_size <= LARGEST_NOTEBOOK
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    names: dict[str, Any] = {}
    drawn = 0
    for cell in cells:
        printed, value = executed("".join(cell["source"]), names)
        assert printed == "".join(
            "".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"
        )
        kinds = [
            output["data"].keys() for output in cell["outputs"] if output["output_type"] == "execute_result"
        ]
        assert len(kinds) == (value is not None)
        if hasattr(value, "_repr_png_"):
            assert value._repr_png_().startswith(PNG) and "image/png" in kinds[0]
            drawn += 1
    assert drawn == 2


def executed(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line, as a notebook would show them."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        # The repository's own code, which is run for its readers.
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307
    return printed.getvalue(), value
