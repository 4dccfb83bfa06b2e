"""`calibsft certify` and `calibsft route` at the command line: what they print, write and refuse."""

import json
import math
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.decisions import answered_held_out, certify, route, routed_held_out
from calibsft.decisions.policy import read_policy
from command import Command

CERTIFY, ROUTE = ("certify", "r.csv", "--risk", "0.25"), ("route", "b.csv", "--epsilon", "0.05")


def responses(questions: int = 900, samples: int = 1) -> pl.DataFrame:
    """A calibrated local model and a strong one, some rows without a confidence, in two datasets with the same ids."""
    random = np.random.default_rng(0)
    n = questions * samples
    stated = random.integers(0, 101, n)
    return pl.DataFrame(
        {
            "dataset": ["a", "b"] * (n // 2),
            "question_id": [str(i // (2 * samples)) for i in range(n)],
            "confidence": stated / 100,
            "correct": random.random(n) < stated / 100,
            "strong_correct": random.random(n) < 0.9,
            "strong_tokens": random.integers(1, 500, n),
            "well_formed": random.random(n) < 0.95,
        }
    )


def both(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.rename({"correct": "local_correct"})


@pytest.fixture
def rows(calibsft: Command, tmp_path: Path) -> pl.DataFrame:
    """The responses, also as files in the folder where the command runs; read as the command should read them."""
    found = responses()
    found.write_csv(tmp_path / "r.csv")
    both(found).write_csv(tmp_path / "b.csv")
    return found.with_columns(
        confidence=pl.when("well_formed").then("confidence"), question=pl.struct("dataset", "question_id")
    )


def decided(calibsft: Command, *arguments: object) -> dict[str, Any]:
    code, out, err = calibsft(*arguments, "--json", "--force")
    assert (code, err) == (0, ""), err
    found: dict[str, Any] = json.loads(out)
    return found


def spread(values: list[float]) -> dict[str, Any]:
    return {"mean": pytest.approx(mean(values)), "sd": pytest.approx(pstdev(values))}


# What is printed


@pytest.mark.parametrize("procedure", ["union", "fixed-sequence"])
def test_json_of_certify_is_the_certificate_of_the_file_and_its_held_out_halves(
    calibsft: Command, rows: pl.DataFrame, procedure: str
) -> None:
    found = decided(calibsft, *CERTIFY, "--procedure", procedure, "--splits", 4, "--delta", 0.1, "--seed", 5)
    columns = rows["confidence"], rows["correct"], rows["question"]
    certificate = certify(*columns, 0.25, 0.1, procedure)
    assert list(found) == [
        "risk", "delta", "procedure", "threshold", "questions", "candidates", "needed",
        "coverage", "perfect_ranking", "promise", "held_out", "slices", "left_out", "policy", "warnings",
    ]  # fmt: skip
    assert (found["risk"], found["delta"], found["procedure"]) == (0.25, 0.1, procedure)
    assert (found["threshold"], found["questions"]) == (certificate.threshold, 900)
    assert 0.3 < found["threshold"] < 0.9 and found["needed"] is None
    assert found["promise"] == "at most 25 % of the answers given are wrong with probability 0.9 or more"
    answered = rows.filter(pl.col("confidence") >= found["threshold"])
    assert found["coverage"] == len(answered) / 900
    assert found["candidates"][round(100 * found["threshold"])] == {
        "threshold": found["threshold"],
        "accepted": len(answered),
        "errors": (~answered["correct"]).sum(),
        "error_rate": pytest.approx(1 - answered["correct"].mean()),
        "bound": pytest.approx(certificate.chosen.bound),
        "passes": True,
    }
    assert [c["threshold"] for c in found["candidates"]] == [k / 100 for k in range(101)]
    assert found["perfect_ranking"] == pytest.approx(min(1, rows["correct"].mean() / 0.75))
    halves = answered_held_out(*columns, [0.25], 0.1, procedure, 4, 5)
    assert found["held_out"] == {
        "splits": 4,
        "coverage": spread(halves.coverage[:, 0].tolist()),
        "risk": spread([risk for risk in halves.risk[:, 0].tolist() if not math.isnan(risk)]),
    }


def test_json_of_route_is_the_route_of_the_file_and_its_held_out_halves(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    found = decided(calibsft, *ROUTE, "--splits", 3, "--seed", 2)
    columns = rows["confidence"], rows["correct"], rows["strong_correct"], rows["question"]
    expected = route(*columns, 0.05, strong_tokens=rows["strong_tokens"])
    assert list(found) == [
        "epsilon", "guarantee", "delta", "procedure", "threshold", "questions", "outcome", "candidates", "needed",
        "promise", "held_out", "slices", "left_out", "policy", "warnings",
    ]  # fmt: skip
    assert (found["epsilon"], found["delta"], found["procedure"]) == (0.05, 0.05, "union")
    assert (found["threshold"], found["questions"]) == (expected.threshold, 900)
    assert 0 < found["threshold"] < 1 and found["guarantee"] == "high-probability"
    kept = (rows["confidence"] >= found["threshold"]).fill_null(False)
    right = kept & rows["correct"] | ~kept & rows["strong_correct"]
    assert found["outcome"] == {
        "deferred": pytest.approx((~kept).mean()),
        "accuracy": pytest.approx(right.mean()),
        "gross_loss": pytest.approx((kept & ~rows["correct"] & rows["strong_correct"]).mean()),
        "net_loss": pytest.approx(rows["strong_correct"].mean() - right.mean()),
        "tokens_saved": pytest.approx(rows["strong_tokens"].filter(kept).sum() / rows["strong_tokens"].sum()),
    }
    assert list(found["candidates"][0]) == ["threshold", "kept", "events", "event_rate", "bound", "passes"]
    halves = routed_held_out(*columns, 0.05, strong_tokens=rows["strong_tokens"], halves=3, seed=2)
    names = ["deferred", "accuracy", "gross_loss", "net_loss", "tokens_saved"]
    expected_halves = {name: spread([getattr(outcome, name) for outcome in halves]) for name in names}
    assert found["held_out"] == {"splits": 3, **expected_halves}


def test_text_of_certify_says_when_to_answer_on_what_guarantee_and_what_it_does(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    found = decided(calibsft, *CERTIFY)
    code, out, err = calibsft(*CERTIFY, "--force")
    assert (code, err) == (0, "")
    lines, threshold = out.splitlines(), f"{found['threshold']:.2f}"
    assert lines[0] == f"answer where the confidence is at least {threshold}"
    assert lines[1] == "error rate at most 25.0 % with probability 0.95 or more (union, 900 questions)"
    reached, held_out = round(100 * found["threshold"]), found["held_out"]
    chosen = found["candidates"][reached]
    assert lines[2] == (
        f"answers {100 * found['coverage']:.1f} % of these questions, {100 * chosen['error_rate']:.1f} % of them wrong;"
        f" the bound is {100 * chosen['bound']:.1f} %"
    )
    assert lines[3].endswith(f"could answer {100 * found['perfect_ranking']:.1f} %")
    mean_and_sd = [
        f"{100 * held_out[key]['mean']:.1f} ± {100 * held_out[key]['sd']:.1f} %"
        for key in ("coverage", "risk")
    ]
    assert lines[4].startswith("held out, mean ± sd over 10 random halves: ")
    assert lines[4].endswith(f"answers {mean_and_sd[0]}, {mean_and_sd[1]} of them wrong")
    table = lines[7 : lines.index("", 7)]
    shown = [line.split()[0] for line in table]
    expected = {*range(0, 101, 10), reached, reached - 1}
    assert shown == [f"{t // 100}.{t % 100:02d}" for t in sorted(expected)]
    marks = {line.split()[0]: line.split()[-1] for line in table}
    assert marks[threshold] == "yes" and marks["0.00"] == "no"
    assert lines[-1].startswith(
        f"policy {read_policy(Path('policy.json')).id}: policy.json: at most 25 % of the answers given are wrong"
    )
    assert "calibsft serve --policy policy.json --local URL answers or abstains" in lines[-1]


def test_text_of_route_says_what_to_keep_and_what_that_costs_and_saves(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    found = decided(calibsft, *ROUTE)
    _, out, _ = calibsft(*ROUTE, "--force")
    lines, outcome = out.splitlines(), {k: f"{100 * v:.1f} %" for k, v in found["outcome"].items()}
    assert lines[0] == f"keep where the confidence is at least {found['threshold']:.2f}"
    assert lines[1] == "accuracy lost at most 5.0 % with probability 0.95 or more (union, 900 questions)"
    assert lines[2] == (
        f"these questions: {outcome['deferred']} deferred, {outcome['tokens_saved']} of the strong model's tokens saved,"
        f" accuracy {outcome['accuracy']}"
    )
    assert f"{outcome['gross_loss']} gross, {outcome['net_loss']} net" in lines[3]
    assert lines[4] == "held out, mean ± sd over 10 random halves:"
    for name in ("deferred", "tokens_saved", "accuracy", "gross_loss", "net_loss"):
        held = found["held_out"][name]
        assert f"{100 * held['mean']:.1f} ± {100 * held['sd']:.1f} %" in lines[5]
    assert "--local URL --strong URL answers or defers" in lines[-1]


def test_where_nothing_is_certified_both_say_so_and_the_policy_has_no_threshold(
    calibsft: Command, tmp_path: Path, rows: pl.DataFrame
) -> None:
    wrong = rows.drop("question").with_columns(correct=False, strong_correct=True)
    wrong.write_csv(tmp_path / "r.csv")
    both(wrong).with_columns(confidence=1.0, well_formed=True).write_csv(tmp_path / "b.csv")
    for command, told, below in (
        (CERTIFY, "abstain on everything", "abstain"),
        (ROUTE, "defer everything", "defer"),
    ):
        assert decided(calibsft, *command, "--malformed", "counted")["threshold"] is None
        policy = read_policy(tmp_path / "policy.json")
        assert (policy.threshold, policy.otherwise) == (None, below)
        _, out, _ = calibsft(*command, "--malformed", "counted", "--force")
        assert out.splitlines()[0] == f"nothing can be certified: {told}"
    found = decided(calibsft, *CERTIFY, "--malformed", "counted")
    assert (found["coverage"], found["held_out"]["risk"]) == (0.0, None)


@pytest.mark.parametrize("risk, fewest", [(0.1, 73), (0.2, 35), (0.05, 149)])
def test_so_many_questions_without_an_error_are_certified_and_not_one_fewer(
    calibsft: Command, tmp_path: Path, risk: float, fewest: int
) -> None:
    for count, threshold in ((fewest, 0), (fewest - 1, None)):
        lines = [f"{i},0.9,1" for i in range(count)]
        (tmp_path / "r.csv").write_text("\n".join(["question_id,confidence,correct", *lines]))
        assert decided(calibsft, "certify", "r.csv", "--risk", risk, "--splits", 0)["threshold"] == threshold


def test_without_splits_or_with_a_single_question_nothing_is_held_out(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    rows.drop("question").head(1).write_csv("one.csv")
    both(rows.drop("question").head(1)).write_csv("one-both.csv")
    for command in (
        (*CERTIFY, "--splits", 0),
        (*ROUTE, "--splits", 0),
        ("certify", "one.csv", "--risk", 0.1),
        ("route", "one-both.csv", "--epsilon", 0.1),
    ):
        assert decided(calibsft, *command)["held_out"] is None
        code, out, _ = calibsft(*command, "--force")
        assert code == 0 and "held out" not in out
    once = decided(calibsft, *CERTIFY, "--splits", 1)["held_out"]
    assert once["splits"] == 1 and once["coverage"]["sd"] == 0


# Several responses per question


def test_of_several_responses_per_question_one_counts_a_random_one_by_default(
    calibsft: Command, tmp_path: Path
) -> None:
    rows = responses(300, 4).drop("well_formed").sample(fraction=1, shuffle=True, seed=1)
    rows.write_csv(tmp_path / "r.csv")
    both(rows).write_csv(tmp_path / "b.csv")
    rows.unique(["dataset", "question_id"], keep="first", maintain_order=True).write_csv(
        tmp_path / "first.csv"
    )
    first = decided(calibsft, *CERTIFY, "--per-question", "first")
    by_hand = decided(calibsft, "certify", "first.csv", "--risk", "0.25")
    assert first["candidates"] == by_hand["candidates"] and first["questions"] == 300
    # All responses count on held-out halves and in the reference.
    assert first["perfect_ranking"] == pytest.approx(min(1, rows["correct"].mean() / 0.75))
    columns = (
        rows["confidence"],
        rows["correct"],
        rows.select(pl.struct("dataset", "question_id")).to_series(),
    )
    halves = answered_held_out(*columns, [0.25], per_question="first")
    assert first["held_out"]["coverage"] == spread(halves.coverage[:, 0].tolist())
    for command in (CERTIFY, ROUTE):
        drawn = [
            decided(calibsft, *command, *choice, "--seed", seed)
            for choice, seed in (((), 0), (("--per-question", "random"), 0), ((), 1))
        ]
        assert drawn[0] == drawn[1] and drawn[0]["candidates"] != drawn[2]["candidates"]
        assert drawn[0]["held_out"] != drawn[2]["held_out"]


def test_of_several_strong_responses_one_is_drawn_with_the_seed(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    strong = responses(900, 3).select("dataset", "question_id", "correct")
    strong.sample(fraction=1, shuffle=True, seed=0).write_csv("s.csv")
    command = ("route", "r.csv", "--strong", "s.csv", "--epsilon", "0.05", "--splits", 0)
    drawn = [decided(calibsft, *command, "--seed", seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] and drawn[0]["candidates"] != drawn[2]["candidates"]
    assert drawn[0]["outcome"]["tokens_saved"] is None


# Policies


def test_the_policy_says_what_was_decided_and_options_fill_in_what_a_file_does_not_know(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    found = decided(
        calibsft, *CERTIFY, "--policy", "new/p.json", "--model", "org/m", "--format", "linguistic", "--on-local-failure", "defer"
    )  # fmt: skip
    policy = read_policy(tmp_path / "new/p.json")
    assert (found["policy"], policy.threshold, policy.risk) == ("new/p.json", found["threshold"], 0.25)
    assert (policy.model, policy.format, policy.on_local_failure) == ("org/m", "linguistic", "defer")
    assert (policy.n, policy.never_confident, policy.sampling) == (900, rows["confidence"].null_count(), None)
    assert sum(policy.confidences.values()) + policy.never_confident == 900
    assert not (tmp_path / "policy.json").exists()
    found = decided(calibsft, *ROUTE)
    policy = read_policy(tmp_path / "policy.json")
    assert (policy.otherwise, policy.epsilon, policy.threshold) == ("defer", 0.05, found["threshold"])
    assert policy.on_local_failure == "defer"


def test_a_file_that_is_no_policy_is_left_alone(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    before = (tmp_path / "r.csv").read_bytes()
    for force in ((), ("--force",)):
        code, out, err = calibsft(*CERTIFY, "--policy", "r.csv", *force)
        assert (code, out) == (2, "") and "exists and is not a policy" in err
    assert (tmp_path / "r.csv").read_bytes() == before


@pytest.mark.parametrize("command", [CERTIFY, ROUTE])
def test_an_earlier_policy_is_replaced_only_by_force(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path, command: tuple[str, ...]
) -> None:
    policy = tmp_path / "policy.json"
    assert calibsft(*command)[0] == 0
    before = policy.read_bytes()
    code, out, err = calibsft(*command, "--delta", 0.2)
    assert (code, out) == (2, "") and err.endswith("or replace it with --force\n") and err.count("\n") == 1
    assert policy.read_bytes() == before
    assert calibsft(*command, "--delta", 0.2, "--force")[0] == 0
    assert read_policy(policy).delta == 0.2


@pytest.fixture
def evaluated(calibsft: Command, short_base: Path) -> Path:
    code, _, err = calibsft(
        "eval", "--model", short_base, "--benchmarks", "multiply-1,cross", "--limit", 15, "--samples", 3,
        "--max-new-tokens", 30, "--temperature", 0.8, "--device", "cpu", "--out", "e",
    )  # fmt: skip
    assert code == 0, err
    return short_base


def test_an_evaluation_and_its_verdicts_are_calibrated_on_with_what_they_know(
    calibsft: Command, evaluated: Path, tmp_path: Path
) -> None:
    code, _, err = calibsft("verify", "e/rollouts", "--out", "v")
    assert code == 0, err
    choice = ("--risk", 0.5, "--per-question", "first", "--malformed", "counted")
    found = decided(calibsft, "certify", "e", *choice, "--policy", "e.json")
    same = decided(calibsft, "certify", "v", *choice, "--policy", "v.json")
    assert found["candidates"] == same["candidates"] and found["questions"] == 30
    policy, verdicts = read_policy(tmp_path / "e.json"), read_policy(tmp_path / "v.json")
    assert (policy.model, policy.format) == (str(evaluated), "probability")
    assert policy.sampling is not None and verdicts.sampling is None and verdicts.model is None
    assert (policy.sampling.temperature, policy.sampling.max_tokens) == (0.8, 30)
    assert policy.data_hash != verdicts.data_hash
    # Against itself no question is lost, whatever is kept, and tokens are those of the rollouts.
    routed = decided(
        calibsft, "route", "e", "--strong", "e", "--epsilon", 0.2, "--per-question", "first", "--procedure", "fixed-sequence",
        "--malformed", "counted",
    )  # fmt: skip
    assert routed["outcome"]["gross_loss"] == routed["outcome"]["net_loss"] == 0
    first = pl.read_parquet("e/rollouts/part-*.parquet").filter(pl.col("sample") == 0)
    acted_on = pl.col("confidence").is_not_null() & pl.col("reason").is_in(["ok", "bad_confidence"])
    kept = pl.read_parquet("e/rows.parquet").filter(pl.col("sample") == 0, acted_on)
    lengths = first.with_columns(tokens=pl.col("token_ids").list.len())
    saved = lengths.join(kept, on=["dataset", "question_id"], how="semi")["tokens"].sum()
    assert routed["threshold"] == 0
    assert routed["outcome"]["tokens_saved"] == pytest.approx(saved / lengths["tokens"].sum())


# What is refused


FILES = {
    "empty.csv": "",
    "header.csv": "question_id,confidence,correct\n",
    "no-id.csv": "id,confidence,correct\n1,0.5,1\n",
    "no-correct.csv": "question_id,confidence,right\n1,0.5,1\n",
    "no-confidence.csv": "question_id,confidense,correct\n1,0.5,1\n",
    "word.csv": "question_id,confidence,correct\n1,0.5,1\n2,0.6,maybe\n",
    "sure.csv": "question_id,confidence,correct\n1,0.5,1\n2,\x1b[31msure,1\n",
    "text.txt": "hello",
    "no-strong.csv": "question_id,confidence,local_correct\n1,0.5,1\n",
    "no-stated.csv": "question_id,local_correct,strong_correct\n1,1,1\n",
    "both-word.csv": "question_id,confidence,local_correct,strong_correct\n1,0.5,maybe,1\n",
    "both-sure.csv": "question_id,confidence,local_correct,strong_correct\n1,sure,1,1\n",
    "tokens.csv": "question_id,confidence,local_correct,strong_correct,strong_tokens\n1,0.5,1,1,-3\n",
    "less.csv": "dataset,question_id,correct\na,0,1\n",
    "broken.jsonl": '{"question_id": 1,\n',
}


def certifying(file: str, *more: object) -> tuple[object, ...]:
    return ("certify", file, "--risk", 0.1, *more)


def routing(file: str, *more: object) -> tuple[object, ...]:
    return ("route", file, "--epsilon", 0.1, *more)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("certify", "r.csv"), "Missing option '--risk'"),
        (("route", "b.csv"), "Missing option '--epsilon'"),
        (("certify", "r.csv", "--risk", "0"), "risk is 0.0; give a number between 0 and 1"),
        (("certify", "r.csv", "--risk", "1"), "risk is 1.0; give a number between 0 and 1"),
        (("certify", "r.csv", "--risk", "nan"), "risk is nan; give a number between 0 and 1"),
        (("certify", "r.csv", "--risk", "ten"), "Invalid value for '--risk'"),
        (("route", "b.csv", "--epsilon", "-1"), "epsilon is -1.0; give a number between 0 and 1"),
        (certifying("r.csv", "--delta", 0), "delta is 0.0; give a number between 0 and 1"),
        (certifying("r.csv", "--procedure", "bonferroni"), "unknown procedure 'bonferroni' (known: union, fixed-sequence, recycled, split)"),
        (certifying("r.csv", "--per-question", "frist"), "'frist'; did you mean 'first'?"),
        (certifying("r.csv", "--splits", -1), "Invalid value for '--splits'"),
        (certifying("r.csv", "--seed", -1), "Invalid value for '--seed'"),
        (certifying("r.csv", "--malformed", "skip"), "unknown policy for malformed confidences 'skip'"),
        (routing("b.csv", "--malformed", "skip"), "unknown policy for malformed confidences 'skip'"),
        (certifying("r.csv", "--format", "percent"), "unknown confidence format 'percent'"),
        (certifying("r.csv", "--on-local-failure", "wait"), "unknown way to handle a local failure 'wait' (known: defer, error)"),
        (certifying("missing.csv"), "missing.csv: no such file"),
        (certifying("empty.csv"), "empty.csv: the file is empty"),
        (certifying("header.csv"), "header.csv: the file has no rows"),
        (certifying("no-id.csv"), "column 'question_id' is missing, but 'id' is there; add --columns question_id=id"),
        (certifying("no-correct.csv"), "column 'correct' is missing"),
        (certifying("no-confidence.csv"), "column 'confidence' is missing, but 'confidense' is there; add --columns confidence=confidense"),
        (certifying("word.csv"), "word.csv, row 2: correct 'maybe' is neither true nor false"),
        (certifying("sure.csv", "--malformed", "error"), "sure.csv, row 2: confidence '"),
        (certifying("text.txt"), "unknown file type '.txt'"),
        (certifying("broken.jsonl"), "broken.jsonl, row 1: not a JSON object"),
        (certifying("folder"), "a folder without part-*.parquet"),
        (routing("r.csv"), "these are one model's responses; give the strong model's"),
        (routing("no-strong.csv"), "column 'strong_correct' is missing"),
        (routing("no-stated.csv"), "column 'confidence' is missing"),
        (routing("both-word.csv"), "row 1: local_correct 'maybe' is neither true nor false"),
        (routing("both-sure.csv", "--malformed", "error"), "row 1: confidence 'sure' is not a number in [0, 1]; run with --malformed counted"),
        (routing("tokens.csv"), "row 1: strong_tokens '-3' is not a number of tokens"),
        (routing("r.csv", "--strong", "less.csv"), "less.csv: question 'b, 0' of r.csv is not there (899 such rows)"),
        (routing("r.csv", "--strong", "missing.csv"), "missing.csv: no such file"),
        (routing("b.csv", "--strong", "r.csv"), "b.csv: column 'correct' is missing"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_in_one_sentence_and_nothing_is_written(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path, arguments: tuple[object, ...], told: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    code, out, err = calibsft(*arguments)
    assert (code, out) == (2, ""), err
    assert told in err and err.count("\n") == 1 and "\x1b" not in err and "unexpected" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_rows_that_say_nothing_are_counted_as_left_out(calibsft: Command, tmp_path: Path) -> None:
    lines = [f"q{i},{'0.9' if i < 80 else 'high'},true" for i in range(83)]
    (tmp_path / "r.csv").write_text("question_id,confidence,correct\n" + "\n".join(lines))
    code, out, _ = calibsft("certify", "r.csv", "--risk", 0.1, "--malformed", "drop")
    assert code == 0 and "left out: 3 rows" in out
    counted = decided(calibsft, "certify", "r.csv", "--risk", 0.1, "--malformed", "counted")
    assert (counted["left_out"], counted["questions"]) == (0, 83)


def test_what_cannot_be_certified_is_not_told_as_a_guarantee(calibsft: Command, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("question_id,confidence,correct\na,0.9,true\nb,0.8,true\n")
    code, out, _ = calibsft("certify", "r.csv", "--risk", 0.1)
    assert code == 0 and "nothing can be certified" in out
    assert "\nwanted: error rate at most 10.0 %" in out


# Guarantees, parts and coverage


def test_an_error_rate_in_expectation_is_for_batches(calibsft: Command, rows: pl.DataFrame) -> None:
    code, _, err = calibsft(*CERTIFY, "--guarantee", "expectation")
    assert code == 2 and "for a batch of answers only, not by a threshold: calibsft select r.csv BATCH" in err
    code, _, err = calibsft(*CERTIFY, "--guarantee", "sure")
    assert code == 2 and "unknown guarantee 'sure' (known: high-probability, expectation)" in err


def test_a_route_in_expectation_keeps_more_and_says_what_it_promises(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    strict, found = decided(calibsft, *ROUTE), decided(calibsft, *ROUTE, "--guarantee", "expectation")
    assert found["threshold"] < strict["threshold"] and found["delta"] is None
    assert found["procedure"] == "conformal-risk-control"
    assert found["promise"] == (
        "at most 5 % of accuracy is lost on average over calibrations, but after a single one it may be more"
    )
    policy = read_policy(Path("policy.json"))
    assert (policy.guarantee, policy.delta, policy.promise) == ("expectation", None, found["promise"])
    _, out, _ = calibsft(*ROUTE, "--guarantee", "expectation", "--force")
    assert "accuracy lost at most 5.0 % on average over calibrations" in out.splitlines()[1]


def test_parts_are_shown_and_recorded_and_those_that_fail_are_named(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    found = decided(calibsft, *CERTIFY)
    assert [(one["column"], one["value"]) for one in found["slices"]] == [("dataset", "a"), ("dataset", "b")]
    answered = rows.filter(pl.col("confidence") >= found["threshold"])
    for one in found["slices"]:
        part = answered.filter(pl.col("dataset") == one["value"])
        wrong = int((~part["correct"]).sum())
        assert (one["acted_on"], one["events"], one["rate"]) == (part.height, wrong, wrong / part.height)
    assert [one.model_dump() for one in read_policy(Path("policy.json")).slices] == found["slices"]
    hard = rows.drop("question").with_columns(level=pl.when(pl.int_range(pl.len()) % 9 == 0).then(pl.lit("hard")).otherwise(pl.lit("easy")))  # fmt: skip
    hard.with_columns(correct=(pl.col("level") == "easy") & pl.col("correct")).write_csv(tmp_path / "r.csv")
    code, out, err = calibsft("certify", "r.csv", "--risk", "0.4", "--slices", "level", "--force")
    assert (
        code == 0
        and "1 of 2 parts fail more often than the 40 % allowed" in err
        and "level=hard (100.0 %)" in err
    )
    assert "level=easy" in out
    code, _, err = calibsft(*CERTIFY, "--slices", "levle", "--force")
    assert code == 2 and "column 'levle' is missing" in err


def test_a_policy_that_covers_too_little_is_not_written(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    code, out, err = calibsft(*CERTIFY, "--min-coverage", "0.9")
    assert (code, out) == (2, "") and "less than the 90 % of --min-coverage; no policy was written" in err
    assert not (tmp_path / "policy.json").exists()
    assert calibsft(*CERTIFY, "--min-coverage", "0.1")[0] == 0
    assert read_policy(tmp_path / "policy.json").min_coverage == 0.1


def test_a_policy_names_the_one_that_it_replaces(calibsft: Command, rows: pl.DataFrame) -> None:
    assert calibsft(*CERTIFY)[0] == 0
    first = read_policy(Path("policy.json"))
    assert first.replaces is None
    assert calibsft(*CERTIFY, "--procedure", "recycled", "--force")[0] == 0
    assert read_policy(Path("policy.json")).replaces == first.id
    assert (
        calibsft(*CERTIFY, "--policy", "new.json", "--replaces", "policy.json", "--on-alarm", "abstain")[0]
        == 0
    )
    new = read_policy(Path("new.json"))
    assert (new.replaces, new.on_alarm) == (read_policy(Path("policy.json")).id, "abstain")


def test_a_split_takes_the_benchmarks_of_one_domain(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path
) -> None:
    by_dataset = pl.col("dataset").replace({"a": "id", "b": "ood"})
    rows.drop("question").with_columns(split=by_dataset).write_csv(tmp_path / "r.csv")
    found = decided(calibsft, *CERTIFY, "--split", "ood", "--malformed", "counted")
    assert found["questions"] == 450 and [one["value"] for one in found["slices"]] == ["b"]
    code, _, err = calibsft(*CERTIFY, "--split", "train", "--force")
    assert code == 2 and "unknown split 'train' (known: id, ood)" in err


def test_where_nothing_is_certified_it_says_what_would_be_needed(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    found = decided(calibsft, "certify", "r.csv", "--risk", "0.02")
    needed = found["needed"]
    assert found["threshold"] is None and needed["questions"] > 900
    _, out, _ = calibsft("certify", "r.csv", "--risk", "0.02", "--force")
    assert f"these questions allow --risk {needed['budget']:g}; the budget asked for takes about" in out
    assert decided(calibsft, "certify", "r.csv", "--risk", needed["budget"])["threshold"] is not None
