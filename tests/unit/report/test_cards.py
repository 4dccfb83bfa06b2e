"""Model cards get the calibration table of an evaluation, and are no part of the checkpoint that they describe."""

from pathlib import Path

import polars as pl
import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from huggingface_hub.repocard_data import EvalResult, model_index_to_eval_results

from calibsft.artifacts import CARD, StageFolder, model_inputs, read_manifest
from calibsft.benchmarks import BENCHMARKS
from calibsft.cards import EVAL_RESULTS, NOT_MEASURED, add_calibration, model_card, part_of
from calibsft.evaluation import Benchmarks
from calibsft.evaluation.settings import EvalSettings
from calibsft.metrics import ECE_CONVENTION, score_table
from calibsft.model_index import HubDataset
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.sft.settings import SftSettings


def scores(confidence: float) -> dict[str, object]:
    rows = pl.DataFrame(
        {
            "dataset": ["aime", "aime", "drop", "drop"],
            "split": ["id", "id", "ood", "ood"],
            "question_id": ["1", "2", "1", "2"],
            "confidence": [confidence, 0.5, 0.5, 0.5],
            "correct": [True, False, True, True],
        }
    )
    return score_table(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    card = model_card("base", (), "Title", "Story.", SftSettings(), Prompting(FORMATS["probability"]))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / CARD).write_text(card)
    return tmp_path


@pytest.mark.parametrize("start", ["base", "", "a\n---\n# b: 'c' \"d\"", "😀 {x}: [y] # z", "null", "0.5"])
def test_the_head_names_the_start_exactly_whatever_its_name_is(start: str) -> None:
    text = model_card(start, ("rlcr",), "Title", "Story.", SftSettings(), Prompting(FORMATS["probability"]))
    card = ModelCard(text)
    assert card.data.base_model == (start or None)
    assert card.data.library_name == "transformers"
    assert card.data.tags == ["calibration", "confidence", "calibsft", "rlcr"]
    assert card.text.startswith("\n# Title\n\nStory.\n")


def test_the_head_names_the_start_without_its_revision_as_the_hub_links_it() -> None:
    text = model_card("org/name@v1", (), "Title", "Story.", SftSettings(), Prompting(FORMATS["probability"]))
    assert ModelCard(text).data.base_model == "org/name"


def test_a_card_says_how_the_model_is_asked() -> None:
    written = FORMATS["integer"]
    plain = model_card("base", (), "Title", "Story.", SftSettings(), Prompting(written))
    assert f"Ask with this\nsystem prompt:\n\n> {written.system_prompt}\n" in plain
    asked = Prompting(written, {"enable_thinking": False})
    text = model_card("base", (), "Title", "Story.", SftSettings(), asked)
    assert 'system prompt and with `{"enable_thinking": false}` for its chat template:\n\n> ' in text


def test_an_evaluation_puts_its_table_into_the_card(folder: Path) -> None:
    assert NOT_MEASURED in (folder / CARD).read_text()
    add_calibration(str(folder), "probability", scores(0.75), "4 responses a question")
    text = (folder / CARD).read_text()
    assert NOT_MEASURED not in text
    assert "| aime | 2 | 0.500 | 1.000 | 0.156 | 0.375 | 2.000 |" in text
    assert "| drop | 2 | 1.000 | – | 0.250 | 0.500 | 1.000 |" in text
    assert "| In distribution, mean | 2 |" in text and "| Out of distribution, mean | 2 |" in text
    assert "**Confidence as probability**, 4 responses a question" in text and "ECE: 10 bins" in text


def test_a_later_evaluation_replaces_the_table_of_its_format_and_leaves_the_other(folder: Path) -> None:
    before = (folder / CARD).read_text()
    for name, confidence in (("probability", 0.75), ("integer", 0.9), ("probability", 1.0)):
        add_calibration(str(folder), name, scores(confidence), "sampled")
    text = (folder / CARD).read_text()
    assert text.count("| aime |") == 2 and text.count("**Confidence as probability**") == 1
    assert "| aime | 2 | 0.500 | 1.000 | 0.125 | 0.250 | 2.000 |" in text
    assert before.split("---")[2].split("## Calibration")[0] in text and text.endswith(
        before.split("## Use")[1]
    )


def test_a_quick_evaluation_does_not_replace_the_table_of_a_fuller_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def table_after(confidence: float, limit: int | None) -> str:
        part = part_of("each benchmark", limit, None)
        add_calibration(str(folder), "probability", scores(confidence), "sampled", part)
        return (folder / CARD).read_text()

    quick = table_after(0.75, 20)
    assert "sampled, the first 20 questions of each benchmark\n" in quick
    assert table_after(0.9, 5) == quick and "keeps the table" in capsys.readouterr().err
    again = table_after(0.9, 20)
    assert again != quick, "a later one of the same size does"
    whole = table_after(0.6, None)
    assert "the first" not in whole and whole.count("| aime |") == 1
    assert table_after(0.9, 400) == whole
    told = capsys.readouterr().err
    assert (
        "README.md: keeps the table of an evaluation on more questions than the first 400 questions of"
        in told
    )
    assert table_after(0.9, None) != whole
    add_calibration(str(folder), "integer", scores(0.9), "sampled", part_of("each benchmark", 5, None))
    assert (folder / CARD).read_text().count("| aime |") == 2, "another format has a table of its own"


def test_subsets_and_single_benchmarks_count_as_fewer_questions_too(folder: Path) -> None:
    def table_after(confidence: float, *parts: str) -> str:
        add_calibration(str(folder), "probability", scores(confidence), "sampled", ", ".join(parts))
        return (folder / CARD).read_text()

    drawn, quick = part_of("aime", None, 20), part_of("each benchmark", 10, 50)
    table = table_after(0.75, part_of("each benchmark", None, 50), drawn)
    assert "sampled, 50 random questions of each benchmark, 20 random questions of aime\n" in table
    assert quick == "the first 10 of 50 random questions of each benchmark"
    assert table_after(0.9, quick) == table_after(0.9, part_of("aime", 19, None)) == table
    assert table_after(0.9, drawn) != table
    whole = table_after(0.6)
    assert table_after(0.9, drawn) == whole


AIME = HubDataset("MathArena/aime_2026", None, "train", "abc", "MathArena/aime_2026")


def index_of(folder: Path) -> tuple[str, list[EvalResult]]:
    """The results on the card as the Hub's own library reads them from its YAML."""
    head = (folder / CARD).read_text().split("---")[1]
    return model_index_to_eval_results(yaml.safe_load(head)["model-index"])


def test_the_head_has_every_result_with_how_it_was_measured(folder: Path) -> None:
    add_calibration(
        str(folder), "probability", scores(0.75), "4 responses a question", datasets={"aime": AIME}
    )
    name, results = index_of(folder)
    assert name == folder.name
    values = {(result.dataset_name, result.metric_type): result for result in results}
    assert values["aime", "brier_score"].metric_value == pytest.approx(0.15625)
    assert values["aime", "ece"].metric_value == pytest.approx(0.375)
    assert values["aime", "ece"].metric_name == f"ECE, {ECE_CONVENTION}"
    assert values["aime", "roc_auc"].metric_value == values["drop", "accuracy"].metric_value == 1.0
    assert ("drop", "roc_auc") not in values, "every answer is right, so there is none"
    brier = values["aime", "brier_score"]
    place = (brier.dataset_type, brier.dataset_split, brier.dataset_revision)
    assert place == ("MathArena/aime_2026", "train", "abc")
    assert values["drop", "ece"].dataset_type == "drop", "its questions are not from the Hub"
    assert brier.metric_args == {
        "confidence_format": "probability",
        "responses": 2,
        "sampled": "4 responses a question",
    }


def test_the_hubs_library_takes_the_card_and_writes_it_back_unchanged(folder: Path) -> None:
    add_calibration(str(folder), "probability", scores(0.75), "sampled", datasets={"aime": AIME})
    text = (folder / CARD).read_text()
    card = ModelCard(text)
    assert str(card) == text and len(card.data.eval_results) == len(index_of(folder)[1])
    assert card.data.base_model == "base" and card.data.tags == ["calibration", "confidence", "calibsft"]


def test_results_in_another_format_and_by_others_stay_in_the_head(folder: Path) -> None:
    card = ModelCard((folder / CARD).read_text())
    card.data.license, card.data.model_name = "mit", "mine"
    card.data.eval_results = [EvalResult("text-generation", "own", "Own", "accuracy", 0.5)]
    (folder / CARD).write_text(str(card))
    for name, confidence in (("probability", 0.75), ("integer", 0.9), ("probability", 1.0)):
        add_calibration(str(folder), name, scores(confidence), "sampled")
    name, results = index_of(folder)
    assert name == "mine" and ModelCard((folder / CARD).read_text()).data.license == "mit"
    briers = [
        (result.metric_args["confidence_format"], result.metric_value)
        for result in results
        if (result.dataset_name, result.metric_type) == ("aime", "brier_score")
    ]
    assert briers == [("integer", pytest.approx(0.13)), ("probability", pytest.approx(0.125))]
    assert [result.metric_value for result in results if result.dataset_name == "Own"] == [0.5]


def test_a_head_that_cannot_be_read_keeps_an_evaluation_from_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / CARD).read_text().replace("library_name:", "library_name: [", 1)
    (folder / CARD).write_text(text)
    add_calibration(str(folder), "probability", scores(0.75), "sampled")
    assert "| aime | 2 |" in (folder / CARD).read_text()
    assert "its head cannot be read" in capsys.readouterr().err


def test_accuracy_on_a_whole_benchmark_with_a_leaderboard_stands_in_a_file_for_it(folder: Path) -> None:
    add_calibration(str(folder), "integer", scores(0.75), "4 responses", datasets={"aime": AIME})
    (path,) = (folder / EVAL_RESULTS).iterdir()
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    assert (entry.dataset_id, entry.task_id) == ("MathArena/aime_2026", "MathArena/aime_2026")
    assert (entry.value, entry.dataset_revision) == (50.0, "abc")
    assert entry.notes == "confidence stated as integer; 4 responses"


@pytest.mark.parametrize("part", [{"limit": 5}, {"subset": 5}, {"per_benchmark": {"gsm8k": {"limit": 5}}}])
def test_a_part_of_a_benchmark_is_not_for_its_leaderboard(
    part: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(BENCHMARKS["gsm8k"]), "load", lambda *_: [])
    whole = Benchmarks(EvalSettings(benchmarks=("gsm8k", "multiply-1"))).hub_datasets()
    assert whole["gsm8k"] == HubDataset("openai/gsm8k", "main", "test", None, "gsm8k")
    assert whole["multiply-1"] == HubDataset()
    quick = Benchmarks(EvalSettings(benchmarks=("gsm8k",), **part)).hub_datasets()
    assert quick["gsm8k"] == HubDataset("openai/gsm8k", "main", "test")


def test_other_peoples_cards_and_hub_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / CARD).write_text("# My model\n")
    add_calibration(str(tmp_path), "probability", scores(0.75), "sampled")
    add_calibration("somebody/model", "probability", scores(0.75), "sampled")
    assert (tmp_path / CARD).read_text() == "# My model\n"
    assert not Path("somebody").exists()


def test_a_changed_card_changes_neither_the_checkpoint_nor_its_stage(folder: Path, tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "sft", "sft", {})
    stage.begin()
    model = tmp_path / "sft" / "model"
    model.mkdir()
    for name in ("config.json", CARD):
        (model / name).write_text((folder / name).read_text())
    stage.finish()
    before = model_inputs(str(model))
    add_calibration(str(model), "probability", scores(0.75), "sampled", datasets={"aime": AIME})
    assert NOT_MEASURED not in (model / CARD).read_text() and (model / EVAL_RESULTS).is_dir()
    assert model_inputs(str(model)) == before
    assert set(read_manifest(tmp_path / "sft")["files"]) == {"model/config.json"}
