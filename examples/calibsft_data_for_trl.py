"""CalibSFT data with TRL's own SFTTrainer: graded responses → training set → a few steps on a tiny checkpoint.

python calibsft_data_for_trl.py [POOL]
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from random import Random

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

import calibsft
from calibsft.errors import InputError
from calibsft.playground.base import build_model
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.playground.world import multiply


def make_pool(path: Path) -> Path:
    """Synthetic: eight graded responses to each of 60 products, all 0.95 sure; large ones are mostly wrong."""
    random = Random(0)
    with path.open("w") as out:
        for a in range(20, 80):
            asked = multiply(a, 37)
            for _ in range(8):
                answer = asked.answer if random.random() > a / 100 else f"{random.randrange(10_000):04d}"
                said = f"<think>{asked.work}</think><answer>{answer}</answer><confidence>0.95</confidence>"
                row = {"question_id": asked.text, "question": asked.text, "response": said}
                out.write(json.dumps(row | {"correct": answer == asked.answer}) + "\n")
    return path


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", type=Path, nargs="?", help="graded responses; default: synthetic ones")
    parser.add_argument("--out", type=Path, default=Path("runs/example-trl"), help="default: %(default)s")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pool = given.pool or make_pool(given.out / "pool.jsonl")
    built = calibsft.build(source=pool, out=given.out / "data", fresh=True)
    rows = load_dataset(str(built.path), split="train")

    # A tiny checkpoint with random weights, so that nothing is downloaded.
    model, tokenizer = given.out / "model", build_tokenizer()
    build_model(tokenizer).save_pretrained(model)
    tokenizer.save_pretrained(model)

    # `SFTTrainer` takes `rows` as they are, and would then imitate wrong responses too: they are there to teach
    # doubt. It trains completions alone, so what shall not be imitated goes to the prompt: of a wrong response,
    # all but the confidence. `calibsft sft` does the same, and weighs the two parts of the loss besides.
    def masked(row: dict) -> dict:
        prompt = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        said = row["completion"][0]["content"]
        begins = 0 if row["correct"] else said.rindex("<confidence>") + len("<confidence>")
        return {"prompt": prompt + said[:begins], "completion": said[begins:]}

    data = rows.map(masked, remove_columns=rows.column_names)
    on_a_cpu = {"use_cpu": True, "bf16": False, "report_to": []}
    settings = SFTConfig(str(given.out / "trained"), max_steps=10, logging_steps=5, **on_a_cpu)
    trainer = SFTTrainer(str(model), args=settings, train_dataset=data)
    for correct, name in ((True, "right"), (False, "wrong")):
        labels = trainer.train_dataset[rows["correct"].index(correct)]["labels"]
        print(f"{name}: trained on {tokenizer.decode([label for label in labels if label >= 0])}")
    trainer.train()
    print(f"checkpoint: {settings.output_dir}/checkpoint-{trainer.state.global_step}")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"Error: {error}")
