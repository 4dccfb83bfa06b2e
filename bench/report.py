"""How the report's page copes with many responses: its size, and what a reader waits for in a real browser.

    python bench/report.py [--responses 100000]

Needs `pip install playwright` and Debian's `chromium`. Prints the page's size, the time to write and to open it, and for
filtering, scrolling and opening a question the time until it is drawn and the longest pause of the page meanwhile.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
from playwright.sync_api import sync_playwright

from calibsft.report.page import write_page
from calibsft.report.summary import ModelResult, Responses, RunSummary

TEXT = "so the sum of these two is then we add carry over and divide by seven which leaves about half"
SAMPLES = 8
REPEATS = 7

# Runs an action, and resolves with the milliseconds until the next drawn frame and the longest pause between frames.
MEASURE = """async (action) => {
  let longest = 0, last = performance.now(), done = false;
  const watch = (now) => { longest = Math.max(longest, now - last); last = now; if (!done) requestAnimationFrame(watch); };
  requestAnimationFrame(watch);
  const began = performance.now();
  await action();
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  done = true;
  return [performance.now() - began, longest];
}"""
ACTIONS = {
    "filter by verdict": "const v = document.getElementById('filter-verdict'); v.value = v.value === '0' ? '1' : '0';"
    " v.dispatchEvent(new Event('input', {bubbles: true}));",
    "sort by confidence": "const o = document.getElementById('filter-order'); o.value = o.value === 'rising' ? 'falling' : 'rising';"
    " o.dispatchEvent(new Event('input', {bubbles: true}));",
    "find a text": "const t = document.getElementById('filter-text'); t.value = t.value ? '' : '77';"
    " t.dispatchEvent(new Event('input', {bubbles: true}));",
    "scroll to anywhere": "const l = document.getElementById('list'); l.scrollTop = Math.random() * l.scrollHeight;",
    "open a question": "const r = document.querySelectorAll('.row'); r[Math.floor(Math.random() * r.length)].click();"
    " await new Promise((resolve) => setTimeout(resolve, 50));",
}


def made_up(count: int) -> RunSummary:
    """A run with so many responses of some 600 characters each."""
    random = Random(0)
    text = [" ".join(random.choices(TEXT.split(), k=120)) for _ in range(2000)]
    keys = {
        "dataset": [f"benchmark-{i // SAMPLES % 8}" for i in range(count)],
        "question_id": [str(i // SAMPLES) for i in range(count)],
    }
    confidence = [random.randrange(101) / 100 for _ in range(count)]
    rows = pl.DataFrame(
        {
            **keys,
            "sample": pl.Series([i % SAMPLES for i in range(count)], dtype=pl.Int32),
            "correct": [random.random() < value for value in confidence],
            "confidence": confidence,
            "answer": [str(random.randrange(10_000)) for _ in range(count)],
            "reason": "ok",
            "response": [f"<think>{random.choice(text)}</think> <answer>{i}</answer>" for i in range(count)],
        }
    )
    questions = rows.select(*keys).unique(maintain_order=True)
    questions = questions.with_columns(
        question=pl.lit("how much is ") + pl.col("question_id"), gold=pl.lit(["1"], dtype=pl.List(pl.String))
    )
    scored = rows.with_columns(split=pl.lit("id"), well_formed=pl.lit(True))
    return RunSummary(
        name="bench",
        models=(ModelResult("model", scored),),
        recipe_yaml="",
        command="",
        responses=(Responses("model", False, rows, questions, count),),
    )


def measure(path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium here: install Debian's package")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        # Actions are put into the page as code, which its own policy would forbid.
        page = browser.new_context(bypass_csp=True, viewport={"width": 1280, "height": 900}).new_page()
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-inspector=ready]", timeout=120_000)
        print(f"opened and ready to filter in {time.perf_counter() - began:.2f} s")
        print(f"{'':<20} {'until drawn':>12} {'longest pause':>14}")
        for name, action in ACTIONS.items():
            found: list[Any] = [
                page.evaluate(f"({MEASURE})(async () => {{ {action} }})") for _ in range(REPEATS)
            ]
            drawn, pause = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{name:<20} {drawn:>9.0f} ms {pause:>11.0f} ms")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--responses", type=int, default=100_000)
    count = parser.parse_args().responses
    summary = made_up(count)
    characters = int(summary.responses[0].rows["response"].str.len_chars().sum())
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = write_page(summary, Path(folder) / "report.html")
        seconds, size = time.perf_counter() - began, path.stat().st_size
        print(
            f"{count:,} responses, {characters / 1e6:.0f} MB of text: page of {size / 1e6:.1f} MB in {seconds:.1f} s"
        )
        measure(path)


if __name__ == "__main__":
    main()
