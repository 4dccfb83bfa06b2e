"""Estimators side by side in `calibsft eval`: what is left, what is shown, and what is refused at once."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from calibsft.engines import default_engine, load_engine
from calibsft.errors import InputError
from calibsft.estimators import ESTIMATORS, choose_estimators
from calibsft.estimators.token_probability import TOKEN_PROBABILITY
from calibsft.estimators.verbalized import VERBALIZED
from calibsft.evaluation import Benchmarks, evaluate_with, read_estimators
from calibsft.evaluation.settings import EvalSettings
from calibsft.metrics import score_table
from calibsft.pipeline import load_checked
from calibsft.recipe import load_recipe
from calibsft.responses.actionable import actionable
from calibsft.responses.formats import FORMATS, get_format
from calibsft.responses.prompts import Prompting
from calibsft.rollouts.collect import make_collector
from command import Command

ALL = "verbalized,token-probability,self-consistency"
EVAL = (
    "eval", "--benchmarks", "cross,multiply-1", "--limit", 4, "-n", 3, "--device", "cpu", "--max-new-tokens", 30,
    "--temperature", 1, "--out", "e",
)  # fmt: skip


def test_all_estimators_are_scored_side_by_side(calibsft: Command, short_base: Path) -> None:
    code, out, err = calibsft(*EVAL, "--model", short_base, "--estimators", ALL, "--json")
    assert code == 0, err
    found = json.loads(out)
    stated, digits, vote = found["estimators"]
    assert [part["estimator"] for part in found["estimators"]] == ALL.split(",")
    assert stated["overall"] == found["overall"] and stated["splits"] == found["splits"]
    assert digits["overall"]["n"] == stated["overall"]["n"] == 24 and vote["overall"]["n"] == 8
    assert digits["overall"]["pass@1"] == stated["overall"]["pass@1"]
    assert set(vote["datasets"]) == {"cross", "multiply-1"} and {"id", "ood"} <= set(vote["splits"])
    assert read_estimators(Path("e")) == found["estimators"]
    for name in ("token-probability", "self-consistency"):
        rows = pl.read_parquet(f"e/estimators/{name}.parquet")
        scored = json.loads(json.dumps(score_table(rows.drop_nulls("correct"))))
        assert {"estimator": name, **scored} in found["estimators"]


def test_only_a_confidence_to_act_on_has_a_token_probability(calibsft: Command, short_base: Path) -> None:
    assert calibsft(*EVAL, "--model", short_base, "--estimators", "token-probability", "--limit", 20)[0] == 0
    rows = pl.read_parquet("e/rows.parquet")
    found = pl.read_parquet("e/estimators/token-probability.parquet")
    assert found.select("dataset", "question_id", "sample", "split", "correct").equals(
        rows.select("dataset", "question_id", "sample", "split", "correct")
    )
    has_one = actionable(rows).is_not_null()
    assert has_one.to_list() == found["confidence"].is_not_null().to_list()
    assert has_one.n_unique() == 2
    assert found["confidence"].drop_nulls().is_between(0.05, 0.95).all()
    digits = pl.read_parquet("e/estimators/digits/part-*.parquet")
    assert digits["probabilities"].list.sum().to_numpy() == pytest.approx(1.0)


def test_they_are_shown_below_the_scores_and_skipped_when_done(calibsft: Command, short_base: Path) -> None:
    arguments = (*EVAL, "--model", short_base, "--estimators", "self-consistency")
    code, out, _ = calibsft(*arguments)
    table = [line.split() for line in out.split("\n\n")[1].splitlines()]
    assert code == 0
    assert table[0] == ["estimator", "n", "Pass@1", "AUROC", "Brier", "ECE", "eff.supp."]
    assert [(row[0], row[1]) for row in table[1:]] == [("verbalized", "24"), ("self-consistency", "8")]
    code, again, err = calibsft(*arguments)
    assert code == 0 and again == out and "skipped" in err
    code, _, err = calibsft(*arguments[:-1], "token-probability")
    assert code == 2 and "eval.estimators was ['self-consistency']" in err


def test_without_other_estimators_nothing_is_left(calibsft: Command, short_base: Path) -> None:
    code, out, _ = calibsft(*EVAL, "--model", short_base, "--json")
    assert code == 0 and json.loads(out)["estimators"] == [] == read_estimators(Path("e"))
    assert not Path("e/estimators").exists() and not Path("e/estimators.json").exists()


def test_a_killed_evaluation_asks_for_no_probability_twice(calibsft: Command, short_base: Path) -> None:
    arguments = (*EVAL, "--model", short_base, "--estimators", "token-probability")
    assert calibsft(*arguments)[0] == 0
    before = Path("e/estimators/token-probability.parquet").read_bytes()
    parts = {part: part.stat().st_mtime_ns for part in Path("e/estimators/digits").iterdir()}
    for lost in ("e/manifest.json", "e/estimators.json", "e/estimators/token-probability.parquet"):
        Path(lost).unlink()
    code, _, err = calibsft(*arguments)
    assert code == 0 and "were done before" in err, err
    assert {part: part.stat().st_mtime_ns for part in Path("e/estimators/digits").iterdir()} == parts
    assert Path("e/estimators/token-probability.parquet").read_bytes() == before


def test_any_estimator_that_asks_the_model_may_ask_a_served_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    served = {"estimators": ("other",), "estimator_url": "http://h/v1"}
    monkeypatch.setitem(ESTIMATORS, "other", replace(VERBALIZED, name="other"))
    with pytest.raises(ValueError, match="means nothing without the estimator token-probability"):
        EvalSettings(**served)
    monkeypatch.setitem(ESTIMATORS, "other", replace(VERBALIZED, name="other", asks_model=True))
    assert EvalSettings(**served).estimator_url == "http://h/v1"
    with pytest.raises(ValueError, match="without the estimator token-probability or other"):
        EvalSettings(estimator_url="http://h/v1")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--estimators", "verbalised"), "unknown estimator 'verbalised'; did you mean 'verbalized'?"),
        (("--estimators", "token-probability", "--format", "integer"), "not for 'integer'"),
        (("--estimators", "self-consistency,self-consistency"), "names an estimator twice"),
        (("--estimator-url", "http://h/v1"), "means nothing without the estimator token-probability"),
        (
            ("--estimators", "token-probability", "--estimator-model", "m"),
            "nothing without eval.estimator_url",
        ),
        (
            ("--estimators", "token-probability", "--estimator-url", "http://u:secret@h/v1"),
            "eval.estimator_url must be a plain address such as http://localhost:8000/v1",
        ),
    ],
)
def test_what_cannot_be_estimated_is_refused_before_the_model_is_loaded(
    calibsft: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = calibsft(*EVAL, "--model", "no-such-model", *arguments)
    assert code == 2 and not out and message in err and err.count("\n") == 1, err
    assert not Path("e").exists() and "secret" not in err


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["eval.estimators=[token]"], "unknown estimator 'token'"),
        (["eval.estimators=[token-probability]", "format=linguistic"], "not for 'linguistic'"),
        (["eval.estimators=[token-probability]", "pipelines=[[calibsft], [c3rl]]"], "not for 'integer'"),
        (
            [
                "eval.estimators=[token-probability]",
                "eval.estimator_url=http://h/v1",
                "eval.estimator_model=m",
            ],
            "eval.estimator_model is the name of one model and the run evaluates several",
        ),
    ],
)
def test_a_recipe_is_refused_before_it_runs(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_checked("tiny", overrides)


def test_a_recipe_can_name_all_estimators() -> None:
    recipe = load_recipe("tiny", ["eval.estimators=[self-consistency, token-probability]"])
    assert recipe.eval.estimators == ("self-consistency", "token-probability")
    assert load_recipe("tiny").eval.estimators == (VERBALIZED.name,)


def test_the_verbalized_one_is_always_the_first() -> None:
    names = [e.name for e in choose_estimators(("self-consistency", "verbalized"), get_format("integer"))]
    assert names == ["verbalized", "self-consistency"]


def test_the_settings_know_the_names_of_the_estimators() -> None:
    assert {VERBALIZED.name, TOKEN_PROBABILITY.name} < set(ESTIMATORS)
    assert all(name == estimator.name for name, estimator in ESTIMATORS.items())
    assert all(set(estimator.formats) <= set(FORMATS) for estimator in ESTIMATORS.values())


def test_evaluations_on_the_way_of_training_are_of_stated_confidences_alone(
    short_base: Path, tmp_path: Path
) -> None:
    settings = EvalSettings(
        benchmarks=("cross",), limit=2, samples=2, max_new_tokens=30, estimators=("self-consistency",)
    )
    engine = load_engine(default_engine(), str(short_base), "cpu")
    collector = make_collector(engine, Prompting(get_format("probability")), settings, 0)
    evaluate_with(collector, settings, tmp_path, "test", Benchmarks(settings))
    assert (tmp_path / "rows.parquet").is_file() and read_estimators(tmp_path) == []
