"""The scripted engine: says what it was given, to the question that it was given for, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from transformers import PreTrainedTokenizerBase

from calibsft.benchmarks import get_benchmark
from calibsft.engines import EngineSettings, load_engine
from calibsft.engines.engine import Completion, Request, Sampling
from calibsft.engines.scripted import ScriptedEngine, ScriptedSettings
from calibsft.errors import InputError
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.responses.spans import decode
from calibsft.rollouts.collect import Collector
from calibsft.schema import Question
from command import Command

WHOLE = "<think>12*3=36</think><answer>0036</answer><confidence>0.{}</confidence>"
SCRIPT = {"12*3": [WHOLE.format(20), WHOLE.format(80)], "7*8": ["", "7"], "9*9": [WHOLE.format(50)]}
ROWS = [
    {"question": question, "response": text} for i in range(2) for question in ("12*3", "7*8")
    for text in [SCRIPT[question][i]]
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build_tokenizer()


@pytest.fixture(scope="module")
def engine(tokenizer: PreTrainedTokenizerBase) -> ScriptedEngine:
    return ScriptedEngine(tokenizer, SCRIPT)


def asked(engine: ScriptedEngine, question: str, samples: int, format_name: str = "probability") -> Request:
    asking = Prompting(FORMATS[format_name])
    seeds = tuple(range(samples))
    return Request(asking.ids(engine.tokenizer, question), seeds, turns=asking.turns(question))


@pytest.mark.parametrize("format_name", FORMATS)
def test_samples_are_the_texts_in_order_whatever_the_format(engine: ScriptedEngine, format_name: str) -> None:
    wanted = [asked(engine, "7*8", 2, format_name), asked(engine, "12*3", 2, format_name)]
    done: list[tuple[int, int, Completion]] = []
    rows = engine.generate(wanted, Sampling(), lambda *found: done.append(found))
    end = engine.tokenizer.eos_token_id
    for question, row in zip(("7*8", "12*3"), rows, strict=True):
        assert [decode(engine.tokenizer, c.token_ids[:-1]) for c in row] == SCRIPT[question]
        for completion in row:
            assert completion.finished and completion.token_ids[-1] == end
            assert len(completion.logprobs) == len(completion.entropies) == len(completion.token_ids)
            assert np.isnan(completion.logprobs).all() and np.isnan(completion.entropies).all()
    assert done == [(i, j, completion) for i, row in enumerate(rows) for j, completion in enumerate(row)]


def test_samples_that_are_done_are_left_out(engine: ScriptedEngine) -> None:
    request = replace(asked(engine, "7*8", 2), done=frozenset({0}))
    seen: list[tuple[int, int, Completion]] = []
    ((completion,),) = engine.generate([request], Sampling(), lambda *found: seen.append(found))
    assert decode(engine.tokenizer, completion.token_ids[:-1]) == SCRIPT["7*8"][1]
    assert seen == [(0, 1, completion)]


def test_a_text_is_cut_at_the_length_limit_and_ends_at_a_stop_string(engine: ScriptedEngine) -> None:
    wanted = [asked(engine, "12*3", 1)]
    ((cut,),) = engine.generate(wanted, Sampling(max_new_tokens=4))
    assert decode(engine.tokenizer, cut.token_ids) == "<think>12*" and not cut.finished
    ((stopped,),) = engine.generate(wanted, Sampling(stop=("</answer>", "=3")))
    assert decode(engine.tokenizer, stopped.token_ids) == "<think>12*3=3" and stopped.finished


def test_its_rollouts_are_exact_and_have_no_figures(engine: ScriptedEngine, tmp_path: Path) -> None:
    questions = [Question(f"q{text}", text, "0", "exact", "d") for text in ("12*3", "7*8")]
    collector = Collector(engine, Prompting(FORMATS["probability"]), Sampling(), 0)
    collector.collect(questions, lambda _: 2, tmp_path, 1, "rollout")
    rows = pl.read_parquet(tmp_path / "part-*.parquet").sort("question_id", "sample")
    assert rows["response"].to_list() == [*SCRIPT["12*3"], *SCRIPT["7*8"]]
    assert rows["mean_logprob"].null_count() == rows["confidence_entropy"].null_count() == 4


def test_a_question_without_enough_responses_is_named(engine: ScriptedEngine) -> None:
    with pytest.raises(InputError, match=r"1 responses to the question '9\*9' and 2 are asked for; add some"):
        engine.generate([asked(engine, "9*9", 2)], Sampling())
    with pytest.raises(InputError, match=r"no response to the prompt that ends with '.*5\*5='; add some"):
        engine.generate([asked(engine, "5*5", 1)], Sampling())


def test_what_the_tokenizer_cannot_write_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    unwritten = ScriptedEngine(tokenizer, {"1*1": ["one"]})
    with pytest.raises(InputError, match=r"does not reproduce a response: 'one' becomes"):
        unwritten.generate([asked(unwritten, "1*1", 1)], Sampling())


def test_it_knows_no_probabilities(engine: ScriptedEngine) -> None:
    with pytest.raises(InputError, match=r"no probabilities of tokens; choose another one in engine.name"):
        engine.next_logprobs([(1,)], [2])


def write(path: Path, rows: list[dict[str, str]]) -> EngineSettings:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        frame = pl.DataFrame(rows)
        frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return ScriptedSettings(responses=path)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_gives_each_question_its_rows_in_order(
    tmp_path: Path, random_checkpoint: Path, ending: str
) -> None:
    engine = load_engine(write(tmp_path / f"r.{ending}", ROWS), str(random_checkpoint))
    for question in ("12*3", "7*8"):
        turns = Prompting(FORMATS["integer"]).turns(question)
        (row,) = engine.generate([Request((), (0, 1), turns=turns)], Sampling())
        assert [decode(engine.tokenizer, c.token_ids[:-1]) for c in row] == SCRIPT[question]


@pytest.mark.parametrize(
    "rows, told",
    [
        ([{"question_id": "1", "response": "1"}], "column 'question' is missing"),
        ([{"question": "1*1", "answer": "1"}], "column 'response' is missing"),
    ],
)
def test_a_file_that_is_no_script_is_refused_before_the_model_is_looked_for(
    tmp_path: Path, rows: list[dict[str, str]], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        load_engine(write(tmp_path / "r.csv", rows), "no such model")


def test_a_run_replays_a_script_from_rollouts_to_its_report(
    calibsft: Command, random_checkpoint: Path, tmp_path: Path
) -> None:
    says = "<think></think><answer>{}</answer><confidence>{}</confidence>"
    questions = list(get_benchmark("multiply-1").load(None))[:2]
    script = [
        (question.text, says.format(answer, confidence))
        for question in questions
        for answer, confidence in ((question.gold, "0.75"), ("1", "0.25"))
    ]
    write(tmp_path / "script.csv", [{"question": q, "response": r} for q, r in script])
    changes = (
        f"model={random_checkpoint}", "engine={name: scripted, responses: script.csv}", "pipelines=[[]]",
        "eval.benchmarks=[multiply-1]", "eval.limit=2", "eval.samples=2", "device=cpu",
    )  # fmt: skip
    code, _, err = calibsft(
        "run", "tiny", "--out", "run", *(word for change in changes for word in ("--set", change))
    )
    assert code == 0, err
    metrics = json.loads(Path("run/eval-base/metrics.json").read_text())["overall"]
    assert metrics["n"] == 4 and metrics["pass@1"] == 0.5 and metrics["brier"] == pytest.approx(1 / 16)
    assert Path("run/report/report.html").is_file()
