"""The docs as run: every command that they show is one, and those on users' files do what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import typer

from calibsft.cli.app import app
from command import Command
from gateway_process import gateway, policy_file
from scripted_server import ANSWER, scripted_server

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What runs on files alone; the others need a model, a server or the Hub.
HEADER = "question_id,confidence,correct,level,model,prompt,split,dataset"
ON_FILES = ("build", "verify", "score", "diagnose", "report", "plot", "certify", "select", "route", "monitor")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The languages and texts of the code blocks of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def shown(page: Path) -> list[list[str]]:
    """The commands in the code blocks of a page, as a shell splits them."""
    lines = [line for language, text in blocks(page) if language in ("", "sh") for line in text.splitlines()]
    words = [
        shlex.split(line, comments=True)
        for line in lines
        if re.match(r"(accelerate launch -m )?calibsft ", line)
    ]
    return [command[command.index("calibsft") + 1 :] for command in words]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_ones_that_exist(page: Path) -> None:
    group = typer.main.get_command(app)
    for words in shown(page):
        command = group.commands[words[0]]  # type: ignore[attr-defined]
        command.make_context(words[0], [*words[1:]])  # parses, refuses unknown options, runs nothing


def groups(question: int) -> str:
    """What the row of a question says in the columns that options name."""
    split = ("id", "ood")[question // 300]
    return f"{question % 3},{('small', 'large')[question % 2]},{question % 2},{split},{split}-questions"


def write_files() -> None:
    """The files that README names, with the columns that it says they need, and those that options name."""
    random = Random(0)
    questions = [str(i) for i in range(600)]
    states = [(q, random.random()) for q in questions]
    rows = [(q, round(c, 2), random.random() < 0.9 + c / 10) for q, c in states]
    for name in (
        "responses.csv",
        "other.csv",
        "strong.csv",
        "before.csv",
        "after.csv",
        "labelled.csv",
        "batch.csv",
    ):
        lines = [f"{q},{c},{int(right)},{groups(int(q))}" for q, c, right in rows]
        Path(name).write_text("\n".join([HEADER, *lines]) + "\n")
    lines = [f"{q},{c},{int(right)},1" for q, c, right in rows]
    Path("both.csv").write_text(
        "\n".join(["question_id,confidence,local_correct,strong_correct", *lines]) + "\n"
    )
    lines = [f"{q},{round(100 * c)},{int(right)}" for q, c, right in rows]
    Path("theirs.csv").write_text("\n".join(["qid,prob,is_correct", *lines]) + "\n")
    said = "<think>t</think><answer>{}</answer><confidence>0.50</confidence>"
    turns = [{"role": "user", "content": "7?"}, {"role": "assistant", "content": said.format(7)}]
    chats = [{"question_id": q, "gold": "7", "correct": True, "messages": turns} for q in questions]
    write_jsonl("chats.jsonl", chats)
    write_jsonl(
        "responses.jsonl", [{"question_id": q, "response": said.format(7), "gold": "7"} for q in questions]
    )
    pool = [(q, i) for q in questions[:4] for i in range(4)]
    write_jsonl(
        "pool.jsonl",
        [
            {"question_id": q, "question": q, "response": said.format(i), "correct": i > int(q)}
            for q, i in pool
        ],
    )


def write_jsonl(name: str, rows: list[dict[str, object]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def on_files(page: Path) -> list[list[str]]:
    """The commands of a page that need nothing but files which README describes, or what one before them wrote."""
    known = {
        "responses.csv",
        "other.csv",
        "strong.csv",
        "before.csv",
        "after.csv",
        "both.csv",
        "responses.jsonl",
    }
    known |= {"pool.jsonl", "verdicts", "theirs.csv", "chats.jsonl"}
    taken = []
    for words in shown(page):
        files = {
            word
            for word in words[1:]
            if re.fullmatch(r"[\w-]+\.(csv|jsonl)|verdicts|rollouts|runs/.*|.*-eval", word)
        }
        if words[0] in ON_FILES and files and files <= known and "--judge" not in words:
            taken.append(words)
    return taken


@pytest.mark.parametrize("page", [page for page in PAGES if on_files(page)], ids=lambda page: page.name)
def test_commands_on_files_do_what_they_say(page: Path, calibsft: Command) -> None:
    write_files()
    assert calibsft("verify", "responses.jsonl", "--out", "verdicts")[0] == 0
    for words in on_files(page):
        again = ["--force"] if words[0] in ("certify", "route") else []
        code, _, said = calibsft(*words, *again)
        assert code == 0 and "unexpected" not in said, (words, said)


def test_the_client_of_the_gateway_works_with_a_policy_of_an_evaluation(tmp_path: Path) -> None:
    (example,) = (text for _, text in blocks(ROOT / "docs/decide.md") if "from openai import OpenAI" in text)
    with (
        scripted_server() as local,
        gateway(policy_file(tmp_path, model="org/m", otherwise="abstain"), local.url) as running,
    ):
        code = example.replace("http://localhost:8000/v1", running.url)
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(ANSWER) and "'decision': 'answered'" in found.stdout
