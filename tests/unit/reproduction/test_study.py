"""A whole study of made-up results: every experiment is measured, judged and written, and what came out decides the verdicts."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from calibsft.artifacts.lineage import split_step
from calibsft.pipeline.chain import Chain
from calibsft.reproduction.arms import FIVE
from calibsft.reproduction.claims import read_claims
from calibsft.reproduction.document import write_study
from calibsft.reproduction.experiments import EXPERIMENTS
from calibsft.reproduction.results import Result, results_of, verdicts_of
from calibsft.reproduction.run import chosen, left_of, said
from calibsft.reproduction.verdicts import Outcome, Verdict
from fabricated_study import fabricate

Judged = tuple[list[Result], dict[str, Verdict]]
HELPS = "main.calibsft-helps-every-method"
# Twelve questions of a benchmark certify no threshold, so these have no value.
NEED_A_THRESHOLD = {
    "risk-control.risk-stays-within-budget",
    "routing.accuracy-matches-full-deferral",
    "routing.loss-within-tolerance",
}


def calibrated(chain: Chain) -> bool:
    return any(split_step(step)[0] == "calibsft" for step in chain.steps)


def judged(root: Path, skill: Callable[[Chain], float], *names: str) -> Judged:
    """The results and verdicts of a made-up study, with few draws: what is tested here needs no exact intervals."""
    study = fabricate(root, skill, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibsft.reproduction.scores.DRAWS", 3)
        patch.setattr("calibsft.reproduction.results.KINDS", {"svg": None})
        results = results_of(study, chosen(names))
    return results, {verdict.claim.id: verdict for verdict in verdicts_of(results)}


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(tmp_path_factory.mktemp("study"), lambda chain: 0.9 if calibrated(chain) else 0.1)


def test_every_experiment_is_measured_and_shown(as_claimed: Judged) -> None:
    results, _ = as_claimed
    assert [result.experiment.name for result in results] == list(EXPERIMENTS)
    for result in results:
        assert result.tables and all(table.rows for table in result.tables), result.experiment.name


def test_every_claim_of_a_finished_experiment_is_judged(as_claimed: Judged) -> None:
    _, verdicts = as_claimed
    assert list(verdicts) == [claim.id for claim in read_claims()]
    untestable = {name for name, verdict in verdicts.items() if verdict.outcome is Outcome.UNTESTABLE}
    assert untestable == {claim.id for claim in read_claims() if claim.untestable} | NEED_A_THRESHOLD


def test_every_pair_is_severely_overconfident_or_not(as_claimed: Judged) -> None:
    cells = {result.experiment.name: result.cells for result in as_claimed[0]}["per-dataset"]
    benchmarks = [column for column in cells["RLCR"] if column.endswith(".ece") and "study-" in column]
    above = sum(cells[method][name][:, 0].mean() > 0.25 for method in FIVE for name in benchmarks)
    assert len(benchmarks) == 16 and 0 < above < 80
    assert cells["Pairs"]["overconfident.pairs"][0, 0] == above


def test_the_prior_is_measured_on_the_rollouts_of_the_bases_and_on_sampled_evaluations(
    as_claimed: Judged,
) -> None:
    cells = {result.experiment.name: result.cells for result in as_claimed[0]}["prior"]
    assert list(cells) == ["Base", "Second base", "Third base", "CalibSFT"]
    # Made up: of a base, nine of ten say 0.9 whatever is right; CalibSFT's knows, and says 0.05 where it is wrong.
    assert cells["Base"]["below_half"][0, 0] < 0.25 < cells["CalibSFT"]["below_half"][:, 0].min()
    assert cells["Base"]["below_half"].shape == (1, 4) and cells["CalibSFT"]["below_half"].shape == (3, 4)
    assert (
        cells["CalibSFT"]["correct.mean_confidence"].min()
        > 0.9
        > 0.2
        > cells["CalibSFT"]["incorrect.mean_confidence"][:, 0].max()
    )


def test_the_results_decide(tmp_path: Path) -> None:
    def outcome(before: float, after: float) -> Outcome:
        root = tmp_path / f"{before}-{after}"
        return judged(root, lambda chain: after if calibrated(chain) else before, "main")[1][HELPS].outcome

    assert outcome(0.1, 0.9) is Outcome.HOLDS
    assert outcome(0.9, 0.1) is Outcome.FAILS
    assert outcome(0.5, 0.5) is Outcome.UNDECIDED


def test_what_theory_says_comes_out_exactly(as_claimed: Judged) -> None:
    cells = {result.experiment.name: result.cells for result in as_claimed[0]}
    assert cells["targets"]["CalibSFT"]["pre.brier"][0, 0] == pytest.approx(0.0791666, abs=1e-6)
    assert cells["targets"]["CalibSFT"]["pre.auroc"][0, 0] == 1
    assert cells["samples"]["n=10"]["targets.margin"][0, 0] == pytest.approx(0.5)
    assert cells["samples"]["n=10"]["targets.distinct"][0, 0] == 18


def test_the_document_has_everything(as_claimed: Judged, tmp_path: Path) -> None:
    results, verdicts = as_claimed
    (tmp_path / "reasons.yaml").write_text("main.rlvr-raises-ood-accuracy: Because it <b>is</b> so.\n")
    text = write_study(
        results, list(verdicts.values()), "calibsft reproduce", (0, 1, 2), tmp_path
    ).read_text()
    assert "calibsft reproduce" in text and "training seeds | 0, 1, 2" in text
    for result in results:
        assert result.experiment.title in text
        assert (tmp_path / "tables" / f"{result.experiment.name}.tex").read_text().count("tabular") % 2 == 0
    assert "- **RLVR improves" in text and "Because it &lt;b&gt;is&lt;/b&gt; so." in text
    assert "there is no value for: ID risk@0.1: RLCR + CalibSFT below 0.1" in text
    assert "(figures/verdicts.svg)" in text and (tmp_path / "figures/verdicts-dark.png").is_file()
    page = (tmp_path / "reproduction.html").read_text()
    assert "<b>is</b>" not in page and "http" not in page.partition("<main>")[2]
    with (tmp_path / "checks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["claim"] for row in rows} == {name for name, verdict in verdicts.items() if verdict.checks}
    assert page.count(">does not hold<") > sum(row["verdict"] == "does not hold" for row in rows), (
        "all checks too"
    )


def test_what_is_left_is_said_with_the_pace_so_far(tmp_path: Path) -> None:
    study = fabricate(tmp_path, lambda chain: 0.5, ("main",))
    assert "all" in said(left_of(study))
    (tmp_path / "eval-base" / "manifest.json").unlink()
    left = left_of(study)
    assert 0 < len(left.todo) < len(left.stages)
    assert f"{len(left.todo)} of {len(left.stages)} stages are left" in said(left) and "pace" in said(left)
