"""What one engine samples: `python sampled_by.py SETTINGS MODEL` prints it as JSON.

A script, so that it can run in an environment where an engine's libraries are and others are not.
"""

import json
import sys
from typing import Any

from calibsft.engines import ENGINES, load_engine
from calibsft.engines.engine import Completion, Engine, Request, Sampling
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.settings import validated

QUESTIONS = ("12*34", "7*8", "99*98+11")
SEEDS = tuple(range(100, 108))
STOP = "7"
LIMIT = 64


def requests(engine: Engine) -> list[Request]:
    asking = Prompting(FORMATS["probability"])
    return [Request(asking.ids(engine.tokenizer, q), SEEDS, turns=asking.turns(q)) for q in QUESTIONS]


def plain(rows: list[list[Completion]]) -> list[list[dict[str, Any]]]:
    return [
        [
            {"ids": c.token_ids, "finished": c.finished, "logprobs": c.logprobs.tolist(), "error": c.error}
            for c in row
        ]
        for row in rows
    ]


def sampled(engine: Engine) -> dict[str, Any]:
    """Every kind of draw that callers make."""
    asked = requests(engine)
    drawn = Sampling(max_new_tokens=LIMIT)
    told: list[tuple[int, int]] = []
    first = engine.generate(asked, drawn, lambda i, j, completion: told.append((i, j)))
    greedy = engine.generate(asked, Sampling(temperature=0, max_new_tokens=LIMIT))
    likely = sorted({i for row in greedy for i in row[0].token_ids[:4]})
    part = [Request(asked[1].prompt_ids, SEEDS, frozenset(range(6)), asked[1].turns)]
    return {
        "prompts": [request.prompt_ids for request in asked],
        "end_ids": engine.end_ids,
        "drawn": plain(first),
        "told": sorted(told),
        "again": plain(engine.generate(asked[::-1], drawn))[::-1],
        "part": plain(engine.generate(part, drawn)),
        "greedy": plain(greedy),
        "narrow": plain(engine.generate(asked, Sampling(0.7, 0.5, LIMIT))),
        "stopped": plain(engine.generate(asked, Sampling(max_new_tokens=LIMIT, stop=(STOP,)))),
        "next": engine.next_logprobs([request.prompt_ids for request in asked], likely).tolist(),
    }


def main() -> None:
    given, model = json.loads(sys.argv[1]), sys.argv[2]
    settings = validated(ENGINES[given["name"]].settings, given, "engine")
    print(json.dumps(sampled(load_engine(settings, model, "cpu", "float32"))))


if __name__ == "__main__":
    main()
