"""The questions of an RL training as the Parquet file that verl's own dataset class reads.

verl applies the chat template itself, to the turns in the file. They must lead to the prompt that `calibsft rl` would ask
with; a model for which they do not is refused.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from calibsft.artifacts import write_parquet
from calibsft.errors import InputError
from calibsft.responses.prompts import Prompting, chat_ids
from calibsft.rl.questions import TrainingQuestion
from calibsft.table_schemas import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA: Columns = {
    "data_source": pl.String,
    "prompt": pl.List(pl.Struct({"role": pl.String, "content": pl.String})),
    "reward_model": pl.Struct({"style": pl.String, "ground_truth": pl.List(pl.String)}),
    "extra_info": pl.Struct(
        {
            "index": pl.Int64,
            "question_id": pl.String,
            "question": pl.String,
            "kind": pl.String,
            "tolerance": pl.String,
            "success_rate": pl.Float64,
        }
    ),
}


def require_template(tokenizer: "PreTrainedTokenizerBase", model: str) -> None:
    """Refuse a model that verl cannot ask."""
    if not tokenizer.chat_template:
        raise InputError(
            f"{model}: its tokenizer has no chat template, and verl asks only through one; add chat_template to its"
            " tokenizer_config.json"
        )


def write_questions(
    path: Path,
    questions: Sequence[TrainingQuestion],
    tokenizer: "PreTrainedTokenizerBase",
    prompting: Prompting,
) -> None:
    """Write one row per question."""
    rows = [_row(number, one, tokenizer, prompting) for number, one in enumerate(questions)]
    write_parquet(path, pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _row(
    number: int, question: TrainingQuestion, tokenizer: "PreTrainedTokenizerBase", prompting: Prompting
) -> dict[str, Any]:
    turns = prompting.conversation(tokenizer, question.text)
    if chat_ids(tokenizer, turns, "", options=prompting.template) != question.prompt_ids:
        raise InputError(
            f"question '{question.id}': the chat template writes another prompt than calibsft asks with; train this model"
            " with calibsft rl"
        )
    return {
        "data_source": question.dataset,
        "prompt": turns,
        "reward_model": {"style": "rule", "ground_truth": list(question.golds)},
        "extra_info": {
            "index": number,
            "question_id": question.id,
            "question": question.text,
            "kind": question.kind,
            "tolerance": question.tolerance,
            "success_rate": question.success_rate,
        },
    }
