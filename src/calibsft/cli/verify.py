"""`calibsft verify`: parse and grade responses."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from calibsft.cli.options import (
    AsJson,
    Device,
    Dtype,
    FormatName,
    Fresh,
    HashCheck,
    JudgeModel,
    JudgeUrl,
    Out,
    judge_settings,
    perform,
)
from calibsft.text import printable


def verify(
    responses: Annotated[
        Path,
        typer.Argument(
            help="Folder that `calibsft rollout` wrote, or a CSV, JSONL or Parquet file with question_id, response,"
            " gold (and optionally kind, tolerance, question, answer, confidence, dataset, sample, finished)."
        ),
    ],
    out: Out,
    format: FormatName = "probability",
    judge: JudgeModel = None,
    judge_url: JudgeUrl = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    as_json: AsJson = False,
) -> None:
    """Parse and grade responses: `calibsft verify responses.jsonl --out verdicts`.

    Re-grading never samples again: take another --out, also for the `rollouts` inside an evaluation.

    Every response gets a grade: correct, incorrect, unparsed_answer, timeout, too_large or error count as scored;
    unparsed_gold and unjudged leave it unscored. `calibsft ls graders` lists the kinds.
    """
    from calibsft.artifacts import JUDGE_CACHE, file_hash
    from calibsft.report.terminal import verdict_lines
    from calibsft.responses.formats import get_format
    from calibsft.verify.judged import load_answer_judge
    from calibsft.verify.verdicts import count_verdicts, verify_file, verify_folder

    confidence_format, settings = get_format(format), judge_settings(judge, judge_url)
    of_run = responses.is_dir()
    inputs = {"rollout": _stage_hash(responses)} if of_run else {"responses": file_hash(responses)}

    def work(folder: Path) -> dict[str, Any]:
        grade = verify_folder if of_run else verify_file
        loaded = load_answer_judge(settings, folder / JUDGE_CACHE, device, dtype)
        return {"verifier": grade(responses, confidence_format, folder, "verify", loaded)}

    shaped = {"format": format, "judge": settings.model_dump(mode="json")}
    perform(out, "verify", shaped, inputs, work, fresh, [responses], hash_check)
    counts = count_verdicts(out)
    if as_json:
        print(json.dumps(counts, indent=2))
    else:
        print("\n".join(printable(line) for line in verdict_lines(counts)))


def _stage_hash(rollouts: Path) -> str:
    """The content of the finished stage that holds `rollouts`: a rollout stage, or an evaluation around them."""
    from calibsft.artifacts import MANIFEST, read_manifest

    inside = (rollouts.parent / MANIFEST).is_file() and not (rollouts / MANIFEST).is_file()
    return str(read_manifest(rollouts.parent if inside else rollouts)["content_hash"])
