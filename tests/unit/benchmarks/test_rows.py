"""What each benchmark makes of a row, as the Hub has it and as local copies have it; and what it refuses."""

from datetime import datetime
from typing import Any

import pytest

from calibsft.benchmarks import BENCHMARKS, get_benchmark
from calibsft.benchmarks.benchmark import distinct
from calibsft.benchmarks.minerva_math import last_boxed
from calibsft.benchmarks.row import Row, list_of
from calibsft.errors import InputError
from calibsft.schema import Question
from calibsft.verify import GRADERS

PAPER_ID = [
    "deepscaler-eval", "math-500", "minerva-math", "olympiadbench", "gsm8k", "aime-2024", "aime-2025", "aime-2026",
]  # fmt: skip
PAPER_OOD = [
    "hotpotqa", "musique", "triviaqa", "nq-open", "popqa", "webquestions", "drop", "livebench-reasoning",
]  # fmt: skip


def asked(name: str, fields: dict[str, Any], index: int = 6) -> Question:
    """The question that a benchmark makes of the seventh row of `rows.jsonl`."""
    benchmark = get_benchmark(name)
    (expanded,) = benchmark.expand(fields)
    return benchmark.to_question(Row("rows.jsonl", 7, index, expanded, benchmark.name, benchmark.grader))


def livebench(task: str, released: object) -> dict[str, Any]:
    return {
        "question_id": "q9", "task": task, "turns": ["Who?"], "ground_truth": "yes, no, yes",
        "livebench_release_date": released,
    }  # fmt: skip


GSM8K_ROW = {"question": "How many?", "answer": "1 + 1 = <<1+1=2>>2 #### no\n#### 1,204"}
AIME_PROMPT = "Find $n$.\nIt is odd.\nPlease reason step by step, and put your final answer within \\boxed{}."
HOTPOT = {"question": "Who?", "answer": "yes"}
PASSAGES = "Ada: She wrote. She died.\n\nBob: He ran.\n\nQuestion: Who?"
DROP_TEXT = "Passage: Two ran.\nOne won.\n\nQuestion: How many?"

ROWS = [
    ("math-500", {"problem": "P", "answer": "\\frac12", "unique_id": "test/a/1.json"}, "test/a/1.json", "P", "\\frac12"),
    ("minerva-math", {"question": "P", "answer": "1.6"}, "6", "P", "1.6"),
    ("minerva-math", {"problem": "P", "solution": r"\boxed{9} so \boxed{\frac{1}{2}} cm"}, "6", "P", r"\frac{1}{2}"),
    ("olympiadbench", {"id": 1606, "question": "P", "final_answer": ["2"], "context": None, "error": None}, "1606", "P", "2"),
    ("olympiadbench", {"id": 7, "question": "P", "final_answer": ["3", "3"], "context": "Let x."}, "7", "Let x.\n\nP", "3, 3"),
    ("gsm8k", GSM8K_ROW, "6", "How many?", "1204"),
    ("aime-2024", {"id": 60, "problem": "Find $n$.\nIt is odd.", "answer": "204"}, "60", "Find $n$.\nIt is odd.", "204"),
    ("aime-2025", {"problem_idx": 3, "problem": "Find $n$.", "answer": 70}, "3", "Find $n$.", "70"),
    ("aime-2026", {"prompt": AIME_PROMPT, "answer": 70.0}, "6", "Find $n$.\nIt is odd.", "70"),
    ("hotpotqa", HOTPOT, "6", "Who?", "yes"),
    (
        "hotpotqa",
        {**HOTPOT, "id": "5a", "context": {"title": ["Ada", "Bob"], "sentences": [["She wrote.", " She died."], ["He ran."]]}},
        "5a", PASSAGES, "yes",
    ),
    ("hotpotqa", {**HOTPOT, "_id": "5a", "context": [["Ada", ["She wrote.", " She died."]], ["Bob", ["He ran."]]]}, "5a", PASSAGES, "yes"),
    ("musique", {"id": "2hop", "question": "Who?", "answer": "Ada", "answer_aliases": []}, "2hop", "Who?", ("Ada",)),
    (
        "musique",
        {
            "id": "2hop", "question": "Who?", "answer": "Ada", "answer_aliases": ["Ada", "A. L."], "answerable": True,
            "paragraphs": [{"idx": 0, "title": "Ada", "paragraph_text": "She wrote."}],
        },
        "2hop", "Ada: She wrote.\n\nQuestion: Who?", ("Ada", "A. L."),
    ),
    (
        "triviaqa",
        {"question_id": "tc_2", "question": "Who?", "answer": {"value": "Ada", "aliases": ["Ada", "A. L."], "normalized_aliases": ["ada"]}},
        "tc_2", "Who?", ("Ada", "A. L."),
    ),
    ("triviaqa", {"question": "Who?", "answer": {"value": None, "aliases": [], "normalized_aliases": ["ada"]}}, "6", "Who?", ("ada",)),
    ("triviaqa", {"question": "Who?", "answer": "['Ada', \"O'Hara\"]"}, "6", "Who?", ("Ada", "O'Hara")),
    ("nq-open", {"question": "who", "answer": ["one", "one season"]}, "6", "who", ("one", "one season")),
    ("nq-open", {"question": "who", "answers": ["one"]}, "6", "who", ("one",)),
    ("popqa", {"id": 42, "question": "Who?", "possible_answers": '["Ada", "A\\u00e9"]'}, "42", "Who?", ("Ada", "Aé")),
    ("popqa", {"id": "test_4", "question": "Who?", "golden_answers": ["Ada"]}, "test_4", "Who?", ("Ada",)),
    ("popqa", {"question": "Who?", "answer": "Ada", "aliases": ["Ada", "", "A. L."]}, "6", "Who?", ("Ada", "A. L.")),
    ("webquestions", {"url": "u", "question": "who", "answers": ["Ada", "Bob"]}, "6", "who", ("Ada", "Bob")),
    ("webquestions", {"question": "who", "answer": ["Ada"]}, "6", "who", ("Ada",)),
    (
        "drop",
        {"query_id": "q1", "passage": "Two ran.\nOne won.", "question": "How many?", "answers_spans": {"spans": ["2", "two", "2"], "types": ["number", "span", "number"]}},
        "q1", DROP_TEXT, ("2", "two", "2\ntwo"),
    ),
    ("drop", {"passage": "Two ran.\nOne won.", "question": "How many?", "answers_spans": {"spans": ["2", "2"]}}, "6", DROP_TEXT, ("2",)),
    ("drop", {"context": "Passage: Two ran.\nOne won.\nQuestion: How many?\nAnswer:", "ref_text": "2|two"}, "6", DROP_TEXT, ("2", "two")),
    (
        "drop",
        {
            "passage": "Two ran.\nOne won.",
            "qa_pairs": [
                {
                    "query_id": "q1", "question": "How many?",
                    "answer": {"number": "2", "date": {}, "spans": []},
                    "validated_answers": [{"number": "", "date": {}, "spans": ["Ada", "Bob"]}],
                }
            ],
        },
        "q1", DROP_TEXT, ("2", "Ada\nBob"),
    ),
    ("livebench-reasoning", livebench("spatial", "2024-07-26"), "q9", "Who?", "yes, no, yes"),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, fields, id_, text, gold", ROWS, ids=[f"{r[0]}-{i}" for i, r in enumerate(ROWS)]
)
def test_a_row_becomes_its_question(
    name: str, fields: dict[str, Any], id_: str, text: str, gold: str | tuple[str, ...]
) -> None:
    question = asked(name, fields)
    assert (question.id, question.text, question.gold) == (id_, text, gold)
    assert question.dataset == name and question.grader.startswith(BENCHMARKS[name].grader)


@pytest.mark.parametrize(
    "task, released, grader",
    [
        ("web_of_lies_v2", "2024-06-24", "livebench-web-of-lies"),
        ("spatial", "2024-07-26", "livebench-spatial"),
        ("zebra_puzzle", "2024-06-24", "livebench-zebra-word"),
        ("zebra_puzzle", "2024-11-24", "livebench-zebra-word"),
        ("zebra_puzzle", "2024-11-25", "livebench-zebra"),
        ("zebra_puzzle", datetime(2024, 11, 25), "livebench-zebra"),
        ("zebra_puzzle", datetime(2024, 6, 24), "livebench-zebra-word"),
    ],
)
def test_livebench_chooses_the_grader_by_task_and_release(task: str, released: object, grader: str) -> None:
    assert asked("livebench-reasoning", livebench(task, released)).grader == grader


def test_olympiadbench_passes_the_stated_error_on_as_tolerance() -> None:
    row = {"id": 1, "question": "P", "final_answer": ["4.2"]}
    assert asked("olympiadbench", {**row, "error": "1e-1"}).tolerance == "1e-1"
    assert asked("olympiadbench", {**row, "error": ""}).tolerance == ""


def test_a_multi_line_aime_problem_keeps_its_last_line() -> None:
    assert asked("aime-2024", {"prompt": "Find\n$n$.", "answer": 1}).text == "Find\n$n$."


def test_musique_leaves_out_what_cannot_be_answered() -> None:
    assert get_benchmark("musique").expand({"answerable": False}) == []


def test_the_papers_sixteen_are_there_by_domain_with_their_samples() -> None:
    known = [b for b in BENCHMARKS.values() if b.hub and not b.training]
    assert [b.name for b in known if b.domain == "id"] == PAPER_ID
    assert [b.name for b in known if b.domain == "ood"] == PAPER_OOD
    assert {b.name: b.samples for b in known} == {n: 32 if "aime" in n else 4 for n in PAPER_ID + PAPER_OOD}


def test_only_the_training_set_is_marked_so() -> None:
    assert [b.name for b in BENCHMARKS.values() if b.training] == ["deepscaler", "playground", "study"]


def test_every_benchmark_names_an_existing_grader() -> None:
    assert {b.grader for b in BENCHMARKS.values()} <= set(GRADERS)


def test_an_unknown_benchmark_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="unknown benchmark 'gsm-8k'; did you mean 'gsm8k'"):
        get_benchmark("gsm-8k")


@pytest.mark.parametrize(
    "name, fields, problem",
    [
        ("gsm8k", {"question": "Q"}, "field 'answer' is missing; the row has 'question'"),
        ("gsm8k", {}, "field 'answer' is missing; the row has no fields"),
        ("gsm8k", {"question": " \n", "answer": "#### 1"}, "field 'question' is empty; fill it or remove the row"),
        ("gsm8k", {"question": "Q", "answer": None}, "field 'answer' is empty"),
        ("gsm8k", {"question": "Q", "answer": float("nan")}, "field 'answer' is empty"),
        ("gsm8k", {"question": "Q", "answer": "18"}, "no final number after '####'"),
        ("gsm8k", {"question": "Q", "answer": "so ####  "}, "no final number after '####'"),
        ("gsm8k", {"question": ["Q"], "answer": "#### 1"}, "field 'question' holds a list where a text is needed"),
        ("gsm8k", {"question": "Q \ud800", "answer": "#### 1"}, "field 'question' is not valid Unicode"),
        ("math-500", {"problem": "P", "answer": ""}, "field 'answer' is empty"),
        ("minerva-math", {"problem": "P", "solution": "so it is 4"}, r"'solution' holds no \boxed{} answer"),
        ("aime-2024", {"text": "P", "answer": 1}, "field 'problem' or 'prompt' is missing"),
        ("olympiadbench", {"question": "P", "final_answer": []}, "field 'final_answer' is empty"),
        ("nq-open", {"question": "who", "answer": ["", None]}, "field 'answer' is empty"),
        ("nq-open", {"question": "who", "answer": "['a' 'b']"}, "field 'answer' is not a readable list"),
        ("popqa", {"question": "Q", "possible_answers": '["a"'}, "field 'possible_answers' is not a readable list"),
        ("popqa", {"question": "Q", "possible_answers": "[]"}, "field 'possible_answers' is empty"),
        ("triviaqa", {"question": "Q", "answer": {"value": "", "aliases": []}}, "field 'answer' is empty: no value"),
        ("hotpotqa", {**HOTPOT, "context": {"title": ["A"]}}, "field 'context' is not titles and lists"),
        ("hotpotqa", {**HOTPOT, "context": "text"}, "field 'context' is not titles and lists"),
        ("musique", {**HOTPOT, "paragraphs": ["text"]}, "field 'paragraphs' is not a list of title"),
        ("drop", {"context": "Passage: P", "ref_text": "1"}, "field 'context' has no line 'Question: …'"),
        ("drop", {"passage": "P", "question": "Q", "answers_spans": []}, "'answers_spans' is not an object"),
        ("drop", {"passage": "P", "question": "Q", "answer": {"number": "", "spans": []}}, "holds no number, date or span"),
        ("drop", {"passage": "P", "question": "Q"}, "field 'answer' holds no number, date or span"),
        ("livebench-reasoning", livebench("sudoku", "2025-01-01"), "task 'sudoku' has no grader"),
        ("livebench-reasoning", livebench("zebra_puzzle", None), "'livebench_release_date' is missing"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_by_source_row_and_field(
    name: str, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError) as error:
        asked(name, fields)
    assert str(error.value).startswith("rows.jsonl, row 7: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    "text, values",
    [
        ('["a", "b\\u00e9"]', ["a", "bé"]),
        ("['a', \"it's\", 3, -1.5]", ["a", "it's", 3, -1.5]),
        ("['a\\'b']", ["a'b"]),
        (" ['a'] ", ["a"]),
        ("[]", []),
    ],
)
def test_a_list_written_as_text_is_read(text: str, values: list[object]) -> None:
    assert list_of(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "['a' 'b']", "['a', __import__('os')]", "[f'{1}']", "['a'] * 9", "['\\N{no such}']", "[007]", "{'a': 1}",
        '{"a": 1}', "['a',,]", "['a\x00']", "[" * 100_000, "['" + "a" * 2_000_000 + "']", "[" + "9" * 5000 + "]", "['a'",
    ],
    ids=range(14),
)  # fmt: skip
def test_anything_but_a_list_of_texts_and_numbers_is_not_read(text: str) -> None:
    assert list_of(text) is None


@pytest.mark.parametrize(
    "text, found",
    [
        (r"\boxed{1} and \boxed{x^{2}}.", "x^{2}"),
        (r"\boxed{\left\{1, 2\right.} }", r"\left\{1, 2\right."),
        (r"\boxed{never closed", ""),
        ("nothing", ""),
        (r"\boxed{ }", ""),
    ],
)
def test_the_last_box_is_cut_at_its_own_brace(text: str, found: str) -> None:
    assert last_boxed(text) == found


def test_ids_are_unique_and_a_repeated_question_is_asked_once() -> None:
    def question(id_: str, text: str) -> Question:
        return Question(id_, text, "1", "exact", "d")

    rows = [("a", "P"), ("a", "P"), ("a", "Q"), ("a", "R"), ("a-2", "S")]
    found = distinct([question(*row) for row in rows])
    assert [(q.id, q.text) for q in found] == [("a", "P"), ("a-3", "Q"), ("a-4", "R"), ("a-2", "S")]


def test_embedded_benchmarks_ignore_the_data_folder(tmp_path: Any) -> None:
    benchmark = get_benchmark("cross")
    assert benchmark.load(tmp_path / "nowhere") == benchmark.load()
