"""The work of `calibsft build` in plain pandas, everything in memory: what bench/build.py compares with.

    python bench/plain_pandas.py ROLLOUTS VERDICTS OUT

CalibSFT targets with λ = 0.5, one balanced draw with seed 0, confidences of two decimals. Of calibsft it uses the prompt alone.
"""

import json
import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

from calibsft.responses.formats import FORMATS, messages

KEYS = ["dataset", "question_id", "sample"]
QUESTION = KEYS[:2]
LABEL = ["label_numerator", "label_denominator"]
OPENING, CLOSING = "<confidence>", "</confidence>"


def main(rollouts: Path, verdicts: Path, out: Path) -> None:
    graded = read(verdicts, [*KEYS, "ending", "correct", "reason"])
    graded["correct"] &= graded["ending"] != "truncated"
    by_question = graded.groupby(QUESTION)["correct"]
    graded["successes"], graded["rollouts"] = by_question.transform("sum"), by_question.transform("size")
    pool = graded[graded["reason"] == "ok"].merge(read(rollouts, [*KEYS, "response", "token_ids"]), on=KEYS)
    pool = pool.merge(
        pd.read_parquet(rollouts / "questions.parquet", columns=[*QUESTION, "question"]), on=QUESTION
    )
    # c* = (k / n + z) / 2, as a numerator over 2 n.
    numerator, denominator = pool["successes"] + pool["correct"] * pool["rollouts"], 2 * pool["rollouts"]
    divisor = np.gcd(numerator, denominator)
    pool["target"], pool["q"] = numerator / denominator, pool["successes"] / pool["rollouts"]
    pool["label_numerator"], pool["label_denominator"] = numerator // divisor, denominator // divisor
    pool["hundredths"] = (100 * numerator + pool["rollouts"]) // denominator
    pool["rank"] = [rank(key) for key in pool[KEYS].itertuples(index=False, name=None)]
    size = pool.groupby("target").size().min()
    drawn = pool.sort_values(["target", "rank"]).groupby("target").head(size).reset_index(drop=True)
    drawn["response"] = [rewritten(*row) for row in drawn[["response", "hundredths"]].itertuples(index=False)]
    drawn["draw"] = 0
    drawn["prompt"] = [messages(question, FORMATS["probability"]) for question in drawn["question"]]
    drawn["completion"] = [[{"role": "assistant", "content": text}] for text in drawn["response"]]
    out.mkdir(parents=True)
    labels = graded.merge(pool[[*KEYS, *LABEL]], on=KEYS, how="left")
    labels[LABEL] = labels[LABEL].astype("Int64")
    labels = labels.merge(drawn[KEYS].assign(drawn=True), on=KEYS, how="left")
    labels["drawn"] = labels["drawn"].notna()
    labels.sort_values(KEYS).to_parquet(out / "labels.parquet", compression="zstd")
    for kind in ("target", "stratum"):
        drawn[[f"{kind}_numerator", f"{kind}_denominator"]] = drawn[LABEL]
    drawn.drop(columns=["rank", "ending", "reason", "hundredths", *LABEL]).to_parquet(
        out / "sft.parquet", compression="zstd"
    )
    write_chat(drawn, out / "sft.jsonl")


def read(folder: Path, columns: list[str]) -> pd.DataFrame:
    parts = [pd.read_parquet(path, columns=columns) for path in sorted(folder.glob("part-*.parquet"))]
    return pd.concat(parts, ignore_index=True)


def rank(key: tuple[str, str, int]) -> bytes:
    return blake2b(repr((0, 0, key)).encode(), digest_size=16).digest()


def rewritten(text: str, hundredths: int) -> str:
    start = text.rindex(OPENING) + len(OPENING)
    return f"{text[:start]}{hundredths // 100}.{hundredths % 100:02d}{text[text.rindex(CLOSING) :]}"


def write_chat(drawn: pd.DataFrame, path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        for row in drawn.itertuples(index=False):
            chat = {
                "messages": [*row.prompt, *row.completion],
                "confidence_at": len(row.response[: row.response.rindex(OPENING)].rstrip()),
                **{name: getattr(row, name) for name in ("correct", "target", "draw", *KEYS)},
            }
            out.write(json.dumps(chat, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
