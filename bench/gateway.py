"""What the gateway costs: latency and throughput of `calibsft serve` against calling the local server directly, in one run.

    python bench/gateway.py [--model DIR] [--requests 2000] [--blocks 6]
    python bench/gateway.py --local http://localhost:8001/v1 --local-model NAME --requests 192 --turn 64 --blocks 3 \
        --max-tokens 128 --ask "Explain step by step, with every intermediate result: {}"
    python bench/gateway.py --beside ../another-checkout

Starts a real server (`transformers serve`, greedy) with a playground checkpoint, or takes a running
one, and a gateway whose policy answers everything locally; with --beside also the gateway of another
checkout. All are sent the same questions by the same client, over connections that stay open;
directly goes the very body that the gateway sends, system prompt and all. At one request in flight
the ways take turns question by question, at --in-flight after every --turn requests, and which one
begins changes every time. Answers are compared. The server's own rate varies by a fifth from turn to
turn, so only many turns say something; run it on an idle machine.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from random import Random
from statistics import median, stdev
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import uvloop

from calibsft.decisions.policy import read_policy
from calibsft.gateway.requests import read_request
from calibsft.playground.world import OPERANDS, multiply
from calibsft.responses.formats import get_format
from calibsft.served.client import Client

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from chat_servers import chat_server
from gateway_process import Running, gateway, policy_file

ROOT = Path(__file__).parents[1]
DEFAULT_MODEL = ROOT / "runs/tiny-seed0/calibsft-rlcr/model"
SEED = 32
DIRECT, GATEWAY, BESIDE = "direct", "gateway", "beside"


@dataclass(frozen=True)
class Way:
    """One of the ways to ask: whom, with which body for each question, and a gateway's process."""

    name: str
    client: Client
    bodies: dict[str, bytes]
    process: int | None = None


Ways = dict[str, Way]


class Answer(NamedTuple):
    """One reply: its text, None where the gateway abstains, and how many tokens the model has written."""

    text: str | None
    tokens: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL)
    parser.add_argument("--requests", type=int, default=2000, help="of a block each way, at --in-flight")
    parser.add_argument("--alone", type=int, default=100, help="the same for one in flight")
    parser.add_argument("--in-flight", type=int, default=32)
    # A machine's speed changes within seconds.
    parser.add_argument(
        "--turn", type=int, default=250, help="requests after which the other way has its turn"
    )
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=32, help="of one answer")
    parser.add_argument("--ask", default="{}", help="what is asked; {} stands for a product, such as 57*77")
    parser.add_argument("--beside", type=Path, help="another checkout, whose gateway is measured too")
    parser.add_argument("--local", help="URL of a running server to measure with, instead of starting one")
    parser.add_argument("--local-model", help="the model's name there")
    options = parser.parse_args()
    if (options.local is None) != (options.local_model is None):
        parser.error("--local and --local-model go together; name both")
    if options.blocks * options.requests < 2 * options.turn:
        parser.error("one turn says nothing; ask for more --requests or --blocks, or a shorter --turn")
    if options.local is None and not (options.model / "config.json").is_file():
        parser.error(
            f"{options.model}: no checkpoint; run `calibsft run tiny` first, or name one with --model"
        )
    with TemporaryDirectory() as name:
        folder = Path(name)
        policy = policy_file(folder, otherwise="abstain", threshold=0, model="local")
        with ExitStack() as running:
            url, model = running.enter_context(served(options, folder))
            gateways = {GATEWAY: running.enter_context(gateway(policy, url, local_model=model))}
            if options.beside is not None:
                gateways[BESIDE] = running.enter_context(gateway_of(options.beside, folder, url, model))
            questions = [options.ask.replace("{}", product) for product in drawn(options.requests)]
            ways = all_ways(url, model, gateways, policy, questions, options.max_tokens)
            uvloop.run(measure(ways, questions, options))


@contextmanager
def gateway_of(checkout: Path, folder: Path, url: str, model: str) -> Iterator[Running]:
    """A gateway from another checkout, started as its own tests do, with a policy in its own form."""
    source, support = checkout.resolve() / "src", checkout.resolve() / "tests/support"
    program = (
        "import pathlib, sys; from gateway_process import policy_file;"
        "print(policy_file(pathlib.Path(sys.argv[1]), otherwise='abstain', threshold=0, model='local'))"
    )
    path = {"PYTHONPATH": f"{source}:{support}"}
    command = [sys.executable, "-c", program, str(folder)]
    written = subprocess.run(command, env=os.environ | path, check=True, capture_output=True, text=True)
    spec = importlib.util.spec_from_file_location("other_gateway_process", support / "gateway_process.py")
    assert spec is not None and spec.loader is not None
    starting = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(starting)
    with starting.gateway(Path(written.stdout.strip()), url, local_model=model, environment=path) as running:
        yield running


@contextmanager
def served(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str]]:
    """The URL and the model of the local server."""
    if options.local is not None:
        yield options.local, options.local_model
        return
    with chat_server(options.model, folder, "local") as server:
        yield server.url, server.model


def drawn(count: int) -> list[str]:
    every = [multiply(a, b).text for a in OPERANDS for b in OPERANDS]
    return Random(SEED).sample(every, count)


def all_ways(
    url: str,
    model: str,
    gateways: dict[str, Running],
    policy: Path,
    questions: Sequence[str],
    max_tokens: int,
) -> Ways:
    name = gateways[GATEWAY].model
    to_gateway = {
        question: {
            "model": name,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        for question in questions
    }
    held = read_policy(policy)
    to_server = {
        question: read_request(json.dumps(body).encode(), name).for_local(
            model, get_format(held.format), held
        )
        for question, body in to_gateway.items()
    }
    ways = {DIRECT: Way(DIRECT, Client(url, {}), encoded(to_server))}
    for way, running in gateways.items():
        ways[way] = Way(way, Client(running.url, {}), encoded(to_gateway), running.process.pid)
    return ways


def encoded(bodies: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    return {question: json.dumps(body).encode() for question, body in bodies.items()}


async def measure(ways: Ways, questions: Sequence[str], options: argparse.Namespace) -> None:
    for way in ways.values():  # connections, and whatever else is slow the first time
        await together(way, questions[: 4 * options.in_flight], options.in_flight)
    await show_latency(ways, questions[: options.alone], options.blocks)
    await show_throughput(ways, questions, options)
    for way in ways.values():
        await way.client.close()


async def show_latency(ways: Ways, questions: Sequence[str], blocks: int) -> None:
    medians: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(blocks):
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn, question in enumerate(questions):
            for name in in_turn(ways, turn):
                began = time.perf_counter()
                await answer(ways[name], question)
                seconds[name].append(time.perf_counter() - began)
        for name, measured in seconds.items():
            medians[name].append(1000 * median(measured))
    print(
        f"one in flight, medians of {blocks} blocks of {len(questions):,} requests each way (least to most)"
    )
    for name, values in medians.items():
        added = [through - past for past, through in zip(medians[DIRECT], values, strict=True)]
        more = f", added {spread(added, '.2f')} ms" if name != DIRECT else ""
        print(f"  {name:<10} {spread(values, '.2f')} ms{more}")


async def show_throughput(ways: Ways, questions: Sequence[str], options: argparse.Namespace) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    used, tokens, withheld, different = (dict.fromkeys(ways, 0.0) for _ in range(4))
    for turn, slice_ in enumerate(options.blocks * cut(questions, options.turn)):
        answers: dict[str, list[Answer]] = {}
        for name in in_turn(ways, turn):
            before, began = processor_seconds(ways[name]), time.perf_counter()
            answers[name] = await together(ways[name], slice_, options.in_flight)
            seconds[name].append(time.perf_counter() - began)
            used[name] += processor_seconds(ways[name]) - before
        for name in ways:
            tokens[name] += sum(one.tokens for one in answers[name])
            withheld[name] += sum(one.text is None for one in answers[name])
            different[name] += differences(answers[DIRECT], answers[name]) if name != DIRECT else 0
    asked = options.blocks * len(questions)
    print(f"{options.in_flight} in flight, {asked:,} requests each way in {len(seconds[DIRECT])} turns")
    for name, taken in seconds.items():
        rate, length = asked / sum(taken), tokens[name] / asked
        print(f"  {name:<10} {rate:>8.2f} requests/s, {length:.0f} tokens per answer")
    for name in list(ways)[1:]:
        ratio, error = ratio_of(seconds[DIRECT], seconds[name])
        print(f"{name}: {100 * ratio:.1f} % of the direct rate (standard error {100 * error:.1f})")
        print(f"  {1000 * used[name] / asked:.2f} ms of processor time per request")
        print(f"  {different[name]:.0f} of {asked:,} answers differ from the direct ones")
        print(f"  {withheld[name]:.0f} malformed ones were withheld")


def ratio_of(direct: Sequence[float], through: Sequence[float]) -> tuple[float, float]:
    """What of the direct throughput is left, and the standard error of that over turns."""
    ratio = sum(direct) / sum(through)
    residuals = [past - ratio * taken for past, taken in zip(direct, through, strict=True)]
    return ratio, stdev(residuals) * sqrt(len(residuals)) / sum(through)


def cut(questions: Sequence[str], size: int) -> list[Sequence[str]]:
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def in_turn(ways: Ways, turn: int) -> list[str]:
    """All ways, each beginning in its turn."""
    first = turn % len(ways)
    return [*list(ways)[first:], *list(ways)[:first]]


async def together(way: Way, questions: Sequence[str], in_flight: int) -> list[Answer]:
    """The answers to all questions, so many of them in flight at any time."""
    answers: dict[int, Answer] = {}
    turns = iter(enumerate(questions))

    async def work() -> None:
        for number, question in turns:
            answers[number] = await answer(way, question)

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return [answers[number] for number in range(len(questions))]


async def answer(way: Way, question: str) -> Answer:
    """What comes back: the text of the server, the answer of the gateway."""
    reply = await way.client.ask("POST", "/chat/completions", way.bodies[question])
    completion = json.loads(b"".join([piece async for piece in reply.pieces()]))
    reply.close()
    if reply.status != 200:
        raise SystemExit(f"{way.name} answers {reply.status}: {completion}")
    withheld = completion.get("calibsft", {}).get("decision") == "abstained"
    text = None if withheld else completion["choices"][0]["message"]["content"]
    return Answer(text, (completion.get("usage") or {}).get("completion_tokens", 0))


def differences(direct: list[Answer], through: list[Answer]) -> int:
    """Answers that are not the server's; where two tokens are level, a batch of others may decide between them."""
    stated = [re.search("<answer>([^<]*)</answer>", one.text or "") for one in direct]
    given = [one.text for one in through]
    both = zip(stated, given, strict=True)
    return sum(text is not None and (found is None or found[1].strip() != text) for found, text in both)


def processor_seconds(way: Way) -> float:
    if way.process is None:
        return 0.0
    fields = Path(f"/proc/{way.process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float], form: str) -> str:
    return f"{median(values):>8{form}}  ({min(values):{form}} to {max(values):{form}})"


if __name__ == "__main__":
    main()
