r"""The LiveBench graders: where each task looks for its answer, and what it takes for right."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader
from calibsft.verify.livebench import (
    LIVEBENCH,
    LIVEBENCH_SPATIAL,
    LIVEBENCH_WEB_OF_LIES,
    LIVEBENCH_ZEBRA,
    LIVEBENCH_ZEBRA_WORD,
    MAX_LENGTH,
)

DATA = Path(__file__).parents[4] / "shared/data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
TASKS = (LIVEBENCH_WEB_OF_LIES, LIVEBENCH_ZEBRA, LIVEBENCH_ZEBRA_WORD, LIVEBENCH_SPATIAL)
ALL = pytest.mark.parametrize("grader", [LIVEBENCH, *TASKS], ids=lambda grader: grader.name)

LIST = "1, soy-milk, police-officer, d&b"


def judge(grader: Grader, gold: str | tuple[str, ...], answer: str) -> Grade:
    return grader.grade(GradeItem(grader.name, gold, answer))


def verdict(grader: Grader, gold: str, answer: str) -> bool:
    return judge(grader, gold, answer) is Grade.CORRECT


@pytest.mark.parametrize(
    "answer, right",
    [
        # The last solution tag counts, whatever else is said.
        ("<solution>yes, no, yes</solution>", True),
        ("<solution>\nYes, No, Yes\n</solution>", True),
        ("<solution>no, no, no</solution> <solution>yes, no, yes</solution>", True),
        ("<solution>yes, no, yes</solution> <solution>no, no, no</solution>", False),
        ("<solution>no, no, no</solution> **yes, no, yes**", False),
        ("In <solution> tags, no, <solution>yes, no, yes</solution>", True),
        ("<solution>They are yes, no, yes.</solution>", True),
        ("<solution>yes, no, yes, no</solution>", False),
        ("<solution>yes, no, yes, or no, no, no</solution>", False),
        # An unclosed or empty tag is none.
        ("<solution>no, no, no **yes, no, yes**", True),
        ("<solution></solution> **yes, no, yes**", True),
        # Else the last three such words in bold.
        ("**yes, no, yes**", True),
        ("**Yes**, **No**, and **yes**.", True),
        ("**no** at first, then **yes, no, yes**", True),
        ("**yes, no, yes** but **no**", False),
        ("**yes, no**", False),
        ("**The answer** is: yes, no, yes", True),
        ("**no, no, no** \\boxed{yes, no, yes}", False),
        # Else the last box.
        (r"\boxed{yes, no, yes}", True),
        (r"\boxed{\text{yes, no, yes}}", True),
        (r"\boxed{\textbf{yes}, \text{no}, \mathbf{yes}}", True),
        (r"\boxed{no, no, no}, or \boxed{yes, no, yes}", True),
        (r"\boxed{yes, no, yes}, or \boxed{no, no, no}", False),
        (r"yes, no, yes \boxed{no, no, no}", False),
        # Else the last plain triple.
        ("yes, no, yes", True),
        (" YES, NO, YES. ", True),
        ("no, no, no? Rather yes, no, yes.", True),
        ("yes, no, yes? Rather no, no, no.", False),
        ("yes, no, yes, no", False),
        ("no, yes, no, yes", True),
        ("yes and no and yes", False),
        ("yes, no, unknown", False),
        ("yes, no, yesterday", False),
    ],
)
def test_web_of_lies_settles_on_the_last_triple_of_the_strongest_mark(answer: str, right: bool) -> None:
    assert verdict(LIVEBENCH_WEB_OF_LIES, "yes, no, yes", answer) is right
    assert verdict(LIVEBENCH, "yes, no, yes", answer) is right


def test_a_zebra_list_needs_no_word_position_and_minds_none() -> None:
    assert verdict(LIVEBENCH_ZEBRA, "position 2, tea", "<solution>2, tea</solution>")
    assert verdict(LIVEBENCH_ZEBRA, "2, tea", "<solution>Position 2, tea</solution>")


def test_web_of_lies_counts_unknown_as_one_word() -> None:
    assert verdict(LIVEBENCH_WEB_OF_LIES, "yes, no, unknown", "<solution>It is yes, no, unknown</solution>")
    assert verdict(LIVEBENCH_WEB_OF_LIES, "unknown, no, unknown", "**unknown, no, unknown**")
    assert not verdict(LIVEBENCH_WEB_OF_LIES, "unknown, no, unknown", "**unknown, no, no**")


@pytest.mark.parametrize(
    "answer, right",
    [
        ("<solution>1, soy-milk, police-officer, d&b</solution>", True),
        ("<solution>1,Soy Milk , POLICE OFFICER,d&b</solution>", True),
        ("<solution>\n1, soy milk,\npolice officer, d&b\n</solution>", True),
        ("<solution>position 1, soy-milk, a police-officer, d&b music</solution>", True),
        ("<solution>number 1, drinks soy-milk, the police-officer, d&b</solution>", True),
        ("<solution>1 2, soy-milk, police-officer, d&b</solution>", False),
        ("<solution>12345, soy-milk, police-officer, d&b</solution>", False),
        ("<solution>1, soy-milk tea, police-officer, d&b</solution>", False),
        ("<solution>1, soy-milk, chef police-officer, d&b</solution>", False),
        ("<solution>1, soy-milk, chefpolice-officer, d&b</solution>", False),
        ("<solution>2, soy-milk, police-officer, d&b</solution>", False),
        ("<solution>soy-milk, 1, police-officer, d&b</solution>", False),
        ("<solution>1, soy-milk, police-officer</solution>", False),
        ("<solution>1, soy, police-officer, d&b</solution>", False),
        # Several tags are one list, of which the end counts.
        ("<solution>1, soy-milk</solution> and <solution>police-officer, d&b</solution>", True),
        ("<solution>1</solution><solution>soy-milk</solution><solution>police-officer, d&b</solution>", True),
        ("<solution>a, b, c, d</solution> no: <solution>1, soy-milk, police-officer, d&b</solution>", True),
        ("<solution>1, soy-milk, police-officer, d&b</solution> no: <solution>a, b, c, d</solution>", False),
        ("<solution>a, b, c, d</solution>\n1, soy-milk, police-officer, d&b", False),
        # One list is read from its start.
        ("<solution>1, soy-milk, police-officer, d&b, 5</solution>", True),
        ("<solution>0, 1, soy-milk, police-officer, d&b</solution>", False),
        # Else the box.
        (r"\boxed{1, soy-milk, police-officer, d&b}", True),
        (r"\boxed{1, \text{soy-milk}, \text{police-officer}, \text{d\&b}}", True),
        (r"\boxed{2, soy-milk, police-officer, d&b}" + f"\n{LIST}", False),
        # Else the last line, if it has as many commas.
        (f"So, after all, this is it:\n{LIST}", True),
        (f"{LIST}\nThat is all.", False),
        (f"{LIST}, 5", False),
        ("1\nsoy-milk\npolice-officer\nd&b", False),
        (LIST, True),
        ("1,\nsoy-milk,\npolice-officer,\nd&b", False),
    ],
)
def test_a_zebra_list_is_right_if_every_item_holds_its_gold(answer: str, right: bool) -> None:
    assert verdict(LIVEBENCH_ZEBRA, LIST, answer) is right
    assert verdict(LIVEBENCH, LIST, answer) is right


@pytest.mark.parametrize(
    "gold, answer, right",
    [
        ("reggae", "***reggae***", True),
        ("reggae", "***Reggae***", True),
        ("Reggae", "***reggae***", True),
        ("reggae", "***folk*** is wrong, it is ***reggae***.", True),
        ("reggae", "***reggae*** is wrong, it is ***folk***.", False),
        ("reggae", "***folk***, not reggae", False),
        ("seven", "***7***", True),
        ("7", "***7***", True),
        ("7", "***seven***", False),
        ("spy movies", "***spy***", True),
        ("spy movies", "***Spy movies***", True),
        ("spy", "***spy movies***", False),
        ("security-guard", "***security-guard***", True),
        ("d&b", "***d&b***", True),
        # With no bold, the last word.
        ("reggae", "The music is Reggae.", True),
        ("reggae", "The music is **reggae**", True),
        ("reggae", "reggae is the music", False),
        ("seven", "It is 7.", True),
        ("spy movies", "Those are spy", True),
        ("security-guard", "She is a security-guard.", True),
        # A bare answer is its own solution, and so is what stands in a tag or a box.
        ("reggae", "reggae", True),
        ("spy movies", "spy movies", True),
        ("d&b", "d&b", True),
        ("d&b", "<solution>d&b</solution>", True),
        ("reggae", "<solution>reggae</solution> is my answer", True),
        ("security-guard", r"\boxed{\text{security-guard}}", True),
        ("reggae", "***", False),
        ("reggae", "?!", False),
    ],
)
def test_a_zebra_word_is_the_last_in_bold_else_the_last(gold: str, answer: str, right: bool) -> None:
    assert verdict(LIVEBENCH_ZEBRA_WORD, gold, answer) is right


@pytest.mark.parametrize(
    "gold, answer, right",
    [
        ("4", "4", True),
        ("4", " Four ", True),
        ("4", "**4**", True),
        ("4", "**Four**", True),
        ("20", "**twenty**", True),
        ("0", "**zero**", True),
        ("4", "***4***", True),
        ("4", "**\n4\n**", True),
        # One of the last three passages in bold, if they do not name several values.
        ("4", "**4** **so** **there**", True),
        ("4", "**four**, that is **4**", True),
        ("4", "**4** **so** **there** **it is**", False),
        ("4", "**4** **5** **6**", False),
        ("6", "**4** **five** **6**", False),
        ("4", "**4**, a **triangle**", False),
        ("4", "**14**", False),
        ("4", "The answer is 4", False),
        ("4", "**5**, not 4", False),
        # A shape may be qualified, if not by much.
        ("triangle", "**equilateral triangle**", True),
        ("square", "**square pyramid**", True),
        ("triangle", "**triangle square**", False),
        ("tetrahedra", "**two tetrahedra**", True),
        ("tetrahedra", "**tetrahedra and a square pyramid**", False),
        ("triangle", "**circle square triangle**", False),
        ("triangle", "equilateral triangle", True),
        ("square pyramid", "**a square pyramid**", False),
        ("Square Pyramid", "**square pyramid**", True),
        # Length 2 * 6 + 5 = 17 is too much for "square".
        ("square", "**a perfect square**", True),
        ("square", "**a flawless square**", False),
        # Else the last box.
        ("4", r"\boxed{4}", True),
        ("4", r"**so** \boxed{\textbf{4}}", True),
        ("4", r"**5** \boxed{4}", False),
        ("5", r"**5** \boxed{4}", False),
        ("square", r"\boxed{\text{Square}}", True),
        ("4", r"\boxed{\mathbf{4}}", True),
        ("4", r"\boxed{4} \boxed{5}", False),
        ("4", r"\boxed{4", False),
        ("4", r"4, or rather \boxed{5}", False),
        ("4", "<solution>4</solution>", True),
        ("4", "<solution>4</solution> <solution>5</solution>", False),
        ("4", "<solution>4</solution> **5**", False),
    ],
)
def test_spatial_reads_the_last_bold_passages_else_the_box_else_the_bare_answer(
    gold: str, answer: str, right: bool
) -> None:
    assert verdict(LIVEBENCH_SPATIAL, gold, answer) is right
    assert verdict(LIVEBENCH, gold, answer) is right


@pytest.mark.parametrize(
    "gold, task",
    [
        ("yes, no, unknown", LIVEBENCH_WEB_OF_LIES),
        ("Yes,no,yes", LIVEBENCH_WEB_OF_LIES),
        ("yes, no", LIVEBENCH_ZEBRA),
        ("yes, no, maybe", LIVEBENCH_ZEBRA),
        ("2, folk, manager, project-manager", LIVEBENCH_ZEBRA),
        ("3", LIVEBENCH_SPATIAL),
        ("three", LIVEBENCH_ZEBRA_WORD),
        ("tetrahedra", LIVEBENCH_SPATIAL),
        ("Square pyramid", LIVEBENCH_SPATIAL),
        ("two octahedra", LIVEBENCH_SPATIAL),
        ("hexagon", LIVEBENCH_SPATIAL),
        ("reggae", LIVEBENCH_ZEBRA_WORD),
        ("7up", LIVEBENCH_ZEBRA_WORD),
        ("spy movies", LIVEBENCH_ZEBRA_WORD),
        ("squash", LIVEBENCH_ZEBRA_WORD),
    ],
)
def test_livebench_tells_the_task_by_the_gold(gold: str, task: Grader) -> None:
    # Each task reads these answers in its own way; together they tell which one judged.
    probes = [
        gold,
        f"It is {gold}",
        f"**{gold}** **no** **no**",
        f"a {gold}",
        f"<solution>no, {gold}</solution>",
    ]
    probes += [
        f"It is {gold.split()[0]}",
        f"so:\n{gold}",
        f"**{gold}** ***no***",
        f"<solution>the {gold}, and more</solution>",
    ]
    seen = {grader.name: [verdict(grader, gold, probe) for probe in probes] for grader in TASKS}
    assert [name for name, verdicts in seen.items() if verdicts == seen[task.name]] == [task.name]
    assert [verdict(LIVEBENCH, gold, probe) for probe in probes] == seen[task.name]


@ALL
@pytest.mark.parametrize(
    "answer, right",
    [
        ("<think>**5** and ***5***</think>4", True),
        ("<think>5</think> <think>6\n</think>\n4", True),
        ("<think>4</think> 5", False),
        ("4<think>5</think>", True),
    ],
)
def test_thoughts_do_not_count(grader: Grader, answer: str, right: bool) -> None:
    assert verdict(grader, "4", answer) is right


def test_a_thought_that_never_ends_is_read_like_any_text() -> None:
    assert verdict(LIVEBENCH_SPATIAL, "4", "<think>so it is **4**")
    assert verdict(LIVEBENCH_SPATIAL, "4", "<think>5</think>so <think> it is **4**")
    assert verdict(LIVEBENCH_SPATIAL, "4", "so it is **four**</think> **4**")
    assert verdict(LIVEBENCH_SPATIAL, "4", "</think>4")


@ALL
@pytest.mark.parametrize(
    "answer", ["", " \n", "\u200b\x00", "\ud800", "<think>4</think>", "<think></think>\n"]
)
def test_an_empty_answer_is_always_wrong(grader: Grader, answer: str) -> None:
    assert judge(grader, "4", answer) is Grade.UNPARSED_ANSWER


@ALL
@pytest.mark.parametrize("gold", ["", "\u200b", (), ",", "a, , b", "a, b,", "4" * 20_001])
@pytest.mark.parametrize("answer", ["", "4", "4" * (MAX_LENGTH + 1)])
def test_an_unreadable_gold_is_unscored_whatever_the_answer(grader: Grader, gold: str, answer: str) -> None:
    assert judge(grader, gold, answer) is Grade.UNPARSED_GOLD


@ALL
def test_any_gold_may_match(grader: Grader) -> None:
    assert judge(grader, ("4", "5"), "5") is Grade.CORRECT
    assert judge(grader, ("4", "5"), "6") is Grade.INCORRECT


HOSTILE = [
    "<think>", "</think>", "<think></think>", "<solution>", "</solution>", "<solution>x</solution>", "*", "**", "***",
    "**x", "***x", "**x** ", r"\boxed{", r"\boxed{{", "{", "yes, ", "yes, no, ", "unknown", "word ", "w", ",", "\n",
    " ", "\u200bé", "\ud800", "\x00a", "-", "position",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_answer_is_judged_in_linear_time(piece: str) -> None:
    answer = (piece * MAX_LENGTH)[: MAX_LENGTH - 1] + "x"
    for gold in ("yes, no, yes", LIST, "reggae", "4"):
        start = time.perf_counter()
        assert judge(LIVEBENCH, gold, answer) is Grade.INCORRECT
        assert time.perf_counter() - start < 2


@ALL
def test_an_answer_over_the_limit_is_refused(grader: Grader) -> None:
    assert judge(grader, "4", "4" * (MAX_LENGTH + 1)) is Grade.TOO_LARGE


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / path).read_text().splitlines()]


@needs_data
@pytest.mark.parametrize(
    "task, grader", [("spatial", LIVEBENCH_SPATIAL), ("web_of_lies_v2", LIVEBENCH_WEB_OF_LIES)]
)
def test_the_official_scores_of_a_model_are_reproduced(task: str, grader: Grader) -> None:
    golds = {row["question_id"]: row["ground_truth"] for row in rows(f"benchmarks/{task}.question.jsonl")}
    answers = rows(f"vectors/livebench/{task}.zft-community-8b-bs4.jsonl")
    scores = {
        row["question_id"]: row["score"]
        for row in rows(f"vectors/livebench/{task}.ground_truth_judgment.jsonl")
    }
    assert len(answers) == len(scores) == 50
    for row in answers:
        gold, answer = golds[row["question_id"]], row["choices"][0]["turns"][0]
        expected = scores[row["question_id"]] == 1
        assert verdict(grader, gold, answer) is expected, (gold, answer)
        assert verdict(LIVEBENCH, gold, answer) is expected, (gold, answer)


def task_golds() -> list[tuple[Grader, str]]:
    zebra = rows("benchmarks/zebra_puzzle.question.jsonl")
    return [
        *((LIVEBENCH_SPATIAL, row["ground_truth"]) for row in rows("benchmarks/spatial.question.jsonl")),
        *(
            (LIVEBENCH_WEB_OF_LIES, row["ground_truth"])
            for row in rows("benchmarks/web_of_lies_v2.question.jsonl")
        ),
        *(
            (
                LIVEBENCH_ZEBRA_WORD if row["livebench_release_date"] < "2024-11-25" else LIVEBENCH_ZEBRA,
                row["ground_truth"],
            )
            for row in zebra
        ),
    ]


@needs_data
@pytest.mark.parametrize(
    "form", ["{}", "<solution>{}</solution>", r"\boxed{{{}}}", "So the answer is:\n\n{}", "bold"]
)
def test_every_gold_is_right_against_itself(form: str) -> None:
    bold = {
        LIVEBENCH_SPATIAL: "So: **{}**",
        LIVEBENCH_WEB_OF_LIES: "So: **{}**",
        LIVEBENCH_ZEBRA_WORD: "So: ***{}***.",
    }
    golds = task_golds()
    assert len(golds) == 200
    for grader, gold in golds:
        if form.startswith("So") and (grader is LIVEBENCH_SPATIAL or gold.endswith(" movies")):
            continue  # in a text, a plain shape is not looked for, and a plain word is looked for alone
        text = (bold.get(grader, "So: <solution>{}</solution>.") if form == "bold" else form).format(gold)
        assert verdict(grader, gold, text), (grader.name, gold)
        if not (form.startswith("So") and gold.isdigit()):
            assert verdict(LIVEBENCH, gold, text), gold
