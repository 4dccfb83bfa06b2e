"""Find out once, and within seconds, whether the Hugging Face Hub answers.

Its own libraries try again for every file, with growing pauses, and need minutes to report a missing connection.
"""

import os
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.progress import warn

PATIENCE_SECONDS = 4.0
# The Hub's own variable, for slow connections.
PATIENCE_VARIABLE = "HF_HUB_ETAG_TIMEOUT"


def prepare_model(model: str) -> None:
    """Before loading a model: refuse it if it is neither a folder nor downloaded, and the Hub does not answer."""
    if Path(model).exists():
        return
    reason = silence()
    if reason is not None and not _downloaded(model):
        raise InputError(
            f"model '{model}' is neither a folder nor downloaded, and the Hub does not answer ({reason}); check the connection,"
            " or give a checkpoint folder"
        )
    prepare_hub()


def prepare_hub() -> None:
    """Before using the Hub: if it does not answer, let its libraries use only their cache."""
    reason = silence()
    if reason is None:
        return
    from huggingface_hub import constants

    warn(f"the Hub does not answer ({reason}); only what was downloaded before can be used")
    os.environ["HF_HUB_OFFLINE"] = "1"  # for child processes
    constants.HF_HUB_OFFLINE = True
    datasets: Any = sys.modules.get("datasets")
    if datasets is not None:
        datasets.config.HF_HUB_OFFLINE = True


def silence() -> str | None:
    """Why the Hub does not answer; None if it does, or in offline mode."""
    from huggingface_hub import constants

    return None if constants.is_offline_mode() else _silence(constants.ENDPOINT)


def _downloaded(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(model, "config.json"), str)
    except ValueError:  # not a valid name on the Hub
        return False


@cache
def _silence(endpoint: str) -> str | None:
    """Why `endpoint` does not reply, None if it does."""
    patience = float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_SECONDS)
    found: list[str | None] = []
    # In a thread: looking up a host name has no time limit.
    asking = threading.Thread(target=lambda: found.append(_ask(endpoint, patience)), daemon=True)
    asking.start()
    asking.join(patience)
    return found[0] if found else f"nothing from {endpoint} within {patience:g} s"


def _ask(endpoint: str, patience: float) -> str | None:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=patience)
    except Exception as error:  # names, proxies, certificates and connections raise many kinds
        return f"{endpoint}: {str(error).strip().rstrip('.') or type(error).__name__}"
    return None
