"""Where benchmarks come from: local files of every kind, the Hub, and the published data where it is at hand."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.benchmarks import BENCHMARKS, get_benchmark
from calibsft.benchmarks.deepscaler import HELD_OUT, clean, for_training, held_out
from calibsft.benchmarks.row import Row
from calibsft.errors import InputError
from calibsft.schema import Question

DATA = Path(__file__).parents[4] / "shared/data/benchmarks"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published data files are not here")

ROWS = [
    {"question": "who, and when", "answer": ["one", 'say "two"']},
    {"question": "what\u2028now", "answer": ["é"]},
]
GOLDS = [("one", 'say "two"'), ("é",)]


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS), encoding="utf-8")


def write_jsonl(path: Path) -> None:
    path.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS), encoding="utf-8-sig")


def write_table(separator: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        flat = [{**row, "answer": json.dumps(row["answer"])} for row in ROWS]
        pl.DataFrame(flat).write_csv(path, separator=separator)

    return write


def write_parquet(path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(path)


WRITERS = {
    "json": write_json,
    "jsonl": write_jsonl,
    "tsv": write_table("\t"),
    "csv": write_table(","),
    "parquet": write_parquet,
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_local_file_of_any_kind_gives_the_same_questions(kind: str, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / f"nq_open.{kind}"
    WRITERS[kind](path)
    if zipped:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = get_benchmark("nq-open").load(tmp_path)
    assert [(q.id, q.text, q.gold) for q in found] == [
        ("0", "who, and when", GOLDS[0]),
        ("1", "what\u2028now", GOLDS[1]),
    ]


@pytest.mark.parametrize("name", ["nq-open.json", "nq_open.json", "NQ-Open.json", "nqopen.json"])
def test_case_hyphens_and_underscores_of_a_file_name_do_not_matter(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / name)
    assert len(get_benchmark("nq-open").load(tmp_path)) == 2


def test_a_table_without_a_header_is_question_and_answer(tmp_path: Path) -> None:
    (tmp_path / "triviaqa.tsv").write_text('Who?\t"[\'Ada\', ""O\'Hara""]"\nWhat?\t[\'x\']\n')
    found = get_benchmark("triviaqa").load(tmp_path)
    assert [(q.text, q.gold) for q in found] == [("Who?", ("Ada", "O'Hara")), ("What?", ("x",))]


def test_a_downloaded_folder_is_read_by_split_and_config(tmp_path: Path) -> None:
    folder = tmp_path / "gsm8k"
    for config, answer in {"main": "#### 1", "socratic": "#### 2"}.items():
        (folder / config).mkdir(parents=True)
        for split in ("train", "test"):
            frame = pl.DataFrame({"question": [f"{config} {split}?"], "answer": [answer]})
            frame.write_parquet(folder / config / f"{split}-00000-of-00001.parquet")
    hidden = folder / ".cache" / "main"
    hidden.mkdir(parents=True)
    (hidden / "test.jsonl").write_text("not data")
    assert [q.text for q in get_benchmark("gsm8k").load(tmp_path)] == ["main test?"]


def test_shards_of_a_folder_are_read_in_order_with_running_ids(tmp_path: Path) -> None:
    folder = tmp_path / "nq_open" / "nq_open"
    folder.mkdir(parents=True)
    for shard in (1, 0):
        rows = [{"question": f"q{shard}", "answer": ["a"]}]
        pl.DataFrame(rows).write_parquet(folder / f"validation-0000{shard}-of-00002.parquet")
    found = get_benchmark("nq-open").load(tmp_path)
    assert [(q.id, q.text) for q in found] == [("0", "q0"), ("1", "q1")]


def test_a_folder_may_name_its_file_after_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "OlympiadBench" / "OlympiadBench" / "OE_TO_maths_en_COMP"
    folder.mkdir(parents=True)
    row = {"id": 1, "question": "P", "final_answer": ["2"]}
    pl.DataFrame([row]).write_parquet(folder / "OE_TO_maths_en_COMP.parquet")
    assert [q.gold for q in get_benchmark("olympiadbench").load(tmp_path)] == ["2"]


def test_a_folder_of_another_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gsm8k" / "socratic").mkdir(parents=True)
    (tmp_path / "gsm8k" / "socratic" / "test.jsonl").write_text('{"question": "Q", "answer": "#### 1"}')
    with pytest.raises(InputError, match=r"gsm8k: no file of split 'main/test' there"):
        get_benchmark("gsm8k").load(tmp_path)


def test_the_original_drop_file_gives_one_question_per_pair(tmp_path: Path) -> None:
    def pair(id_: str, **answer: Any) -> dict[str, Any]:
        return {
            "query_id": id_,
            "question": f"{id_}?",
            "answer": {"number": "", "date": {}, "spans": [], **answer},
        }

    date = {"day": "3", "month": "May", "year": ""}
    data = {
        "p1": {"passage": "One.", "qa_pairs": [pair("a", number="2"), pair("b", spans=["x", "y"])]},
        "p2": {"passage": "Two.", "qa_pairs": [pair("c", date=date)]},
    }
    (tmp_path / "drop_dataset_dev.json").write_text(json.dumps(data))
    found = get_benchmark("drop").load(tmp_path)
    assert [(q.id, q.gold) for q in found] == [("a", ("2",)), ("b", ("x\ny",)), ("c", ("3 May",))]
    assert found[2].text == "Passage: Two.\n\nQuestion: c?"


def test_livebench_needs_all_its_files(tmp_path: Path) -> None:
    row = {"question_id": "s", "task": "spatial", "turns": ["Q"], "ground_truth": "3"}
    (tmp_path / "spatial.question.jsonl").write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"web_of_lies_v2.question and zebra_puzzle.question .* not found"):
        get_benchmark("livebench-reasoning").load(tmp_path)
    (tmp_path / "livebench_reasoning.jsonl").write_text(json.dumps(row))
    assert len(get_benchmark("livebench-reasoning").load(tmp_path)) == 1


def test_a_missing_file_is_refused_with_the_names_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no file .*; put math-500 or MATH-500 there \(json, jsonl, .*\.gz\)"
    ):
        get_benchmark("math-500").load(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        get_benchmark("math-500").load(tmp_path / "nowhere")


def test_two_files_for_one_benchmark_are_refused(tmp_path: Path) -> None:
    for name in ("gsm8k.jsonl", "GSM8K.csv"):
        (tmp_path / name).write_text("question,answer\n")
    with pytest.raises(InputError, match=r"GSM8K.csv and gsm8k.jsonl both hold gsm8k; leave one"):
        get_benchmark("gsm8k").load(tmp_path)


GOOD = '{"question": "Q", "answer": "#### 1"}\n'


@pytest.mark.parametrize(
    "name, data, problem",
    [
        ("gsm8k.jsonl", GOOD * 16 + '{"question": "Q"}\n', "gsm8k.jsonl, row 17: field 'answer' is missing"),
        ("gsm8k.jsonl", GOOD + '{"question": \n', "gsm8k.jsonl, row 2: not valid JSON"),
        ("gsm8k.jsonl", GOOD + "[]\n", "gsm8k.jsonl, row 2: not a JSON object"),
        ("gsm8k.jsonl", "[" * 100_000, "gsm8k.jsonl, row 1: not valid JSON"),
        ("gsm8k.jsonl", b"\xff\xfe", "gsm8k.jsonl: not a text in UTF-8"),
        ("gsm8k.jsonl", "", "gsm8k.jsonl: the file has no rows"),
        ("gsm8k.json", "[1, 2]", "gsm8k.json: not a list of objects"),
        ("gsm8k.json", '{"question": ["Q"]}', "gsm8k.json: not a list of objects"),
        ("gsm8k.json", '"text"', "gsm8k.json: not a list of objects"),
        ("gsm8k.json", "[{]", "gsm8k.json: not valid JSON"),
        ("gsm8k.json.gz", b"no gzip", "gsm8k.json.gz: not valid JSON"),
        ("gsm8k.json.gz", gzip.compress(b"[]", mtime=0)[:-9], "gsm8k.json.gz: cannot be read"),
        ("gsm8k.parquet", b"no parquet", "gsm8k.parquet: not a readable Parquet file"),
        ("gsm8k.csv", "question,answer\nQ,#### 1,more\n", "gsm8k.csv, row 1: 3 cells where the columns are"),
        ("gsm8k.csv", "question,gold\nQ,1\n", "gsm8k.csv, row 1: field 'answer' is missing"),
        ("gsm8k.csv", "question,answer\nQ,\n", "gsm8k.csv, row 1: field 'answer' is empty"),
        ("gsm8k.csv", "question,answer\n", "gsm8k.csv: the file has no rows"),
    ],
)
def test_a_broken_file_is_refused_in_one_sentence(
    name: str, data: str | bytes, problem: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InputError) as error:
        get_benchmark("gsm8k").load(tmp_path)
    assert problem in str(error.value)


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.hub])
def test_without_the_hub_a_benchmark_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(InputError) as error:
        get_benchmark(name).load()
    assert str(error.value).startswith(BENCHMARKS[name].hub)
    assert "could not be loaded from the Hub" in str(error.value) and "--data-dir" in str(error.value)


def test_the_hub_is_asked_for_id_config_and_split(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def load_dataset(*asked: object, split: str, revision: str | None) -> datasets.Dataset:
        assert (asked, split, revision) == (("openai/gsm8k", "main"), "test", None)
        return datasets.Dataset.from_list(
            [{"question": "Q", "answer": "#### 1"}, {"question": "Q", "answer": ""}]
        )

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(InputError, match="openai/gsm8k main test, row 2: field 'answer' is empty"):
        get_benchmark("gsm8k").load()


def problem(text: str, gold: str = "1") -> Question:
    row = {"problem": text, "answer": gold}
    benchmark = get_benchmark("deepscaler")
    return benchmark.to_question(Row("rows", 1, 0, row, benchmark.name, benchmark.grader))


def test_deepscaler_keeps_one_copy_and_drops_what_its_copies_disagree_about() -> None:
    rows = [
        problem("Find  x."),
        problem("find x."),
        problem("Find y."),
        problem("Find  Y.", "2"),
        problem("Find z."),
    ]
    assert sorted(q.text for q in clean(rows)) == ["Find  x.", "Find z."]
    assert clean(rows) == clean(rows[::-1])


def test_deepscaler_leaves_out_questions_without_an_answer_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert clean([problem("Find x.", ""), problem("Find y.", " "), problem("Find z.")]) == [
        problem("Find z.")
    ]
    assert "2 rows have no answer" in capsys.readouterr().err


def test_copies_of_a_question_share_its_id() -> None:
    assert problem("Find  x.").id == problem("FIND X.").id != problem("Find y.").id
    assert len(problem("Find x.").id) == 16


def test_the_split_is_the_same_in_any_order_and_one_row_moves_at_most_one_question() -> None:
    rows = [problem(f"Find x_{i}.") for i in range(5000)]
    evaluation, training = held_out(rows), for_training(rows)
    assert len(evaluation) == HELD_OUT and len(training) == 3000
    assert not set(evaluation) & set(training)
    shuffled = random.Random(0).sample(rows, len(rows))
    assert held_out(shuffled) == evaluation and for_training(shuffled) == training
    for removed in (evaluation[5], training[5]):
        fewer = held_out([row for row in rows if row != removed])
        assert len(set(fewer) - set(evaluation)) == (removed in evaluation)


SIZES = {
    "deepscaler-eval": 2000, "math-500": 500, "minerva-math": 272, "olympiadbench": 675, "gsm8k": 1319, "aime-2024": 30,
    "aime-2025": 30, "aime-2026": 30, "hotpotqa": 7405, "musique": 2417, "triviaqa": 11313, "nq-open": 3610,
    "popqa": 14267, "webquestions": 2032, "drop": 9536, "livebench-reasoning": 200, "deepscaler": 36914,
}  # fmt: skip


@needs_data
@pytest.mark.parametrize("name, size", SIZES.items())
def test_the_published_data_loads_whole_with_unique_ids(name: str, size: int) -> None:
    questions = get_benchmark(name).load(DATA)
    assert len(questions) == size == len({question.id for question in questions})
    assert all(question.text and all(question.golds) for question in questions)
    assert not any(text in questions[0].text for text in ("\\boxed{}", "Answer:"))


@needs_data
def test_deepscaler_has_the_known_numbers_of_unique_and_conflicting_questions() -> None:
    questions = [
        get_benchmark("deepscaler").to_question(row) for row in get_benchmark("deepscaler").rows(DATA)
    ]
    golds: dict[str, set[object]] = {}
    for question in questions:
        golds.setdefault(question.id, set()).add(question.gold)
    assert len(questions) == 40_308
    assert (len(golds), sum(len(found) > 1 for found in golds.values())) == (39_090, 176)
    assert len(clean(questions)) == 38_914


@needs_data
def test_the_split_of_the_published_data_is_disjoint_and_survives_missing_rows() -> None:
    deepscaler = get_benchmark("deepscaler")
    rows = [deepscaler.to_question(row) for row in deepscaler.rows(DATA)]
    evaluation, training = held_out(rows), for_training(rows)
    assert not {q.id for q in evaluation} & {q.id for q in training}
    fewer = random.Random(0).sample(rows, len(rows) - 7)
    assert len({q.id for q in held_out(fewer)} ^ {q.id for q in evaluation}) <= 14


@needs_data
@pytest.mark.parametrize(
    "name, source, size",
    [("popqa", "popqa_official_columns_1k.jsonl", 1000), ("drop", "drop_official_schema_sample.json", 19)],
)
def test_other_shapes_of_the_published_data_load_too(
    name: str, source: str, size: int, tmp_path: Path
) -> None:
    kind = source.rpartition(".")[2]
    (tmp_path / f"{name}.{kind}").symlink_to(DATA / source)
    questions = get_benchmark(name).load(tmp_path)
    assert len(questions) == size == len({question.id for question in questions})


@needs_data
def test_livebench_grades_half_of_its_zebra_puzzles_by_one_word() -> None:
    kinds = [question.grader for question in get_benchmark("livebench-reasoning").load(DATA)]
    counts = {
        kind: kinds.count(f"livebench-{kind}") for kind in ("spatial", "web-of-lies", "zebra", "zebra-word")
    }
    assert counts == {"spatial": 50, "web-of-lies": 50, "zebra": 50, "zebra-word": 50}
