"""Certify a threshold, serve it, ask with the official client, send feedback, see the alarm when the model changes.

pip install 'calibsft[serve]' && python certify_and_serve.py
"""

import json
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread

from openai import OpenAI

random = Random(0)
error_rates = {"+": 0.02, "*": 0.6}


def solve(a: int, sign: str, b: int) -> tuple[int, float]:
    """Stands in for a language model: adds well, multiplies badly, and says how sure it is."""
    right = a + b if sign == "+" else a * b
    wrong = random.random() < error_rates[sign]
    return right + wrong, random.choice([0.9, 0.95] if sign == "+" else [0.3, 0.5])


class StandIn(BaseHTTPRequestHandler):
    """What the gateway needs of an OpenAI-compatible server; in earnest that is vLLM, or any other."""

    def do_GET(self) -> None:
        self.send({"object": "list", "data": [{"id": "stand-in", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
        a, sign, b = re.search(r"(\d+)([+*])(\d*)", asked).groups()
        answer, sure = solve(int(a), sign, int(b or 0))
        text = f"<think>{asked}</think> <answer>{answer}</answer> <confidence>{sure:.2f}</confidence>"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        self.send({"id": "1", "object": "chat.completion", "created": 0, "model": "", "choices": [choice]})

    def send(self, reply: dict) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_: object) -> None:
        pass


def calibsft(*words: object) -> list[str]:
    return [sys.executable, "-m", "calibsft", *map(str, words)]


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/example-serve"), help="default: %(default)s")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    responses, policy, labels, log = (
        out / name for name in ("responses.csv", "policy.json", "labels.db", "log")
    )

    # Synthetic: 600 graded responses of the very model that is served below, half of them sums.
    with responses.open("w") as file:
        file.write("question_id,confidence,correct\n")
        for number in range(600):
            a, sign, b = random.randrange(100), "+*"[number % 2], random.randrange(100)
            answer, sure = solve(a, sign, b)
            file.write(f"{number},{sure},{answer == (a + b if sign == '+' else a * b)}\n")
    certify = calibsft("certify", responses, "--risk", 0.1, "--policy", policy, "--force")
    subprocess.run(certify, check=True)

    model = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    Thread(target=model.serve_forever, daemon=True).start()
    labels.unlink(missing_ok=True)  # else the watch would go on where an earlier run of this script ended
    local = f"http://127.0.0.1:{model.server_port}/v1"
    serve = calibsft("serve", "--policy", policy, "--local", local, "--labels", labels, "--port", 0)
    with log.open("w") as lines, subprocess.Popen(serve, stderr=lines) as gateway:
        while not (found := re.search(r"^policy .*: (http://\S+)$", log.read_text(), re.MULTILINE)):
            if gateway.poll() is not None:
                sys.exit(log.read_text())
            time.sleep(0.1)
        try:
            talk(OpenAI(base_url=found[1], api_key="any", max_retries=5))
        finally:
            gateway.terminate()


def talk(client: OpenAI) -> None:
    def ask(question: str) -> tuple[str, dict]:
        turns = [{"role": "user", "content": question}]
        reply = client.chat.completions.create(model="calibsft", messages=turns)
        return reply.choices[0].message.content, reply.calibsft  # a field beside those of OpenAI

    for question in ("12+30", "12*30"):
        content, decided = ask(question)
        print(f"{question}: {content} ({decided['decision']}, confidence {decided['confidence']})")

    for when, rate in (("as calibrated", 0.02), ("after the model has changed", 0.5)):
        error_rates["+"] = rate
        for number in range(100):
            content, decided = ask(f"{number}+7")
            label = {"id": decided["id"], "correct": content == str(number + 7)}
            watch = client.post("/feedback", body=label, cast_to=object)
            if watch["alarm"]:  # more is wrong than was promised
                break
        counts = f"{watch['labels']} labels, {watch['events']} wrong, e-value {watch['e_value']:.2g}"
        print(f"{when}: {counts}, {'ALARM' if watch['alarm'] else 'no alarm'}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"Error: {error}")
