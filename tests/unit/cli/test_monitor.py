"""`calibsft monitor` at the command line: what it counts, prints and refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.decisions.policy import read_policy
from calibsft.monitoring import watch
from command import Command
from gateway_process import policy_file


def responses(wrong: float, questions: int = 1500) -> pl.DataFrame:
    """Responses that err so often; a quarter is below 0.50, and every tenth has no confidence."""
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "question_id": [f"q{i}" for i in range(questions)],
            "confidence": (0.34 + 0.66 * random.random(questions)).round(2),
            "correct": random.random(questions) >= wrong,
            "strong_correct": random.random(questions) < 0.9,
        }
    ).with_columns(confidence=pl.when(pl.int_range(questions) % 10 > 0).then("confidence"))


@pytest.fixture
def abstains(tmp_path: Path) -> Path:
    return policy_file(tmp_path, otherwise="abstain")


@pytest.fixture
def defers(tmp_path: Path) -> Path:
    return policy_file(tmp_path)


def monitored(calibsft: Command, *arguments: object) -> dict[str, Any]:
    code, out, err = calibsft("monitor", *arguments, "--malformed", "counted", "--json")
    assert (code, err) == (0, ""), err
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_has_the_counts_the_bound_the_e_value_and_where_the_alarm_is(
    calibsft: Command, abstains: Path
) -> None:
    rows = responses(0.2)
    rows.drop("strong_correct").write_csv("r.csv")
    found = monitored(calibsft, "r.csv", "--policy", abstains)
    watched = watch(rows["confidence"], rows["correct"], read_policy(abstains))
    state, at = watched.state, watched.alarm_index
    assert at is not None and 0 < at < 1000 and 500 < state.labels < 1400
    assert found == {
        "policy": read_policy(abstains).id,
        "otherwise": "abstain",
        "budget": 0.1,
        "delta": 0.05,
        "questions": 1500,
        "labels": state.labels,
        "events": state.events,
        "rate": state.events / state.labels,
        "lower_bound": state.lower_bound,
        "e_value": state.e_value,
        "alarm": {"label": state.alarmed_at, "row": at + 1, "question_id": f"q{at}"},
        "repeated": 0,
        "left_out": 0,
    }


def test_a_policy_that_defers_is_watched_with_both_models(calibsft: Command, defers: Path) -> None:
    rows = responses(0.2)
    rows.rename({"correct": "local_correct"}).write_csv("b.csv")
    rows.drop("strong_correct").write_csv("r.csv")
    rows.select("question_id", correct="strong_correct").reverse().write_csv("s.csv")
    found = monitored(calibsft, "b.csv", "--policy", defers)
    kept = (rows["confidence"] >= 0.5).fill_null(False)
    assert (found["otherwise"], found["labels"]) == ("defer", 1500)
    assert found["events"] == (kept & ~rows["correct"] & rows["strong_correct"]).sum()
    assert found["alarm"] is not None
    assert monitored(calibsft, "r.csv", "--strong", "s.csv", "--policy", defers) == found


def test_text_says_what_is_promised_what_is_known_and_whether_there_is_an_alarm(
    calibsft: Command, abstains: Path, defers: Path
) -> None:
    for wrong, alarmed in ((0.2, True), (0.05, False)):
        responses(wrong).drop("strong_correct").write_csv("r.csv")
        found = monitored(calibsft, "r.csv", "--policy", abstains)
        code, out, _ = calibsft("monitor", "r.csv", "--policy", abstains)
        lines, rate, bound = (
            out.splitlines(),
            *(f"{100 * found[key]:.1f} %" for key in ("rate", "lower_bound")),
        )
        assert code == 0
        assert (
            lines[0]
            == f"policy {found['policy']}: at most 10 % of the answers given are wrong with probability 0.95 or more"
        )
        counts = f"{found['labels']:,} of them answered, {found['events']:,} wrong"
        assert lines[1] == f"1,500 labelled questions, {counts}"
        assert lines[2] == f"{rate} wrong, and at least {bound} with probability 0.95 or more"
        assert lines[3] == f"e-value {found['e_value']:.3g}; an alarm begins at 20"
        if alarmed:
            place = "label {label}, row {row}, question_id {question_id}".format(**found["alarm"])
            assert lines[4].startswith(f"ALARM at {place}: more is wrong than the budget allows; ")
        else:
            assert lines[4:] == ["no alarm"]
    responses(0.05).rename({"correct": "local_correct"}).write_csv("b.csv")
    _, out, _ = calibsft("monitor", "b.csv", "--policy", defers)
    assert out.startswith(
        f"policy {read_policy(defers).id}: at most 10 % of accuracy is lost with probability 0.95 or more\n"
    )


def test_of_several_responses_to_a_question_the_first_counts_whatever_follows(
    calibsft: Command, abstains: Path
) -> None:
    rows = responses(0.2, 600).drop("strong_correct")
    rows.write_csv("once.csv")
    once = monitored(calibsft, "once.csv", "--policy", abstains)
    again = rows.with_columns(confidence=pl.lit(0.99), correct=pl.lit(False))
    for more in (rows, again):
        pl.concat([rows, more, more]).write_csv("thrice.csv")
        thrice = monitored(calibsft, "thrice.csv", "--policy", abstains)
        assert thrice == once | {"repeated": 1200}
    assert "left out: 1,200 further responses" in calibsft("monitor", "thrice.csv", "--policy", abstains)[1]


def test_an_alarm_stays_at_its_row_when_more_labels_are_appended(calibsft: Command, abstains: Path) -> None:
    rows = responses(0.25, 900).drop("strong_correct")
    rows.write_csv("r.csv")
    alarm = monitored(calibsft, "r.csv", "--policy", abstains)["alarm"]
    pl.concat([rows, rows.with_columns(question_id="z" + pl.col("question_id"), correct=True)]).write_csv(
        "longer.csv"
    )
    found = monitored(calibsft, "longer.csv", "--policy", abstains)
    assert alarm is not None and found["alarm"] == alarm and found["events"] > 0


def test_rows_are_those_of_the_file_whatever_is_left_out_before_them(
    calibsft: Command, abstains: Path
) -> None:
    worse = responses(0.9, 60).drop("strong_correct").with_columns(confidence=pl.lit(0.9), model=pl.lit("b"))
    others = worse.with_columns(
        question_id="a" + pl.col("question_id"), model=pl.lit("a"), correct=pl.lit(True)
    )
    pl.concat([others, worse]).write_csv("m.csv")
    alone = monitored(calibsft, "m.csv", "--policy", abstains, "--where", "model=b")
    assert alone["questions"] == 60
    assert alone["alarm"]["row"] == 60 + alone["alarm"]["label"]
    worse.drop("model").with_columns(grade=pl.lit("x")).write_csv("w.csv")
    whole = Path("w.csv").read_text().splitlines()
    Path("w.csv").write_text("\n".join([whole[0], "none,0.9,,x", *whole[1:]]))
    found = monitored(calibsft, "w.csv", "--policy", abstains)
    assert found["left_out"] == 1 and found["alarm"]["row"] == 1 + found["alarm"]["label"]
    renamed = {"correct": "local_correct"}
    both = worse.rename(renamed).with_columns(strong_correct=pl.lit(True))
    pl.concat([others.rename(renamed).with_columns(strong_correct=pl.lit(True)), both]).write_csv("b.csv")
    found = monitored(calibsft, "b.csv", "--policy", policy_file(Path()), "--where", "model=b")
    assert found["alarm"]["row"] == 60 + found["alarm"]["label"]


def test_where_a_policy_answers_nothing_there_is_nothing_to_count(calibsft: Command, tmp_path: Path) -> None:
    responses(0.9).drop("strong_correct").write_csv("r.csv")
    never = policy_file(tmp_path, otherwise="abstain", threshold=None)
    found = monitored(calibsft, "r.csv", "--policy", never)
    assert (found["labels"], found["rate"], found["e_value"], found["alarm"]) == (0, None, 1, None)
    assert "no alarm" in calibsft("monitor", "r.csv", "--policy", never)[1]


def test_rows_without_a_confidence_are_warned_of_as_in_certify(calibsft: Command, abstains: Path) -> None:
    responses(0.1).drop("strong_correct").write_csv("r.csv")
    code, _, err = calibsft("monitor", "r.csv", "--policy", abstains)
    assert code == 0 and "150 of 1,500 rows have no readable confidence" in err


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("r.csv",), "Missing option '--policy'"),
        (("none.csv", "--policy", "abstain.json"), "none.csv: no such file"),
        (("r.csv", "--policy", "none.json"), "none.json: cannot be read (No such file or directory)"),
        (("r.csv", "--policy", "r.csv"), "r.csv: not JSON; write it again with calibsft certify or route"),
        (("b.csv", "--policy", "abstain.json"), "b.csv: column 'correct' is missing"),
        (("r.csv", "--policy", "defer.json"), "one model's responses; give the strong model's"),
        (("r.csv", "--policy", "abstain.json", "--strong", "r.csv"), "this one abstains; leave it out"),
        (("r.csv", "--policy", "abstain.json", "--where", "x=1"), "column 'x' is missing"),
        (("r.csv", "--policy", "abstain.json", "--malformed", "skip"), "unknown policy for malformed"),
        (("word.csv", "--policy", "abstain.json"), "row 1: correct 'maybe' is neither true nor false"),
        (("header.csv", "--policy", "abstain.json"), "header.csv: the file has no rows"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(
    calibsft: Command, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    rows = responses(0.1, 20).drop_nulls()
    rows.drop("strong_correct").write_csv("r.csv")
    rows.rename({"correct": "local_correct"}).write_csv("b.csv")
    Path("word.csv").write_text("question_id,confidence,correct\nq,0.9,maybe\n")
    Path("header.csv").write_text("question_id,confidence,correct\n")
    for otherwise in ("abstain", "defer"):
        policy_file(tmp_path, otherwise=otherwise).rename(f"{otherwise}.json")
    code, out, err = calibsft("monitor", *arguments)
    assert (code, out) == (2, ""), err
    assert told in err and err.count("\n") == 1 and "unexpected" not in err
