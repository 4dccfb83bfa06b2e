"""A server of vLLM for a measurement: started, waited for, and ended with it."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of the server that `command` starts on `port`."""
    server = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1)
                break
            except OSError:
                time.sleep(1)
        else:
            raise SystemExit("the vLLM server did not start")
        yield url
    finally:
        server.terminate()
        server.wait()
