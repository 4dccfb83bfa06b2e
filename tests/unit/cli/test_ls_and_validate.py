"""`calibsft ls` and `calibsft validate`, as they are typed."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibsft.benchmarks import BENCHMARKS, get_benchmark
from calibsft.benchmarks.gold_check import gold_answers
from calibsft.cli import main
from calibsft.cli.ls import THINGS
from calibsft.schema import Question
from calibsft.verify import GRADERS

Calibsft = Callable[..., tuple[int, str, str]]


@pytest.fixture
def calibsft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calibsft:
    """The command, run in process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["calibsft", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return run


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """GSM8K with good golds, NQ-Open with one that shows nothing, WebQuestions with a set."""
    sums = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(30)]
    asked = [{"question": "who", "answer": ["Ada", "A. L."]}, {"question": "what", "answer": ["\u200b"]}]
    sets = [{"question": "which", "answers": ["Ada, Countess", "Bob"]}]
    for name, rows in {"gsm8k": sums, "nq_open": asked, "webquestions": sets}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_ls_says_what_can_be_listed(calibsft: Calibsft) -> None:
    code, out, _ = calibsft("ls")
    assert code == 0 and [line.split()[0] for line in out.splitlines()[1:]] == list(THINGS)
    assert {"benchmarks", "engines", "graders", "evidence", "targets", "methods", "metrics"} <= set(THINGS)


@pytest.mark.parametrize("thing", THINGS)
def test_everything_can_be_listed_as_a_table_and_as_json(thing: str, calibsft: Calibsft) -> None:
    code, out, err = calibsft("ls", thing)
    rows = json.loads(calibsft("ls", thing, "--json")[1])
    assert (code, err) == (0, "") and rows
    names = [line.split()[0] for line in out.splitlines()[1:] if not line.startswith("--")]
    assert names == [row["name"] for row in rows]


def test_the_table_of_benchmarks_fits_a_hundred_columns(calibsft: Calibsft) -> None:
    _, out, _ = calibsft("ls", "benchmarks")
    assert max(map(len, out.splitlines())) <= 100
    line = next(line for line in out.splitlines() if line.startswith("olympiadbench"))
    assert line.split() == [
        "olympiadbench",
        "674",
        "4",
        "math",
        "1",
        *BENCHMARKS["olympiadbench"].place.shown.split(),
    ]


def test_the_table_of_benchmarks_is_divided_by_domain(calibsft: Calibsft) -> None:
    lines = calibsft("ls", "benchmarks")[1].splitlines()
    place = {line.split()[0]: number for number, line in enumerate(lines) if not line.startswith("--")}
    id_, ood = lines.index("-- domain id"), lines.index("-- domain ood")
    training = lines.index("-- domain id, for training and not for evaluation")
    assert id_ < place["gsm8k"] < ood < place["drop"] < training < place["deepscaler"]


def test_a_pinned_revision_is_shown(calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "gsm8k", replace(BENCHMARKS["gsm8k"], revision="v1"))
    assert "openai/gsm8k@v1 main test" in calibsft("ls", "benchmarks")[1]


def test_json_says_all_about_a_benchmark(calibsft: Calibsft) -> None:
    rows = {row["name"]: row for row in json.loads(calibsft("ls", "benchmarks", "--json")[1])}
    assert rows["aime-2025"] == {
        "name": "aime-2025", "description": "competition problems with whole answers", "domain": "id", "training": False,
        "questions": 30, "samples": 32, "grader": "math", "hub": "MathArena/aime_2025", "config": None,
        "split": "train", "revision": None, "version": 1,
    }  # fmt: skip
    assert rows["deepscaler"]["training"] and rows["cross"]["hub"] is None
    assert rows["cross"]["questions"] == len(get_benchmark("cross").load())


def test_a_grader_is_listed_with_the_benchmarks_that_name_it(
    calibsft: Calibsft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRADERS, "math-strict", replace(GRADERS["math"], name="math-strict"))
    used = {row["name"]: row["benchmarks"] for row in json.loads(calibsft("ls", "graders", "--json")[1])}
    assert used["math"] == "deepscaler-eval, math-500, minerva-math and 6 more" and used["math-strict"] == "-"
    puzzles = [name for name in used if name.startswith("livebench")]
    assert len(puzzles) == 5 and {used[name] for name in puzzles} == {"livebench-reasoning"}


def test_an_unknown_thing_to_list_is_refused(calibsft: Calibsft) -> None:
    code, out, err = calibsft("ls", "benchmark")
    assert (code, out) == (2, "") and "did you mean 'benchmarks'?" in err


def test_validate_counts_what_passes_and_names_what_does_not(calibsft: Calibsft, data_dir: Path) -> None:
    code, out, err = calibsft("validate", "--benchmark", "gsm8k,nq-open", "--data-dir", str(data_dir))
    lines = out.splitlines()
    assert code == 0 and "Traceback" not in err
    assert lines[0].split() == ["benchmark", "questions", "pass", "fail"]
    assert [line.split() for line in lines[1:3]] == [["gsm8k", "30", "30", "0"], ["nq-open", "2", "1", "1"]]
    assert lines[3:] == [r"nq-open 1: unparsed_gold, answered '\u200b'"]
    assert "gsm8k: 60/60 golds" in err and "/s" in err


def test_validate_json_lists_every_failure_and_nothing_else(calibsft: Calibsft, data_dir: Path) -> None:
    rows = [{"question": f"q{n}", "answer": ["\u200b"]} for n in range(25)]
    (data_dir / "nq_open.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("validate", "--benchmark", "nq-open", "--data-dir", str(data_dir))
    found = json.loads(calibsft(*arguments, "--json")[1])["nq-open"]
    assert {key: found[key] for key in ("questions", "passed", "answers")} == {
        "questions": 25,
        "passed": 0,
        "answers": 25,
    }
    assert found["failures"][24] == {"question_id": "24", "answer": "\u200b", "grade": "unparsed_gold"}
    lines = calibsft(*arguments)[1].splitlines()
    assert len(lines) == 2 + 20 + 1 and lines[-1].startswith("nq-open: 5 more")


def test_validate_takes_the_first_questions_only(calibsft: Calibsft, data_dir: Path) -> None:
    arguments = ("validate", "--benchmark", "gsm8k", "--benchmark", "nq-open", "--limit", "1", "--json")
    found = json.loads(calibsft(*arguments, "--data-dir", str(data_dir))[1])
    assert {name: check["questions"] for name, check in found.items()} == {"gsm8k": 1, "nq-open": 1}
    assert calibsft(*arguments[:5], "--limit", "0", "--data-dir", str(data_dir))[0] == 2


def test_validate_all_needs_every_evaluation_benchmark(calibsft: Calibsft, data_dir: Path) -> None:
    code, out, err = calibsft("validate", "--benchmark", "all", "--data-dir", str(data_dir))
    assert (code, out) == (2, "") and "put deepscaler-eval or " in err


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("--benchmark", "gsm9k"), "did you mean 'gsm8k'?"),
        (("--benchmark", "gsm8k"), "could not be loaded from the Hub"),
        (("--benchmark", "gsm8k", "--data-dir", "nowhere"), "nowhere: no such folder"),
        (("--benchmark", ","), "no benchmark named"),
        ((), "Missing option '--benchmark'"),
    ],
)
def test_validate_refuses_what_it_cannot_load(
    arguments: tuple[str, ...], problem: str, calibsft: Calibsft
) -> None:
    code, out, err = calibsft("validate", *arguments)
    assert (code, out) == (2, "")
    assert problem in err and "Traceback" not in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "grader, gold, answers",
    [
        ("math", "1/2", ["1/2", r"\boxed{1/2}"]),
        ("text", ("Ada", "A. L."), ["Ada", "A. L."]),
        ("set", ("Ada, Countess", "Bob é"), ['["Ada, Countess", "Bob é"]']),
        ("drop", ("2", "x\ny"), ["2", "x\ny"]),
    ],
)
def test_a_gold_is_answered_in_every_form(grader: str, gold: Any, answers: list[str]) -> None:
    assert gold_answers(Question("1", "Q", gold, grader, "d")) == answers


def test_a_set_passes_as_one_list(calibsft: Calibsft, data_dir: Path) -> None:
    code, out, _ = calibsft("validate", "--benchmark", "webquestions", "--data-dir", str(data_dir))
    assert code == 0 and out.splitlines()[1].split() == ["webquestions", "1", "1", "0"]
