"""`--where`, `--by` and `--malformed` mean the same in every command that reads responses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.decisions.policy import read_policy
from calibsft.decisions.repeats import origins
from calibsft.errors import InputError
from calibsft.metrics.selection import Where, parts
from command import Command

COMMANDS: dict[str, tuple[object, ...]] = {
    "certify": ("certify", "--risk", 0.1, "--force"),
    "route": ("route", "--epsilon", 0.1, "--force"),
    "diagnose": ("diagnose",),
    "score": ("score",),
}


def models(questions: int = 400) -> pl.DataFrame:
    """Responses sorted by model: one errs in 2 % where it is confident, the other in 30 %; for certify and for route."""
    rng = np.random.default_rng(0)
    found = []
    for name, errs in (("careful", 0.02), ("rash", 0.3)):
        confidence = rng.choice([0.5, 0.7, 0.9, 0.95], questions)
        right = rng.random(questions) < np.where(confidence >= 0.9, 1 - errs, 0.5)
        asked = [f"q{i}" for i in range(questions)]
        columns = {"question_id": asked, "model": name, "confidence": confidence, "correct": right}
        found.append(pl.DataFrame(columns))
    return pl.concat(found).with_columns(local_correct="correct", strong_correct=True)


@pytest.fixture
def rows(calibsft: Command, tmp_path: Path) -> pl.DataFrame:
    """The responses, also as m.csv and by model as careful.csv and rash.csv in the folder where the command runs."""
    found = models()
    found.write_csv(tmp_path / "m.csv")
    for (name,), part in found.partition_by("model", as_dict=True).items():
        part.write_csv(tmp_path / f"{name}.csv")
    return found


def as_json(calibsft: Command, name: str, file: str, *options: object) -> dict[str, Any]:
    command, *more = COMMANDS[name]
    code, out, err = calibsft(command, file, *more, *options, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


# Several models in one file


def test_the_first_model_of_a_sorted_file_is_not_certified_in_silence(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    models(1000).write_csv("m.csv")
    first = ("certify", "m.csv", "--risk", 0.1, "--per-question", "first", "--policy", "first.json", "--json")
    code, out, err = calibsft(*first)
    mixed, worse = json.loads(out)["warnings"]
    assert code == 0 and err == f"warning: {mixed}\nwarning: {worse}\n"
    assert "differ in column 'model' ('careful', 'rash')" in mixed and "--by model" in mixed
    assert "the first of them in the file alone" in mixed and "--where model=careful" in mixed
    assert worse.startswith("held out, 1") and "more than the 10 % allowed" in worse
    drawn = as_json(calibsft, "certify", "m.csv")
    assert json.loads(out)["threshold"] is not None and drawn["threshold"] is None
    assert ["a random mixture of them" in text for text in drawn["warnings"]] == [True]


def test_a_route_that_loses_more_than_it_may_is_told(calibsft: Command, rows: pl.DataFrame) -> None:
    models(1000).write_csv("m.csv")
    warnings = as_json(calibsft, "route", "m.csv", "--per-question", "first", "--epsilon", 0.05)["warnings"]
    assert len(warnings) == 2 and "of accuracy is lost, more than the 5 % allowed" in warnings[1]
    rows.select("question_id", "model", "correct").write_csv("strong.csv")
    strong = as_json(calibsft, "route", "careful.csv", "--strong", "strong.csv")["warnings"]
    assert strong[0].startswith("strong.csv: responses to one question differ in column 'model'")


def test_one_model_is_certified_without_a_warning(calibsft: Command, rows: pl.DataFrame) -> None:
    for file, options in (("careful.csv", ()), ("m.csv", ("--where", "model=careful"))):
        assert calibsft("certify", file, "--risk", 0.1, "--force", *options)[::2] == (0, "")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_only_a_column_with_the_same_values_for_nearly_every_question_is_an_origin(
    tmp_path: Path, suffix: str
) -> None:
    rng, n = np.random.default_rng(0), 240
    rows = pl.DataFrame(
        {
            "question_id": [f"q{i // 4}" for i in range(n)],
            "prompt": ["long", "long", "short", "short"] * (n // 4),
            "confidence": [0.5] * n,
            "correct": [True, True, False, False] * (n // 4),
            "number": [0, 1, 2, 3] * (n // 4),
            "row": list(range(n)),
            "cut": rng.random(n) < 0.5,
            "seldom": rng.random(n) < 0.01,
            "topic": [f"t{i // 80}" for i in range(n)],
            # Names that the search itself might use.
            **{name: list(range(n)) for name in ("questions", "len", "times", "value")},
        }
    )
    write = {"csv": rows.write_csv, "jsonl": rows.write_ndjson, "parquet": rows.write_parquet}[suffix]
    path = tmp_path / f"r.{suffix}"
    write(path)
    assert origins(path, Where()) == [("prompt", ["long", "short"])]
    assert origins(path, Where.of(["prompt=long"])) == []
    rows.filter(pl.col("row") % 37 > 0).write_csv(tmp_path / "gaps.csv")
    assert [name for name, _ in origins(tmp_path / "gaps.csv", Where())] == ["prompt"]


# Part of the rows, and every part


@pytest.mark.parametrize("name", COMMANDS)
def test_where_is_the_file_with_those_rows_alone(calibsft: Command, rows: pl.DataFrame, name: str) -> None:
    part = as_json(calibsft, name, "m.csv", "--where", "model=rash")
    assert part == as_json(calibsft, name, "rash.csv") != as_json(calibsft, name, "careful.csv")
    both = as_json(calibsft, name, "m.csv", "--where", "model=rash", "--where", "model=careful")
    assert both == as_json(calibsft, name, "m.csv")


@pytest.mark.parametrize("name", ["certify", "route", "diagnose"])
def test_by_gives_a_result_for_every_value(calibsft: Command, rows: pl.DataFrame, name: str) -> None:
    found = as_json(calibsft, name, "m.csv", "--by", "model")
    assert found["by"] == "model" and list(found["results"]) == ["careful", "rash"]
    for model, part in found["results"].items():
        alone = as_json(calibsft, name, f"{model}.csv")
        if name != "diagnose":
            assert part.pop("policy") == f"policy-{model}.json" and alone.pop("policy") == "policy.json"
            policies = [read_policy(Path(file)) for file in (f"policy-{model}.json", "policy.json")]
            assert policies[0].confidences == policies[1].confidences
        assert part == alone
    command, *more = COMMANDS[name]
    code, out, _ = calibsft(command, "m.csv", *more, "--by", "model")
    assert code == 0 and out.startswith("model = careful\n\n") and "\n\nmodel = rash\n\n" in out


def test_policies_of_values_stay_in_their_folder_and_apart(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    names = pl.col("model").replace({"careful": "../../x" + "y" * 300, "rash": "../..?x" + "y" * 300})
    rows.with_columns(names).write_csv(tmp_path / "m.csv")
    (tmp_path / "in").mkdir()
    found = as_json(calibsft, "certify", "m.csv", "--by", "model", "--policy", "in/p.json")["results"]
    files = [Path(part["policy"]) for part in found.values()]
    assert len({read_policy(file).id for file in files}) == 2
    assert {file.parent for file in files} == {Path("in")} and sorted(Path("in").iterdir()) == sorted(files)


def test_no_policy_is_written_if_one_of_them_is_there_already(calibsft: Command, rows: pl.DataFrame) -> None:
    assert calibsft("certify", "rash.csv", "--risk", 0.1, "--policy", "policy-rash.json")[0] == 0
    code, out, err = calibsft("certify", "m.csv", "--risk", 0.1, "--by", "model")
    assert (code, out) == (2, "") and err.startswith("calibsft: policy-rash.json: there is a policy already")
    assert not Path("policy-careful.json").exists()


def test_figures_and_pages_show_each_value_as_a_model(calibsft: Command, rows: pl.DataFrame) -> None:
    assert calibsft("plot", "reliability", "m.csv", "--by", "model", "-o", "by.svg")[0] == 0
    text = Path("by.svg").read_text()
    assert ">careful<" in text and ">rash<" in text
    assert calibsft("plot", "reliability", "m.csv", "--where", "model=rash", "-o", "m.svg")[0] == 0
    assert calibsft("plot", "reliability", "rash.csv", "-o", "rash.svg")[0] == 0
    assert Path("m.svg").read_text() == Path("rash.svg").read_text().replace(">rash<", ">m<")
    code, _, err = calibsft("report", "m.csv", "--by", "model", "-o", "by")
    assert code == 0, err
    page = Path("by/report.md").read_text()
    assert "careful" in page and "rash" in page and "calibsft report m.csv --by model" in page


def test_a_page_of_some_rows_has_their_responses_alone(calibsft: Command, rows: pl.DataFrame) -> None:
    said = pl.format("<think></think> <answer>said by {}</answer>", "model")
    rows.with_columns(response=said).write_csv("m.csv")
    assert calibsft("report", "m.csv", "--where", "model=rash", "-o", "r.html")[0] == 0
    assert calibsft("report", "m.csv", "-o", "all.html")[0] == 0
    assert len(Path("r.html").read_bytes()) < len(Path("all.html").read_bytes())


def test_rows_keep_their_numbers_and_others_are_not_looked_at(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    lines = ["question_id,model,confidence,correct", "a,x,huh,maybe", "b,y,0.5,1", "c,y,0.5,perhaps"]
    (tmp_path / "w.csv").write_text("\n".join(lines) + "\n")
    code, _, err = calibsft("score", "w.csv", "--where", "model=y")
    assert code == 2 and "w.csv, row 3: correct 'perhaps'" in err and "(1 such rows)" in err
    (tmp_path / "w.csv").write_text("\n".join(lines[:3]) + "\n")
    assert calibsft("score", "w.csv", "--where", "model=y")[::2] == (0, "")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--where", "model"), "--where 'model' is no column=value"),
        (("--where", "=rash"), "--where '=rash' is no column=value"),
        (("--where", "modle=rash"), "column 'modle' is missing (there is 'model'"),
        (("--where", "model=Rash"), "no row has model=Rash; choose other values with --where (model is 'careful', 'rash')"),
        (("--by", "modle"), "column 'modle' is missing (there is 'model'"),
        (("--by", "question_id"), "column 'question_id' has 400 values"),
        (("--by", "model", "--where", "model=x"), "no row has model=x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["certify", "route", "diagnose", "plot"])
def test_a_part_that_is_not_there_is_refused(
    calibsft: Command, rows: pl.DataFrame, name: str, options: tuple[str, ...], told: str
) -> None:
    command, *more = COMMANDS.get(name, ("plot", "reliability"))
    code, out, err = calibsft(command, *more, "m.csv", *options)
    assert (code, out) == (2, "") and told in err and err.count("\n") == 1, err


def test_an_empty_cell_belongs_to_no_part(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("model,confidence,correct\na,0.5,1\n,0.5,1\n")
    with pytest.raises(InputError, match=r"row 2: 'model' is empty"):
        parts(path, Where(), "model")
    assert list(parts(path, Where.of(["model=a"]), "model")) == ["a"]
    frame = pl.read_csv(path)
    assert Where.of(["model="]).of_file(path, frame).height == 1


def test_numbers_are_compared_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("temperature,confidence\n0.60,1\n1,1\n")
    frame = pl.read_csv(path)
    assert Where.of(["temperature=0.60"]).of_file(path, frame).height == 1
    assert list(parts(path, Where(), "temperature")) == ["0.60", "1"]


# Rows without a readable confidence


@pytest.mark.parametrize("name", [*COMMANDS, "plot", "report"])
def test_unreadable_rows_are_counted_with_a_warning_in_every_command(
    calibsft: Command, tmp_path: Path, name: str
) -> None:
    text = pl.col("confidence").cast(pl.String)
    rows = models(40).head(40)
    rows = rows.with_columns(confidence=pl.when(pl.int_range(40) < 3).then(pl.lit("hm")).otherwise(text))
    rows.write_csv(tmp_path / "r.csv")
    command, *more = COMMANDS.get(name, ("plot", "reliability") if name == "plot" else ("report",))
    code, _, err = calibsft(command, *more, "r.csv")
    assert code == 0
    becomes = {
        "certify": "count as never confident",
        "route": "count as never confident",
        "diagnose": "are left out of the prior",
    }
    assert err.splitlines()[0] == (
        "warning: r.csv: 3 of 40 rows have no readable confidence (the first is row 1: 'hm') and"
        f" {becomes.get(name, 'count as 0')}; --malformed drop leaves them out, error refuses the file, and counted keeps"
        " them without a warning"
    )
    assert err.count("warning") == 2
    code, _, err = calibsft(command, *more, "r.csv", "--malformed", "counted")
    assert code == 0 and "warning" not in err
    code, _, err = calibsft(command, *more, "r.csv", "--malformed", "drop")
    assert code == 0 and "warning" not in err
    code, _, err = calibsft(command, *more, "r.csv", "--malformed", "error")
    assert code == 2 and "row 1: confidence 'hm' is not a number" in err
