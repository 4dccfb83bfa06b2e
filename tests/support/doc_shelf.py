"""What a reader of the documentation has: the files, models and folders that it names, small and made from nothing.

Each is made when a page names it for the first time. Tables come from a seeded generator, models from `guessing_model`,
evaluations and runs from this program's own stages. Names on the Hub are in a cache as downloads leave it.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

import calibsft
from calibsft.benchmarks import get_benchmark
from calibsft.benchmarks.deepscaler import HELD_OUT
from calibsft.pipeline import plan
from calibsft.recipe import load_recipe
from calibsft.schema import Question
from calibsft.stages.report import ReportStage
from guessing_model import ANSWERS, train_guessing_model
from hub_cache import NEW, HubCache

HUB_MODELS = {
    "Qwen/Qwen3-8B": "main",
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": "main",
    "org/name": "v1.0",
    "sentence-transformers/all-MiniLM-L6-v2": "main",
}
LOCAL_MODELS = ("M", "MODEL", "CHECKPOINT", "tuned/model", "smollm2-135m")
# The fields of a benchmark's rows on the Hub, without what none of its readers asks for.
HUB_ROWS: dict[str, Callable[[str, str], dict[str, object]]] = {
    "math-500": lambda text, gold: {"problem": text, "answer": gold, "unique_id": text},
    "gsm8k": lambda text, gold: {"question": text, "answer": f"so #### {gold}"},
    "hotpotqa": lambda text, gold: {"id": text, "question": text, "answer": gold},
    "aime-2026": lambda text, gold: {"id": text, "problem": text, "answer": gold},
    "olympiadbench": lambda text, gold: {"id": text, "question": text, "final_answer": [gold], "error": None},
    "deepscaler": lambda text, gold: {"problem": text, "answer": gold},
}
TABLES = (
    "responses.csv", "other.csv", "strong.csv", "before.csv", "after.csv", "labelled.csv", "batch.csv", "theirs.csv",
    "both.csv",
)  # fmt: skip
HEADERS = {
    "": "question_id,confidence,correct,level,model,prompt,split,dataset",
    "after.csv": "question_id,confidence,correct",
    "both.csv": "question_id,confidence,local_correct,strong_correct",
    "theirs.csv": "qid,prob,is_correct",
}
QUESTIONS = {"questions.jsonl": 24, "train.jsonl": 16, "mine.jsonl": 24, "own.jsonl": 16}
SOME, SAMPLES, ROWS = 12, 8, 800
EVALUATED = ("multiply-1", "cross")
# What an over-confident model states.
SURE = ("0.95", "0.90", "0.95", "1.00", "0.90", "0.95", "0.85")


def response(answer: str, confidence: str, work: str = "0190+083") -> str:
    return f"<think>{work}</think><answer>{answer}</answer><confidence>{confidence}</confidence>"


def products(count: int) -> list[str]:
    """Texts of questions that the playground's tokenizer knows."""
    return [f"{10 + i % 90}*{10 + i // 90}" for i in range(count)]


@dataclass
class Shelf:
    """The files in `folder`, by the names that pages use, and the cache of the Hub."""

    folder: Path
    hub: HubCache
    made: set[str] = field(default_factory=set)

    def lay_out(self, text: str, folder: Path) -> None:
        """Put into `folder` whatever of the shelf a text names, and is not there."""
        for name, make in {**self._files(), **self._folders()}.items():
            named = re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])", text)
            if named and not (folder / name).exists():
                self._make(name, make)
                _put(self.folder / name, folder / name)
        for name, make in self._on_the_hub().items():
            if name in text:
                self._make(name, make)

    def _make(self, name: str, make: Callable[[], object]) -> None:
        if name not in self.made:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            make()
            self.made.add(name)

    def _files(self) -> dict[str, Callable[[], object]]:
        return {
            **{name: lambda name=name: self._write(name, table(name)) for name in TABLES},
            **{name: lambda name=name, n=n: self._lines(name, questions(n)) for name, n in QUESTIONS.items()},
            "pool.jsonl": lambda: self._lines("pool.jsonl", pool()),
            "responses.jsonl": lambda: self._lines("responses.jsonl", responses()),
            "chats.jsonl": lambda: self._lines("chats.jsonl", chats()),
            "shots.jsonl": lambda: self._lines("shots.jsonl", shots()),
            "my.yaml": lambda: self._write("my.yaml", yaml.safe_dump(self._recipe("my"))),
        }

    def _folders(self) -> dict[str, Callable[[], object]]:
        evaluations = ("small-eval", "large-eval", "eval-before", "eval-after", "eval")
        return {
            **{name: lambda name=name: self._model(name) for name in LOCAL_MODELS},
            **{name: lambda name=name: self._graded(name, sure(name)) for name in evaluations},
            "EVAL": lambda: self._budgeted("EVAL"),
            "eval-warmup": lambda: self._graded("eval-warmup", concentrated(samples=2, unreadable=20)),
            "eval-warmup-calibsft": lambda: self._graded(
                "eval-warmup-calibsft", spread(samples=2, informed=False)
            ),
            "eval-base": lambda: self._graded("eval-base", concentrated(samples=1, unreadable=20)),
            "eval-calibsft": lambda: self._graded("eval-calibsft", spread(samples=1, informed=True)),
            "data": self._data_folder,
            "rollouts": lambda: self._sampled("questions.jsonl", "rollouts", "verdicts"),
            "verdicts": lambda: self._sampled("questions.jsonl", "rollouts", "verdicts"),
            "maths": lambda: self._sampled("train.jsonl", "maths", "maths-verdicts"),
            "maths-verdicts": lambda: self._sampled("train.jsonl", "maths", "maths-verdicts"),
            "trivia": lambda: self._sampled("own.jsonl", "trivia", "trivia-verdicts"),
            "trivia-verdicts": lambda: self._sampled("own.jsonl", "trivia", "trivia-verdicts"),
            "eval-1": lambda: self._budgeted("eval-1"),
            "eval-2": lambda: self._budgeted("eval-2"),
            "rl": self._trained,
            "sft-data": lambda: self._built("sft-data"),
            "runs/tiny-seed0": lambda: self._run("runs/tiny-seed0", 0),
            "runs/tiny-seed1": lambda: self._run("runs/tiny-seed1", 1),
            "runs/tiny-seed0/eval-calibsft-rlcr/rows.parquet": self._rows,
            "runs/smollm2/eval-warmup": lambda: calibsft.evaluate(
                model=self._need("M"),
                questions=[str(self._need("mine.jsonl"))],
                samples=1,
                out=self.folder / "runs/smollm2/eval-warmup",
            ),
        }

    def _on_the_hub(self) -> dict[str, Callable[[], object]]:
        return {
            **{
                name: lambda name=name, ref=ref: self._hub_model(name, ref)
                for name, ref in HUB_MODELS.items()
            },
            **{name: lambda name=name: self._hub_rows(name) for name in HUB_ROWS},
        }

    def _need(self, name: str) -> Path:
        self._make(name, {**self._files(), **self._folders()}[name])
        return self.folder / name

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def _lines(self, name: str, rows: Iterable[dict[str, object]]) -> None:
        self._write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def _model(self, name: str) -> None:
        if name == LOCAL_MODELS[0]:
            train_guessing_model(self.folder / name)
        else:
            shutil.copytree(self._need(LOCAL_MODELS[0]), self.folder / name)

    def _hub_model(self, name: str, ref: str) -> None:
        self.hub.add_model(name, NEW, self._need("M"), ref)

    def _hub_rows(self, name: str) -> None:
        benchmark = get_benchmark(name)
        texts = products(HELD_OUT + SOME if name == "deepscaler" else SOME)
        rows = [HUB_ROWS[name](text, ANSWERS[0]) for text in texts]
        commit = f"{len(self.made):040x}"
        self.hub.add_dataset(
            benchmark.hub, benchmark.config or "default", benchmark.hub_split, commit, rows, "main"
        )

    def _data_folder(self) -> None:
        (self.folder / "data").mkdir()
        for name, row in HUB_ROWS.items():
            self._lines(f"data/{name}.jsonl", [row(text, ANSWERS[0]) for text in products(SOME)])

    def _graded(self, name: str, rows: list[dict[str, object]]) -> None:
        source = f"{name.replace('/', '-')}-responses.jsonl"
        self._lines(source, rows)
        calibsft.verify(responses=self.folder / source, out=self.folder / name)

    def _sampled(self, source: str, rollouts: str, verdicts: str) -> None:
        if self.made & {rollouts, verdicts}:
            return
        calibsft.sample(
            model=self._need("M"), questions=self._need(source), samples=8, out=self.folder / rollouts
        )
        calibsft.verify(responses=self.folder / rollouts, out=self.folder / verdicts)

    def _built(self, name: str) -> None:
        calibsft.build(source=self._need("pool.jsonl"), out=self.folder / name, min_group=1)

    def _budgeted(self, name: str) -> None:
        calibsft.evaluate(
            model=self._need("M"),
            questions=[str(self._need("mine.jsonl"))],
            budgets=[4, 8],
            out=self.folder / name,
        )

    def _trained(self) -> None:
        calibsft.train(
            model=self._need("M"), method="rlcr", data=self._need("questions.jsonl"), out=self.folder / "rl",
            steps=2, questions=4, max_new_tokens=32, micro_batch_size=8,
        )  # fmt: skip

    def _recipe(self, name: str, seed: int = 0) -> dict[str, Any]:
        """CalibSFT of the small model, evaluated on two playground benchmarks."""
        return {
            "name": name,
            "seed": seed,
            "model": str(self._need("M")),
            "device": "cpu",
            "questions": {"source": str(self._need("questions.jsonl"))},
            "rollout": {"samples": SAMPLES, "max_new_tokens": 40},
            "targets": {"min_group": 1},
            "sft": {"steps": 2, "batch_size": 8, "micro_batch_size": 8, "max_tokens": 64},
            "rl": {"steps": 1, "questions": 2, "max_new_tokens": 32},
            "eval": {"benchmarks": list(EVALUATED), "limit": SOME, "samples": SAMPLES, "max_new_tokens": 40},
            "pipelines": [["calibsft"]],
        }

    def _rows(self) -> None:
        """The responses of a model that the run on the shelf does not have."""
        name = "runs/tiny-seed0/eval-calibsft-rlcr"
        (self.folder / name).mkdir(exist_ok=True)
        shutil.copy(self._need("runs/tiny-seed0") / "eval-calibsft/rows.parquet", self.folder / name)

    def _run(self, name: str, seed: int) -> None:
        """A run but for its report, with responses from a file: as an over-confident model would give them."""
        rates = Random(0)
        asked = [q for source in ("playground", *EVALUATED) for q in get_benchmark(source).load()[:SOME]]
        said = f"{name}-said.jsonl"
        self._lines(said, (row for q in asked for row in overconfident(q, rates.choice((1, 3, 4)))))
        recipe = self._recipe("tiny", seed)
        recipe["engine"] = {"name": "scripted", "responses": str(self.folder / said)}
        recipe["questions"] = {"source": "playground", "limit": SOME}
        self._write(f"{name}.yaml", yaml.safe_dump(recipe))
        root = self.folder / name
        for planned in plan(load_recipe(str(self.folder / f"{name}.yaml"), []), root):
            if not isinstance(planned.stage, ReportStage):
                planned.stage.perform(root / planned.name, planned.name)


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def table(name: str) -> str:
    """The text of a table of responses.

    Nine of ten are right, fewer in `after.csv`; `strong.csv` knows more where `responses.csv` is not sure.
    """
    random, columns = Random(0), HEADERS.get(name, HEADERS[""])
    lines = [columns]
    for i in range(ROWS):
        confidence, split = round(random.random(), 2), ("id", "ood")[2 * i // ROWS]
        right = int(random.random() < (0.65 if name == "after.csv" else 0.9) + confidence / 10)
        if name == "strong.csv" and confidence < 0.3:
            right = 1
        row = {
            "question_id": f"q{i}", "qid": f"q{i}", "confidence": confidence, "prob": f"{100 * confidence:.0f}",
            "correct": right, "is_correct": right, "local_correct": right, "strong_correct": 1, "level": i % 3,
            "model": ("small", "large")[i % 2], "prompt": i % 2, "split": split, "dataset": f"{split}-questions",
        }  # fmt: skip
        lines.append(",".join(str(row[column]) for column in columns.split(",")))
    return "\n".join(lines) + "\n"


def questions(count: int) -> Iterable[dict[str, object]]:
    return ({"question_id": q, "question": q, "gold": ANSWERS[0]} for q in products(count))


def pool() -> Iterable[dict[str, object]]:
    """Right responses give one answer, wrong ones several."""
    for k, text in enumerate(products(SOME)):
        for i in range(SAMPLES):
            correct = i < k % SAMPLES
            yield {
                "question_id": text,
                "question": text,
                "response": response("0" if correct else str(1 + i % 3), "0.90"),
                "correct": correct,
            }


def responses() -> Iterable[dict[str, object]]:
    """Responses to grade, half of them by a judge."""
    for i, text in enumerate(products(50)):
        yield {**graded(0, text, i % 2 == 0, "0.80"), "kind": ("math", "judge")[i % 4 // 2]}


def chats() -> Iterable[dict[str, object]]:
    for row in responses():
        turns = [("user", row["question"]), ("assistant", row["response"])]
        messages = [{"role": role, "content": content} for role, content in turns]
        yield {"question_id": row["question_id"], "gold": row["gold"], "correct": True, "messages": messages}


def shots() -> Iterable[dict[str, object]]:
    """Short ones: the small model reads 64 tokens."""
    return ({"question": q, "response": response(ANSWERS[0], "0.80", work="0")} for q in ("1+1", "2+2"))


def overconfident(question: Question, solved: int) -> Iterable[dict[str, object]]:
    """The samples of a question, `solved` of which are right, at confidences that know nothing."""
    for i in range(SAMPLES):
        said = response(str(question.gold) if i < solved else "1", SURE[(i + solved) % len(SURE)])
        yield {"question": question.text, "response": said}


def graded(i: int, text: str, right: bool, confidence: str) -> dict[str, object]:
    answer = ANSWERS[0] if right else ANSWERS[1]
    said = response(answer, confidence)
    return {"question_id": text, "question": text, "sample": i, "response": said, "gold": ANSWERS[0]}


def sure(name: str) -> list[dict[str, object]]:
    """An evaluation whose confidences are worth a threshold: 0.2 too high, or of a strong model."""
    random, rows = Random(name), []
    for text in products(ROWS):
        confidence = random.choice((0.55, 0.65, 0.75, 0.85, 0.95))
        rate = 0.95 if name == "large-eval" else confidence - 0.2
        rows.append(graded(0, text, random.random() < rate, f"{confidence:.2f}"))
    return rows


def concentrated(samples: int, unreadable: int) -> list[dict[str, object]]:
    """An evaluation with few confidences, which know nothing, and some that cannot be read."""
    rows = []
    for i, text in enumerate(products(400 // samples)):
        for sample in range(samples):
            right, stated = (i + sample) % 2 == 0, SURE[(i // 2) % len(SURE)]
            rows.append(graded(sample, text, right, "sure" if (i // 2) % unreadable == 0 else stated))
    return rows


def spread(samples: int, informed: bool) -> list[dict[str, object]]:
    """An evaluation with many confidences, which know nothing or something."""
    random, rows = Random(0), []
    for i, text in enumerate(products(400 // samples)):
        for sample in range(samples):
            hundredths = random.randrange(101)
            right = random.randrange(100) < (35 + 0.3 * hundredths if informed else 50)
            rows.append(graded(sample, text, right, "sure" if i % 40 == 0 else f"{hundredths / 100:.2f}"))
    return rows
