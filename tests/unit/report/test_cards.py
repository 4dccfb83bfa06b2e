"""Model cards get the calibration table of an evaluation, and are no part of the checkpoint that they describe."""

from pathlib import Path

import polars as pl
import pytest
from huggingface_hub import ModelCard

from calibsft.artifacts import CARD, StageFolder, model_inputs, read_manifest
from calibsft.cards import NOT_MEASURED, add_calibration, model_card, part_of
from calibsft.metrics import score_table
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
    assert text.startswith(before.split("## Calibration")[0]) and text.endswith(before.split("## Use")[1])


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
    add_calibration(str(model), "probability", scores(0.75), "sampled")
    assert NOT_MEASURED not in (model / CARD).read_text()
    assert model_inputs(str(model)) == before
    assert set(read_manifest(tmp_path / "sft")["files"]) == {"model/config.json"}
