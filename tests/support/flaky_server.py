"""An OpenAI-compatible server that fails now and then: `python flaky_server.py PORT FAILING JOURNAL`.

A share `FAILING` of its replies are errors, refusals to be asked so often, silence, or connections that are cut. It answers
from a prompt's token ids and the seed alone, and writes every response that it finished - that somebody paid for - to
JOURNAL, even if the client never gets it; but not the single tokens that clients ask for to see whether it is there.
"""

import asyncio
import json
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web

from calibsft.playground.tokenizer import build_tokenizer

ANSWER = "<think>1+1=2</think><answer>{}</answer><confidence>0.{:02d}</confidence>"


def response_of(prompt: list[int], seed: int) -> str:
    """What it answers, as text."""
    drawn = Random(sha256(f"{prompt} {seed}".encode()).digest())
    return ANSWER.format(drawn.randrange(10), drawn.randrange(100))


class Flaky:
    def __init__(self, failing: float, journal: Path) -> None:
        self._failing, self._journal = failing, journal
        self._tokenizer = build_tokenizer()
        self._random = Random()

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "flaky", "max_model_len": 256}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        probe, given = body["max_tokens"] == 1, body["prompt"]
        prompt = self._tokenizer(given)["input_ids"] if isinstance(given, str) else given
        fault = None if self._random.random() >= self._failing else self._random.randrange(5)
        if fault == 0:
            return web.json_response({"error": {"message": "broken"}}, status=500)
        if fault == 1:
            return web.json_response({"error": "slower"}, status=429, headers={"Retry-After": "1"})
        if fault == 2:
            await asyncio.sleep(3600)
        ids = [*self._tokenizer(response_of(prompt, body["seed"]))["input_ids"]] if not probe else [1]
        ids.append(self._tokenizer.eos_token_id)
        reply = {
            "choices": [self._choice(prompt, ids)],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids)},
        }
        if not probe:
            self._note(prompt, body["seed"], len(prompt) + len(ids))
        if fault in (3, 4):
            return await self._cut(request, json.dumps(reply).encode(), begun=fault == 4)
        return web.json_response(reply)

    def _choice(self, prompt: list[int], ids: list[int]) -> dict[str, Any]:
        logprobs = {"token_logprobs": [-0.5] * len(ids), "top_logprobs": [{}] * len(ids)}
        return {
            "finish_reason": "stop",
            "token_ids": ids,
            "prompt_token_ids": prompt,
            "text": "",
            "logprobs": logprobs,
        }

    def _note(self, prompt: list[int], seed: int, tokens: int) -> None:
        with self._journal.open("a") as out:
            out.write(json.dumps([prompt, seed, tokens]) + "\n")

    async def _cut(self, request: web.Request, content: bytes, begun: bool) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-length": str(len(content))})
        if begun:
            await reply.prepare(request)
            await reply.write(content[: len(content) // 2])
        assert request.transport is not None
        request.transport.abort()
        return reply


def main() -> None:
    port, failing, journal = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    flaky, app = Flaky(failing, journal), web.Application()
    app.add_routes([web.get("/v1/models", flaky.models), web.post("/v1/completions", flaky.complete)])
    web.run_app(app, host="127.0.0.1", port=port, print=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main()
