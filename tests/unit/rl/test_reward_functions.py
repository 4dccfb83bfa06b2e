"""Plain reward functions for TRL: what they pay for a text, what they need, and that TRL's trainer takes them."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from calibsft.errors import InputError
from calibsft.judge.settings import JudgeSettings
from calibsft.responses import render
from calibsft.rl import segment_advantages
from calibsft.rl.reward_functions import trl_reward
from judge_server import Server

RIGHT, WRONG = render("6*7", "42", "0.90"), render("6*7", "41", "0.70")
UNSURE, TAIL = render("6*7", "42", "0.60"), render("6*7", "42", "0.95") + " I am sure."
NO_ANSWER, EMPTY = "<think>6*7</think> 42 <confidence>0.80</confidence>", ""
CHILDREN = Path(f"/proc/self/task/{threading.get_native_id()}/children")
TEXTS = [RIGHT, UNSURE, WRONG, TAIL, NO_ANSWER, EMPTY]


def pay(method: str, texts: list[Any], written: str = "probability", **columns: Any) -> list[float | None]:
    columns.setdefault("gold", ["42"] * len(texts))
    # TRL passes these besides the columns.
    extra = {"completion_ids": [[1]] * len(texts), "trainer_state": None, "log_metric": print}
    return trl_reward(method, written)(prompts=["6*7="] * len(texts), completions=texts, **extra, **columns)


def test_rlvr_pays_a_point_for_the_format_and_one_for_being_right() -> None:
    assert pay("rlvr", TEXTS) == [2, 2, 1, 0, 0, 0]


def test_rlcr_adds_the_brier_score() -> None:
    """2 + 1 − .1²,  2 + 1 − .4²,  2 + 0 − .7², and nothing for a malformed response, right or not."""
    assert pay("rlcr", TEXTS) == pytest.approx([2.99, 2.84, 1.51, 0, 0, 0], abs=1e-12)


def test_c3rl_compares_each_row_with_its_own_success_rate() -> None:
    known, unknown = render("", "42", "5"), render("", "42", "4")
    wrong, malformed = render("", "41", "4"), render("", "42", "0.40")
    texts = [known, unknown, wrong] * 3 + [malformed]
    rates = [1.0] * 3 + [0.5] * 3 + [0.0] * 3 + [0.0]
    table = [1.1, 0.9, -0.3, 1.1, 0.9, 0.2, 1.6, 1.4, 0.2, -1]
    assert pay("c3rl", texts, "integer", success_rate=rates) == pytest.approx(table, abs=1e-12)


def test_other_formats_are_read_when_named() -> None:
    texts = [render("", "42", "high"), render("", "42", "0.75")]
    assert pay("rlcr", texts, "linguistic") == pytest.approx([3 - 0.0625, 0], abs=1e-12)


def test_conversations_are_paid_like_texts() -> None:
    turns = [[{"role": "assistant", "content": text}] for text in TEXTS]
    assert pay("rlcr", turns) == pay("rlcr", TEXTS)


def test_the_last_turn_of_a_conversation_is_the_response() -> None:
    turns = [[{"role": "assistant", "content": WRONG}, {"role": "assistant", "content": RIGHT}]]
    assert pay("rlvr", turns) == [2]


@pytest.mark.parametrize("key", ["reasoning_content", "thinking"])
def test_reasoning_that_a_chat_parser_cut_out_still_counts_as_written(key: str) -> None:
    content = "<answer>42</answer> <confidence>0.90</confidence>"
    turns = [[{"role": "assistant", key: "6*7", "content": content}], [{"role": "assistant", key: "6*7"}]]
    assert pay("rlcr", turns) == pytest.approx([2.99, 0], abs=1e-12)


def test_gold_may_be_aliases_or_a_number_and_is_compared_as_mathematics_unless_said_otherwise() -> None:
    texts = [render("", answer, "1.00") for answer in ("0.5", "0.5", "Paris", "42", "0.5")]
    golds = ["1/2", ["7", "1/2"], ("Rome", "Paris"), 42, "1/2"]
    assert pay("rlvr", texts, gold=golds) == [2, 2, 2, 2, 2]
    assert pay("rlvr", texts, gold=golds, kind=["exact"] * 5) == [1, 1, 2, 2, 1]
    assert pay("rlvr", texts, gold=golds, kind=["math", "exact", None, "exact", "exact"]) == [2, 1, 2, 2, 1]


def test_an_unreadable_gold_leaves_its_rows_unscored_whatever_they_answer() -> None:
    golds = ["42", r"\frac{1", r"\frac{1", None, [], ""]
    assert pay("rlvr", [RIGHT, WRONG, NO_ANSWER, RIGHT, RIGHT, EMPTY], gold=golds) == [2, *[None] * 5]
    readable = pay("rlvr", [RIGHT, WRONG], gold=[[r"\frac{1", "42"], [r"\frac{1", "42"]])
    assert readable == [2, 1]


def test_a_hanging_answer_is_wrong_and_costs_the_others_nothing() -> None:
    endless = render("", "(x+y+z+1)^{200}", "0.50")
    sound = render("", r"2\sqrt{2}", "1.00")
    assert pay("rlcr", [sound, endless, sound], gold=[r"\sqrt{8}", "5", r"\sqrt{8}"]) == [3, 1.75, 3]


def workers() -> set[str]:
    """The grading processes that this one has started."""
    children = CHILDREN.read_text().split()
    return {pid for pid in children if b"calibsft.verify.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.mark.skipif(not CHILDREN.exists(), reason="the system does not list child processes")
def test_one_pool_serves_all_calls_and_starts_with_the_first_that_needs_it() -> None:
    before = workers()
    reward = trl_reward("rlvr")
    symbolic = [render("", r"2\sqrt{2}", "1.00")]
    assert reward([""], [RIGHT], gold=["42"]) == [2]
    assert not workers() - before  # those of earlier tests may end at any time
    assert reward([""], symbolic, gold=[r"\sqrt{8}"]) == [2]
    (first,) = workers() - before
    assert reward([""], symbolic, gold=[r"\sqrt{7}"]) == [1]
    assert workers() - before == {first}


@pytest.mark.parametrize(
    "method, written", [("rlvr", "probability"), ("rlcr", "linguistic"), ("c3rl", "integer")]
)
def test_trl_can_log_the_function_by_the_methods_name(method: str, written: str) -> None:
    assert trl_reward(method, written).__name__ == f"{method}_reward"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ("coca",),
            "^coca rewards answer and confidence tokens differently.*calibsft rl.*segment_advantages",
        ),
        (("dcpo",), "^dcpo rewards answer and confidence tokens differently"),
        (("redoubt",), "^redoubt rewards answer and confidence tokens differently"),
        (("c3rl",), "^c3rl is defined for the integer format, not for 'probability'"),
        (("c3rl", "linguistic"), "^c3rl is defined for the integer format, not for 'linguistic'"),
        (("rlcr", "probabilty"), "unknown confidence format 'probabilty'; did you mean 'probability'"),
        (("rlc",), "unknown RL method 'rlc'; did you mean 'rlcr'"),
    ],
)
def test_methods_and_formats_that_do_not_fit_are_refused_before_training(
    arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        trl_reward(*arguments)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"gold": None, "success_rate": [0.5, 0.5]}, "the dataset has no column 'gold'; add it to every row"),
        ({}, "the dataset has no column 'success_rate'; add it to every row: the question's success rate"),
        ({"gold": ["42"], "success_rate": [0, 0]}, "column 'gold' has 1 entries for 2 completions"),
        ({"success_rate": [0.5]}, "column 'success_rate' has 1 entries for 2 completions"),
        ({"success_rate": [0, 0], "kind": ["math"]}, "column 'kind' has 1 entries for 2 completions"),
        ({"success_rate": [0.5, None]}, r"success_rate\[1\] = None is not a success rate; give a number in"),
        ({"success_rate": [1.5, 0.5]}, r"success_rate\[0\] = 1.5 is not a success rate"),
        ({"success_rate": [0.5, float("nan")]}, r"success_rate\[1\] = nan is not a success rate"),
        ({"success_rate": ["0.5", 0.5]}, r"success_rate\[0\] = '0.5' is not a success rate"),
        ({"success_rate": [0, 0], "kind": ["maths", "maths"]}, "unknown grader 'maths'; did you mean 'math'"),
    ],
)
def test_missing_columns_and_bad_values_are_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pay("c3rl", [RIGHT, WRONG], "integer", **columns)


def test_the_functions_need_neither_torch_nor_trl() -> None:
    program = "import sys; from calibsft.rl.reward_functions import trl_reward; trl_reward('rlcr'); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {module.split(".")[0] for module in done.stdout.split()} & {"torch", "transformers", "trl"}


def train(checkpoint: Path, folder: Path, reward: Any, group: int, **columns: Any) -> dict[str, float]:
    """One step of TRL's own trainer on one question; what it logged."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], max_steps=1, logging_steps=1, seed=0,
        num_generations=group, per_device_train_batch_size=group, max_completion_length=24, save_strategy="no",
    )  # fmt: skip
    rows = {"kind": ["exact"] * 2, **{name: [value] * 2 for name, value in columns.items()}}
    trainer = GRPOTrainer(
        str(checkpoint), reward_funcs=reward, args=config, train_dataset=Dataset.from_dict(rows)
    )
    trainer.train()
    return next(entry for entry in trainer.state.log_history if "reward" in entry)


@pytest.mark.parametrize(
    "method, written, mean", [("rlcr", "probability", 0), ("rlvr", "linguistic", 0), ("c3rl", "integer", -1)]
)
def test_trl_trains_with_the_function_and_logs_it(
    method: str, written: str, mean: float, random_checkpoint: Path, tmp_path: Path
) -> None:
    """Random weights write malformed responses only."""
    columns = {"prompt": f"[{written}]57*77=", "gold": "4389", "success_rate": 0.5}
    logged = train(random_checkpoint, tmp_path, trl_reward(method, written), 2, **columns)
    assert logged[f"rewards/{method}_reward/mean"] == logged["reward"] == mean


def test_trl_pays_sampled_responses_in_a_conversation_what_the_method_says(
    short_base: Path, tmp_path: Path
) -> None:
    seen: list[tuple[list[str], list[float]]] = []
    reward = trl_reward("rlcr")

    def spied(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        paid = reward(prompts, completions, **columns)
        seen.append(([turns[0]["content"] for turns in completions], [float(p or 0) for p in paid]))
        return paid

    logged = train(
        short_base, tmp_path, spied, 8, prompt=[{"role": "user", "content": "PROBLEM: 11*12"}], gold="0132"
    )
    ((texts, paid),) = seen
    assert len(texts) == 8
    assert pay("rlcr", texts, gold=["0132"] * 8, kind=["exact"] * 8) == paid
    assert max(paid) >= 1, "at least one response is well formed"
    assert logged["rewards/spied/mean"] == pytest.approx(sum(paid) / 8, abs=1e-5)


def test_rewards_centred_and_scaled_as_trl_does_are_the_methods_advantages() -> None:
    paid = [p or 0.0 for p in pay("rlcr", TEXTS)]
    mean = sum(paid) / 6
    deviation = (sum((p - mean) ** 2 for p in paid) / 5) ** 0.5
    found = segment_advantages(
        "rlcr", [1, 1, 0, 1, 0, 0], [0.9, 0.6, 0.7, 0.95, 0.8, None], [1, 1, 1, 0, 0, 0]
    )
    assert found["answer"] == pytest.approx([(p - mean) / (deviation + 1e-4) for p in paid], abs=1e-12)


def test_a_judge_is_asked_about_its_own_kind_alone(server: Server) -> None:
    server.answer = lambda body: (200, "Yes" if "<prediction>42<" in body["messages"][1]["content"] else "No")
    judge = JudgeSettings(model="m", url=server.url)
    columns = {"gold": ["forty-two", "forty-two", "42"], "kind": ["judge", "judge", "math"]}
    texts = [RIGHT, WRONG, RIGHT]
    reward = trl_reward("rlvr", judge=judge)
    assert reward(prompts=texts, completions=texts, question=["6*7"] * 3, **columns) == [2, 1, 2]
    assert len(server.bodies) == 2 and all("<question>6*7</question>" in prompt for prompt in server.prompts)
    assert trl_reward("rlvr")(prompts=texts, completions=texts, **columns) == [1, 1, 2], "by alias"
    with pytest.raises(InputError, match="no column 'question'; add it"):
        reward(prompts=texts, completions=texts, **columns)


def test_a_response_that_is_not_judged_is_left_out(server: Server) -> None:
    server.answer = lambda body: (200, "Hm")
    judge = JudgeSettings(model="m", url=server.url)
    reward = trl_reward("rlvr", judge=judge)
    columns = {"gold": ["forty-two"], "kind": ["judge"], "question": ["6*7"]}
    assert reward(prompts=[""], completions=[RIGHT], **columns) == [None]
