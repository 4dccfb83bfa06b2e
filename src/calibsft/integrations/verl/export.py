"""Write a training of a recipe as files for verl: data, config and command.

The folder can be moved: the command gives the paths of the data. The model is named by its absolute path or its name on
the Hub. Does not need verl, and does not start anything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from calibsft.artifacts import make_folder, write_text
from calibsft.errors import InputError
from calibsft.evaluation import Benchmarks
from calibsft.integrations.verl.rl_config import rl_config
from calibsft.integrations.verl.rl_data import require_template, write_questions
from calibsft.integrations.verl.sft_config import sft_config
from calibsft.integrations.verl.sft_data import write_examples
from calibsft.models import load_tokenizer, named_context
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import method_of
from calibsft.rl.questions import read_questions, training_questions, with_prompts
from calibsft.sft.fine_tune import draws_of, encode_rows, read_rows
from calibsft.stages.rl import RlStage
from calibsft.stages.sft import SftStage
from calibsft.stages.stage import Stage

CONFIG, COMMAND, TRAIN, HELD_OUT = "config.yaml", "train.sh", "train.parquet", "held-out.parquet"
RL_PROGRAM = "python -m verl.trainer.main_ppo"
SFT_PROGRAM = "torchrun --standalone --nproc-per-node gpu -m calibsft.integrations.verl.sft_trainer"

SCRIPT = """\
#!/usr/bin/env bash
# Written by calibsft export. Further options override the config: bash {command} trainer.n_gpus_per_node=4
set -euo pipefail
here="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
exec {program} --config-path "$here" --config-name {config} {paths} "$@"
"""


def export_stage(stage: Stage, name: str, folder: Path) -> str:
    """Write the training `stage` called `name` to `folder`; returns the command that starts it."""
    if isinstance(stage, RlStage):
        _export_rl(stage, name, folder)
    elif isinstance(stage, SftStage):
        _export_sft(stage, name, folder)
    else:
        raise InputError(f"{name} is no training; name a pipeline that ends with one")
    return f"bash {folder / COMMAND}"


def _export_rl(stage: RlStage, name: str, folder: Path) -> None:
    config, method = rl_config(stage, name), method_of(stage.rl)
    questions, rates = read_questions(stage.data, stage.verdicts)
    tokenizer, prompting = load_tokenizer(stage.model), Prompting(get_format(stage.format), stage.template)
    require_template(tokenizer, stage.model)
    longest = stage.rl.max_prompt_tokens
    trained = training_questions(questions, rates, method, stage.rl, tokenizer, prompting, longest)
    if len(trained) < stage.rl.questions:
        raise InputError(
            f"{len(trained)} questions are fewer than the rl.questions {stage.rl.questions} of one step, which verl does not"
            " repeat within a step; lower rl.questions or sample more questions"
        )
    make_folder(folder)
    write_questions(folder / TRAIN, trained, tokenizer, prompting)
    held_out = TRAIN  # verl reads a file even if it never evaluates
    if stage.rl.eval_every:
        held_out = HELD_OUT
        asked = Benchmarks(stage.eval, stage.rl.eval_questions).questions
        held = with_prompts(asked, {}, tokenizer, prompting, longest)
        write_questions(folder / HELD_OUT, held, tokenizer, prompting)
    _write(folder, config, RL_PROGRAM, {"data.train_files": TRAIN, "data.val_files": held_out})


def _export_sft(stage: SftStage, name: str, folder: Path) -> None:
    config, table = sft_config(stage, name), stage.table
    tokenizer, prompting = load_tokenizer(stage.model), Prompting(get_format(stage.format), stage.template)
    limit = min(stage.sft.max_tokens, named_context(stage.model) or stage.sft.max_tokens)
    examples, kept = encode_rows(tokenizer, read_rows(table), prompting, limit, table, stage.seed)
    make_folder(folder)
    write_examples(folder / TRAIN, examples, draws_of(kept))
    _write(folder, config, SFT_PROGRAM, {"data.train_files": TRAIN})


def _write(folder: Path, config: Mapping[str, Any], program: str, files: Mapping[str, str]) -> None:
    """Write config and command; `files` are the keys of the config that name files of the folder."""
    paths = {**files, "trainer.default_local_dir": "checkpoints"}
    write_text(folder / CONFIG, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
    # The inner quotes are hydra's: without them it would read a comma or a blank in a path as its own.
    overrides = " ".join(f"\"{key}='$here/{name}'\"" for key, name in paths.items())
    script = SCRIPT.format(
        command=COMMAND, program=program, config=CONFIG.removesuffix(".yaml"), paths=overrides
    )
    write_text(folder / COMMAND, script)
