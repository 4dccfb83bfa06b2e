"""Logs of other programs: chats, Inspect, lm-evaluation-harness, each recognised by its content."""

import gzip
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from calibsft.errors import InputError
from calibsft.files import packed
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.logs import log_of
from calibsft.files.reading import column_names, read_columns, read_table
from calibsft.metrics.files import ScoredFile
from calibsft.report.sources import read_sources
from calibsft.verify.files import read_responses
from command import Command

SAID = "<think>{0}</think> <answer>{0}</answer> <confidence>{1}</confidence>"


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


# Chats


def chat(question: str, said: Any, **more: Any) -> dict[str, Any]:
    turns = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": question},
        {"role": "assistant", "content": said},
    ]
    return {"messages": turns, **more}


CHATS = [
    chat("2+3?", SAID.format(5, "0.90"), correct=True, gold="5", id=1),
    chat("2+3?", [{"type": "text", "text": SAID.format(6, "0.40")}], correct=False, gold="5", id=2),
    chat("7*8?", SAID.format(56, "sure"), correct=True, gold="56", id=3),
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.ndjson"])
def test_a_chat_states_its_confidence(tmp_path: Path, name: str) -> None:
    rows = ScoredFile(lines(tmp_path / name, CHATS), "counted").read()
    assert rows["confidence"].to_list() == [0.9, 0.4, None]
    assert rows["correct"].to_list() == [True, False, True]
    assert rows["reason"].to_list() == ["ok", "ok", "bad_confidence"]
    first, second, third = rows["question_id"]
    assert first == second != third  # the same turns before the response


def test_a_chat_is_read_as_strictly_as_everywhere(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl", [chat("?", SAID.format(1, c), correct=1) for c in ("1e-3", "00.5", "0.5")]
    )
    assert ScoredFile(path, "counted").read()["confidence"].to_list() == [None, None, 0.5]


def test_percentages_in_chats_are_named_with_the_option(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("?", SAID.format(1, "85%"), correct=1)])
    with pytest.raises(InputError, match=r"looks like percentages.*add --scale percent"):
        ScoredFile(path, None).read()


def test_decisions_act_on_no_malformed_chat(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("?", "<confidence>0.9</confidence>", correct=True)])
    assert ScoredFile(path, "counted").read()["confidence"].to_list() == [0.9]
    assert ScoredFile(path, "counted", for_decisions=True).read()["confidence"].to_list() == [None]


@pytest.mark.parametrize(("scale", "written", "value"), [("percent", "85%", 0.85), ("digit", "9", 1.0)])
def test_a_chat_states_its_confidence_on_the_scale(
    tmp_path: Path, scale: str, written: str, value: float
) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("?", SAID.format(1, written), correct=1)])
    rows = ScoredFile(path, "error", dialect=Dialect.of(scale=scale), for_decisions=True).read()
    assert rows["confidence"].to_list() == [value]


def test_a_column_of_confidences_counts_instead_of_the_text(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("?", "no tags", correct=1, conf=0.3, confidence=0.6)])
    for columns, value in (({}, 0.6), ({"confidence": "conf"}, 0.3)):
        rows = ScoredFile(path, "error", dialect=Dialect.of(columns), for_decisions=True).read()
        assert rows["confidence"].to_list() == [value]


def test_chats_are_verified(calibsft: Command, tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", CHATS)
    code, out, err = calibsft(
        "verify", "a.jsonl", "--out", "verdicts", "--columns", "question_id=id", "--json"
    )
    assert code == 0, err
    counts = json.loads(out)["overall"]
    assert counts["grades"] == {"correct": 2, "incorrect": 1} and counts["reasons"] == {"bad_confidence": 1}
    assert calibsft("score", "verdicts")[0] == 0


def test_the_question_and_the_response_of_a_chat_are_texts(tmp_path: Path) -> None:
    rows = read_responses(lines(tmp_path / "a.jsonl", CHATS))
    assert rows["question"].to_list() == ["2+3?", "2+3?", "7*8?"]
    assert rows["response"][1] == SAID.format(6, "0.40") and "stated" not in rows.columns


def test_reasoning_apart_from_the_text_is_put_back(tmp_path: Path) -> None:
    row = chat("?", "<answer>1</answer> <confidence>0.50</confidence>", correct=1)
    row["messages"][-1]["reasoning_content"] = "one"
    rows = ScoredFile(lines(tmp_path / "a.jsonl", [row]), "error").read()
    assert rows["well_formed"].to_list() == [True]


def test_chats_with_responses_are_tables(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("?", "x", response="y", confidence=0.5, correct=1)])
    assert log_of(path) is None and read_columns(path, ["response"])["response"].to_list() == ["y"]


def test_files_of_questions_may_hold_messages(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", [{"question": "?", "messages": [{"role": "user", "content": "?"}]}])
    assert read_table(path, ["question"]).height == 1  # not a file of responses


def test_a_chat_without_a_response_is_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [CHATS[0], {"messages": [{"role": "user", "content": "?"}]}])
    with pytest.raises(InputError, match="row 2: 'messages' holds no turn of the assistant"):
        ScoredFile(path, None).read()


def test_a_chat_without_verdicts_is_sent_to_verify(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "correct"} for row in CHATS]
    with pytest.raises(InputError, match="grade them first with calibsft verify"):
        ScoredFile(lines(tmp_path / "a.jsonl", rows), None).read()


def test_hostile_chats_stay_text(tmp_path: Path) -> None:
    hostile = '<script>\x1b[31m\u202e</script>"\ud800'
    rows = read_responses(lines(tmp_path / "a.jsonl", [chat(hostile, hostile, gold="1")]))
    assert rows["response"][0].startswith("<script>\x1b[31m") and rows["response"][0].endswith('"?')


# lm-evaluation-harness, as `EvaluationTracker.save_results_samples` of 0.4.13 writes it


def harness(doc_id: int, texts: Sequence[str], **metrics: float) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc": {"question": f"{doc_id}+1?", "answer": str(doc_id + 1)},
        "target": str(doc_id + 1),
        "arguments": {"gen_args_0": {"arg_0": f"Q: {doc_id}+1?\nA:", "arg_1": {"until": ["\n\n"]}}},
        "resps": [list(texts)],
        "filtered_resps": ["5"],
        "filter": "strict-match",
        "metrics": list(metrics),
        "doc_hash": "0" * 64,
        "prompt_hash": "1" * 64,
        "target_hash": "2" * 64,
        **metrics,
    }


HARNESS = [
    harness(4, [SAID.format(5, "0.80")], exact_match=1.0),
    harness(6, [SAID.format(5, "0.30")], exact_match=0.0),
]


def test_samples_of_the_harness_are_scored(tmp_path: Path) -> None:
    path = lines(tmp_path / "samples_gsm8k_2026-01-01.jsonl", HARNESS)
    rows = ScoredFile(path, "error").read()
    assert rows["confidence"].to_list() == [0.8, 0.3] and rows["correct"].to_list() == [True, False]
    assert rows["question_id"].to_list() == ["4", "6"]
    table = read_responses(path)
    assert table["gold"].to_list() == [["5"], ["7"]] and table["question"][0] == "Q: 4+1?\nA:"


def test_several_metrics_are_chosen_from(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [harness(4, [SAID.format(5, "0.80")], exact_match=1.0, f1=0.5)])
    with pytest.raises(InputError, match="'exact_match' is there; add --columns correct=exact_match"):
        ScoredFile(path, None).read()
    chosen = Dialect.of({"correct": "exact_match"})
    assert ScoredFile(path, "error", dialect=chosen).read()["correct"].to_list() == [True]


def test_a_metric_of_several_samples_says_nothing_of_one(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [harness(4, ["a", "b"], exact_match=1.0)])
    assert read_responses(path)["sample"].to_list() == [0, 1]
    assert "correct" not in column_names(path)


def test_likelihoods_are_no_responses(tmp_path: Path) -> None:
    row = harness(4, [], acc=1.0) | {"resps": [[["-1.5", "False"]], [["-2.5", "False"]]]}
    with pytest.raises(InputError, match="row 1: 'resps' holds no generated text"):
        ScoredFile(lines(tmp_path / "a.jsonl", [row]), None).read()


# Inspect, as `EvalRecorder` and `JSONRecorder` of 0.3.285 write it


def sample(
    number: int, epoch: int, said: str, scores: dict[str, Any] | None, stop: str = "stop"
) -> dict[str, Any]:
    return {
        "id": number,
        "epoch": epoch,
        "input": [{"role": "user", "content": f"{number}+1?"}] if number % 2 else f"{number}+1?",
        "target": [str(number + 1), "many"],
        "messages": [],
        "output": {
            "model": "m",
            "choices": [{"message": {"role": "assistant", "content": said}, "stop_reason": stop}],
        },
        "scores": scores,
    }


def score(value: Any) -> dict[str, Any]:
    return {"value": value, "answer": "5", "explanation": "why", "history": []}


INSPECT = [
    sample(4, 1, SAID.format(5, "0.80"), {"match": score("C")}),
    sample(4, 2, SAID.format(6, "0.30"), {"match": score("I")}),
    sample(5, 1, SAID.format(5, "0.60"), {"match": score("N")}),
    sample(5, 2, "", None),
]
SPEC = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "openai/m"}, "results": None}


def archive(path: Path, samples: Sequence[dict[str, Any]] = INSPECT) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("_journal/start.json", json.dumps(SPEC))
        for one in samples:
            made.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        made.writestr("header.json", json.dumps(SPEC))
    return path


def as_json(path: Path, samples: Sequence[dict[str, Any]] = INSPECT) -> Path:
    path.write_text(json.dumps({**SPEC, "samples": samples}, indent=2))
    return path


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_samples_of_inspect_are_scored(tmp_path: Path, name: str) -> None:
    path = (archive if name.endswith(".eval") else as_json)(tmp_path / name)
    file = ScoredFile(path, "error")
    rows = file.read()
    assert rows["confidence"].to_list() == [0.8, 0.3, 0.6]
    assert rows["correct"].to_list() == [True, False, False]
    assert rows["dataset"].unique().to_list() == ["sums"] and file.dropped == 1  # the one without a score
    table = read_responses(path)
    assert table["gold"][0].to_list() == ["5", "many"]
    assert table["question"].to_list() == ["4+1?", "4+1?", "5+1?", "5+1?"]
    assert table["sample"].to_list() == [0, 1, 0, 1]


def test_several_scorers_are_chosen_from(tmp_path: Path) -> None:
    several = [
        sample(4, 1, SAID.format(5, "0.80"), {"judge": score({"right": 1, "style": 0.5}), "f1": score(0.5)})
    ]
    path = as_json(tmp_path / "log.json", several)
    assert {"judge.right", "judge.style", "f1"} <= set(column_names(path))
    with pytest.raises(InputError, match="'correct' is missing, but there are responses"):
        ScoredFile(path, None).read()
    chosen = Dialect.of({"correct": "judge.right"})
    assert ScoredFile(path, "error", dialect=chosen).read()["correct"].to_list() == [True]


def test_partial_credit_is_refused_by_its_row(tmp_path: Path) -> None:
    path = as_json(
        tmp_path / "log.json", [*INSPECT[:2], sample(6, 1, SAID.format(5, "0.60"), {"match": score("P")})]
    )
    with pytest.raises(InputError, match="row 3: correct 'P' is neither true nor false"):
        ScoredFile(path, None).read()


def test_a_response_at_its_limit_is_not_finished(tmp_path: Path) -> None:
    cut = sample(4, 1, SAID.format(5, "0.80"), {"match": score("C")}, stop="max_tokens")
    assert read_responses(as_json(tmp_path / "log.json", [cut]))["finished"].to_list() == [False]


def test_members_packed_with_zstandard_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's zipfile learns to write them in 3.14: the member is stored packed, and its header says how.
    path = tmp_path / "log.eval"
    plain = {"header.json": json.dumps(SPEC), "samples/4_epoch_1.json": json.dumps(INSPECT[0])}
    with zipfile.ZipFile(path, "w") as made:
        for name, text in plain.items():
            halves = text[:40].encode(), text[40:].encode()  # several frames, as Inspect writes
            made.writestr(name, b"".join(pa.compress(half, "zstd", asbytes=True) for half in halves))
        for member in made.infolist():
            member.compress_type, member.file_size = 93, len(plain[member.filename])
    assert ScoredFile(path, "error").read()["confidence"].to_list() == [0.8]


def test_an_archive_that_grows_beyond_reason_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST_UNPACKED", 100_000)
    big = sample(4, 1, "x" * 10_000_000, {"match": score("C")})
    with pytest.raises(InputError, match="it unpacks to more than"):
        ScoredFile(archive(tmp_path / "log.eval", [big]), None).read()


@pytest.mark.parametrize("content", [b"PK\x03\x04 broken", b"", b"{}"])
def test_a_broken_archive_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"log\.eval: "):
        ScoredFile(path, None).read()


def test_other_json_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"samples": []}')
    with pytest.raises(InputError, match="unknown file type"):
        ScoredFile(path, None).read()


def test_logs_are_whole_tables_too(tmp_path: Path) -> None:
    table = read_table(archive(tmp_path / "log.eval"), dialect=OURS)
    assert table["correct"].to_list() == ["true", "false", "false", None]
    assert table["model"].unique().to_list() == ["openai/m"]


def test_logs_go_through_the_commands(calibsft: Command, tmp_path: Path) -> None:
    many = [
        sample(
            number,
            1,
            SAID.format(5, "0.90" if number % 4 else "0.20"),
            {"match": score("C" if number % 4 else "I")},
        )
        for number in range(200)
    ]
    archive(tmp_path / "log.eval", many)
    for words in (
        ("score", "log.eval", "--intervals"), ("diagnose", "log.eval"), ("certify", "log.eval", "--risk", 0.2),
        ("verify", "log.eval", "--out", "verdicts"),
    ):  # fmt: skip
        code, _, err = calibsft(*words)
        assert code == 0, (words, err)
    assert pl.read_parquet(tmp_path / "verdicts" / "part-*.parquet").height == 200


def test_a_report_shows_what_a_log_says(tmp_path: Path) -> None:
    [said] = read_sources([archive(tmp_path / "log.eval")], responses=100).responses
    assert said.rows["response"].to_list() == [
        one["output"]["choices"][0]["message"]["content"] for one in INSPECT[:3]
    ]
    assert said.questions["question"].to_list() == ["4+1?", "5+1?"]
    assert said.questions["gold"][0].to_list() == ["5", "many"]
