"""A server in a process of its own, on a free port, that can be killed and started again."""

import socket
import subprocess
import sys
import time

from command_process import ENVIRONMENT


class ServerProcess:
    """Runs `python PROGRAM PORT ARGUMENTS…` and waits until the port answers."""

    def __init__(self, program: str, *arguments: object) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [sys.executable, program, *map(str, (self.port, *arguments))]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=ENVIRONMENT)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
