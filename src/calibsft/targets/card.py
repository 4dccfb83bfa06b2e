"""The card of a training set: what loads it, what its columns are, and how to train on it.

Its head tells `datasets` and the Hub which file is which table. Without it they would take all
files of the folder for one.
"""

from pathlib import Path

from calibsft.artifacts import CARD, write_text
from calibsft.targets.chat import SFT_CHAT
from calibsft.targets.summary import BuildSummary

SFT_TABLE = "sft.parquet"
LABEL_TABLE = "labels.parquet"
# What `datasets.load_dataset(folder, NAME)` loads; the first without a name.
TABLES = {"default": SFT_TABLE, "labels": LABEL_TABLE}
MASKED = """# A CalibSFT training set

`sft.parquet` is what `calibsft sft --data` reads. `sft.jsonl` has the same rows as chat messages,
for other trainers.

**Plain SFT on `sft.jsonl` imitates wrong reasoning.** Wrong responses are in it on purpose: they
teach when to doubt. The same holds for `prompt` and `completion` of `sft.parquet`. CalibSFT
trains the confidence of every response, but reasoning and answer of the correct ones alone. To do
the same elsewhere, mask the loss of the assistant's message: the characters from `confidence_at`
on are trained in every row, those before it only where `correct` is true. Correct rows alone
would not do: they teach no low confidence.
"""
IMITATED = """# A training set for the response format

`sft.parquet` is what `calibsft sft --data … --loss full-ce` reads. `sft.jsonl` has the same rows
as chat messages, for other trainers.

Every token of every response is trained, of wrong ones too, with the confidence that the response
states: the model learns to keep to the format. It does not learn how sure to be; CalibSFT or RL
comes after it.
"""
LOADING = f"""
`datasets.load_dataset(FOLDER)` loads `{SFT_TABLE}`, and `load_dataset(FOLDER, "labels")` the
labels of all responses.

| column of `{SFT_TABLE}` | |
|---|---|
| `prompt`, `completion` | question with system prompt, and response, as TRL's `SFTTrainer` takes them |
| `question`, `response` | the same as plain texts |
| `target` | the confidence that the response states, exactly `target_numerator` / `target_denominator` |
| `correct` | whether its answer is right |
| `q` | the success rate of its question, `successes` of `rollouts` |
| `draw` | which balanced draw the row belongs to; train on one draw per epoch, in turn |
| `stratum_numerator`, `stratum_denominator` | the group that balancing counted the row in |
| `token_ids` | the response's tokens as they were sampled, null where unknown |
| `dataset`, `question_id`, `sample` | which response it is |

| field of `{SFT_CHAT}` | |
|---|---|
| `messages` | system prompt, question, and the response, whose confidence is the target |
| `confidence_at` | where in the response, in characters, the confidence begins |
| `correct`, `target`, `draw`, `dataset`, `question_id`, `sample` | as above |
"""


def write_card(folder: Path, summary: BuildSummary, imitated: bool) -> None:
    """Write the card of the training set in `folder`; `imitated` if every token is trained."""
    from huggingface_hub import DatasetCardData  # heavy, and needed only here

    head = DatasetCardData(
        tags=list(dict.fromkeys(("calibration", "confidence", "calibsft", summary.target))),
        task_categories=["text-generation"],
        configs=[
            {"config_name": name, "data_files": [{"split": "train", "path": table}]}
            for name, table in TABLES.items()
        ],
    )
    text = f"---\n{head.to_yaml()}\n---\n\n{IMITATED if imitated else MASKED}{LOADING}"
    write_text(folder / CARD, text)
