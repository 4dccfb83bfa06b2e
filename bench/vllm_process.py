"""A server of vLLM for a measurement: started, waited for, and ended with it."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile

LAST_BYTES = 2000


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of the server that `command` starts on `port`."""
    with TemporaryFile() as said:
        server = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        url = f"http://127.0.0.1:{port}"
        try:
            while server.poll() is None:
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=1)
                    break
                except OSError:
                    time.sleep(1)
            else:
                said.seek(0)
                words = said.read()[-LAST_BYTES:].decode(errors="replace")
                raise SystemExit(f"the vLLM server did not start:\n{words}")
            yield url
        finally:
            server.terminate()
            server.wait()
