"""Peak memory of one fine-tuning step with long responses and a large vocabulary: ours, with whole logits, and TRL's.

    python bench/sft_memory.py [--tokens 8192] [--vocabulary 151936] [--hidden 256] [--layers 2]

One response of that many tokens, all of them trained on (full cross-entropy), one AdamW step, float32 on a CPU, each in a
process of its own. TRL is SFTTrainer with its defaults on the same token ids. The peak is what the process held at most, less
what it held before the trainer was made, so that libraries and the model's own weights do not count.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

WAYS = ("tiled", "whole", "trl")


def build(options: argparse.Namespace, folder: Path) -> None:
    """A Qwen3 of few layers with random weights, and a word-level tokenizer for it."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = {"<eos>": 0, "<pad>": 1} | {f"w{i}": i for i in range(2, options.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w2"))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=options.vocabulary, hidden_size=options.hidden, intermediate_size=2 * options.hidden,
        num_hidden_layers=options.layers, num_attention_heads=4, num_key_value_heads=2, head_dim=options.hidden // 4,
        max_position_embeddings=options.tokens, tie_word_embeddings=True, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)


def ids(options: argparse.Namespace) -> list[int]:
    import random

    draw = random.Random(0)
    return [draw.randrange(2, options.vocabulary) for _ in range(options.tokens)]


def ours(options: argparse.Namespace, folder: Path, tiled: bool) -> float:
    from calibsft.models import load_model, load_tokenizer
    from calibsft.sft.encode import Example
    from calibsft.sft.fine_tune import make_trainer
    from calibsft.sft.settings import SftSettings
    from calibsft.sft.tiled import add_tiled_losses, can_be_tiled

    model, tokenizer = load_model(str(folder), "cpu", "float32"), load_tokenizer(str(folder))
    first, *rest = ids(options)
    example = Example((first,), tuple(rest), len(rest) - 5, correct=True)
    settings = SftSettings(
        loss="full-ce", steps=1, batch_size=1, micro_batch_size=1, learning_rate=1e-4, warmup_steps=0
    )
    if tiled:
        assert can_be_tiled(model)
        add_tiled_losses(model)
    with tempfile.TemporaryDirectory() as out:
        trainer = make_trainer(model, tokenizer, [example], settings, 0, Path(out), "cpu", tiled)
        trainer.args.save_strategy = "no"
        return stepped(trainer)


def trl(options: argparse.Namespace, folder: Path) -> float:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from calibsft.models import load_model, load_tokenizer

    model, tokenizer = load_model(str(folder), "cpu", "float32"), load_tokenizer(str(folder))
    with tempfile.TemporaryDirectory() as out:
        arguments = SFTConfig(
            output_dir=out, max_steps=1, per_device_train_batch_size=1, learning_rate=1e-4, use_cpu=True, bf16=False,
            save_strategy="no", report_to=[], max_length=options.tokens, logging_steps=1, disable_tqdm=True,
            gradient_checkpointing=False,
        )  # fmt: skip
        trainer = SFTTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_dict({"input_ids": [ids(options)]}),
            processing_class=tokenizer,
        )  # fmt: skip
        return stepped(trainer)


def stepped(trainer: object) -> float:
    """The loss of one step; prints what it took."""
    before, began = peak(), monotonic()
    trainer.train()  # type: ignore[attr-defined]
    loss = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)  # type: ignore[attr-defined]
    figures = {"gib": (peak() - before) / 2**30, "loss": loss, "seconds": monotonic() - began}
    print(json.dumps(figures))
    return float(loss)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--way", choices=WAYS, help="measure this one in this process")
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        trl(options, options.model) if options.way == "trl" else ours(
            options, options.model, options.way == "tiled"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        build(options, Path(folder))
        found = {}
        for way in WAYS:
            words = [sys.executable, __file__, *sys.argv[1:], "--way", way, "--model", folder]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{way}: ended with code {done.returncode}\n{done.stderr[-500:]}", file=sys.stderr)
                continue
            found[way] = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
        for way, figures in found.items():
            ratio = figures["gib"] / found["trl"]["gib"] if "trl" in found else float("nan")
            print(
                f"{way:6} peak {figures['gib']:6.2f} GiB, {ratio:5.2f} x TRL's; loss {figures['loss']:.5f};"
                f" {figures['seconds']:.0f} s"
            )


if __name__ == "__main__":
    main()
