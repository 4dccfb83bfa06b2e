"""Does the gateway's memory stay flat? Its resident memory during thousands of requests.

    python bench/gateway_soak.py [--requests 20000]

The servers are scripted, so this says nothing about speed. Many requests go wrong: servers refuse,
fail, hang up or break off a stream, responses are malformed, requests are no JSON, and clients leave
in the middle.
"""

import argparse
import asyncio
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import uvloop

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from gateway_process import Running, gateway, policy_file
from scripted_server import EVENTS, Asked, Sent, chats, chunk, confident, event, fails, says, scripted_server

WARM_UP = 1000
AT_ONCE = 16
LONG = "x" * 20_000
# What the local server, the strong one and the client do, as often as they stand here.
LOCAL = ["sure"] * 4 + ["unsure"] * 4 + ["malformed", "fails"]
STRONG = ["answers"] * 6 + ["refuses", "fails", "hangs up", "breaks off"]
CLIENT = ["waits"] * 4 + ["streams"] * 4 + ["leaves", "asks nonsense"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=20_000)
    options = parser.parse_args()
    with (
        TemporaryDirectory() as name,
        scripted_server(local) as mine,
        scripted_server(strong) as theirs,
        gateway(policy_file(Path(name)), mine.url, theirs.url, retries=0) as running,
    ):
        statuses: Counter[str] = Counter()
        uvloop.run(load(running, 0, WARM_UP, statuses))
        print(f"{'start':<8} {resident_megabytes(running):>7.1f} MB")
        quarter = options.requests // 4
        for part, when in enumerate(("", "middle", "", "end")):
            uvloop.run(load(running, part + 1, quarter, statuses))
            mine.asked.clear()
            theirs.asked.clear()
            print(f"{when:<8} {resident_megabytes(running):>7.1f} MB after {(part + 1) * quarter:,}")
        print(", ".join(f"{count:,} {status}" for status, count in statuses.most_common()))
        print(f"{running.count('calibsft_in_flight'):.0f} under way")


def wanted(asked: Asked) -> tuple[str, str]:
    """What a question says that the servers do."""
    found = re.search("([a-z]+), ([a-z ]+)", asked.body["messages"][-1]["content"])
    assert found
    return found[1], found[2].strip()


def local(asked: Asked) -> Sent:
    what, _ = wanted(asked)
    if what == "fails":
        return fails(500)
    return says({"sure": confident("0.95", LONG), "unsure": confident("0.15", LONG)}.get(what, LONG))


def strong(asked: Asked) -> Sent:
    _, what = wanted(asked)
    if what == "breaks off" and asked.body.get("stream"):
        return Sent(200, half(), EVENTS, cut=True)
    wrong = {"refuses": fails(400), "fails": fails(503), "hangs up": Sent(raw=b"")}.get(what)
    return wrong or chats(LONG)(asked)


def half() -> Iterator[bytes]:
    yield event(chunk(LONG))


async def load(running: Running, seed: int, requests: int, statuses: Counter[str]) -> None:
    random, turns = Random(seed), itertools.repeat(None, requests)
    limit = aiohttp.ClientTimeout(total=120)

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in turns:
            statuses[await one(session, running, random)] += 1

    async with aiohttp.ClientSession(timeout=limit) as session:
        await asyncio.gather(*(work(session) for _ in range(AT_ONCE)))


async def one(session: aiohttp.ClientSession, running: Running, random: Random) -> str:
    """One request, and what became of it."""
    client = random.choice(CLIENT)
    question = f"{random.choice(LOCAL)}, {random.choice(STRONG)}"
    body: dict[str, Any] = {"model": running.model, "messages": [{"role": "user", "content": question}]}
    body["stream"] = client in ("streams", "leaves")
    content = b"[" * 500 if client == "asks nonsense" else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    async with session.post(f"{running.url}/chat/completions", data=content, headers=headers) as reply:
        if client == "leaves":
            reply.close()
            return "left"
        await reply.read()
        return str(reply.status)


def resident_megabytes(running: Running) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{running.process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
