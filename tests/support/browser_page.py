"""A real browser for tests of the page: Debian's Chromium, driven by Playwright. Without either, the tests skip."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# No sandbox, since tests may run as root, and nothing that Chromium asks of the network by itself.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass
class Opened:
    """A page in the browser with all it complained about and all it asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


# Playwright runs an event loop in this thread for as long as it is there, and later tests have loops of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine; install Debian's package to test the page in a browser")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a report from disk and waits until its inspector, if there is one, can be used."""
    contexts = []

    def start(path: Path, *, dark: bool = False, width: int = 1280) -> Opened:
        context = browser.new_context(
            color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(path.as_uri())
        if opened.page.locator("#responses-index").count():
            opened.page.wait_for_selector("html[data-inspector=ready]")
        return opened

    yield start
    for context in contexts:
        context.close()
