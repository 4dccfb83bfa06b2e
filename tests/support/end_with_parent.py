"""For processes that tests start: end when the tests do, however they do, since pytest's time-out leaves without any cleanup."""

import os
import threading


def end_with_parent() -> None:
    """Watch standard input, a pipe from the tests, and end with it."""

    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
