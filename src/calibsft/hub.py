"""Whether the Hugging Face Hub answers, found out once and within seconds.

Its own libraries ask for every file anew, with pauses that grow: minutes go by before they say that nobody is there.
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
# The Hub's own variable, for connections that are slow and not broken.
PATIENCE_VARIABLE = "HF_HUB_ETAG_TIMEOUT"


def prepare_model(model: str) -> None:
    """Before a model is loaded: refuse one that is neither a folder nor downloaded where the Hub does not answer."""
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
    """Before anything is asked of the Hub: where it does not answer, its libraries look into their cache alone."""
    reason = silence()
    if reason is None:
        return
    from huggingface_hub import constants

    warn(f"the Hub does not answer ({reason}); only what was downloaded before can be used")
    os.environ["HF_HUB_OFFLINE"] = "1"  # for processes that are started from here
    constants.HF_HUB_OFFLINE = True
    datasets: Any = sys.modules.get("datasets")
    if datasets is not None:
        datasets.config.HF_HUB_OFFLINE = True


def silence() -> str | None:
    """Why the Hub does not answer; None if it does, and where it is not to be asked at all."""
    from huggingface_hub import constants

    return None if constants.is_offline_mode() else _silence(constants.ENDPOINT)


def _downloaded(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(model, "config.json"), str)
    except ValueError:  # no name that the Hub could have
        return False


@cache
def _silence(endpoint: str) -> str | None:
    """Why nothing came back from `endpoint`, None if anything did."""
    patience = float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_SECONDS)
    found: list[str | None] = []
    # In a thread of its own: looking up a name does not keep to any time limit.
    asking = threading.Thread(target=lambda: found.append(_ask(endpoint, patience)), daemon=True)
    asking.start()
    asking.join(patience)
    return found[0] if found else f"nothing from {endpoint} within {patience:g} s"


def _ask(endpoint: str, patience: float) -> str | None:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=patience)
    except Exception as error:  # names, proxies, certificates and connections fail in many ways
        return f"{endpoint}: {str(error).strip().rstrip('.') or type(error).__name__}"
    return None
