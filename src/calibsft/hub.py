"""What is asked of the Hugging Face Hub, and what came from there: pinned revisions, and the commits that were loaded.

Finds out once, and within seconds, whether the Hub answers. Its own libraries try again for every file, with growing
pauses, and need minutes to report a missing connection.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from calibsft.errors import InputError
from calibsft.progress import warn

PATIENCE_SECONDS = 4.0
# The Hub's own variable, for slow connections.
PATIENCE_VARIABLE = "HF_HUB_ETAG_TIMEOUT"
PINNED = re.compile(r"([\w.-]+(?:/[\w.-]+)?)@([\w.-]+(?:/[\w.-]+)*)", re.ASCII)
# A file that every download of this kind has.
ALWAYS_THERE = {"model": "config.json", "dataset": "README.md"}

_recorders: list[dict[str, str]] = []


def name_and_revision(model: str) -> tuple[str, str | None]:
    """A model's name on the Hub and the revision that `org/name@revision` pins; a path that exists is no such name."""
    pinned = None if Path(model).exists() else PINNED.fullmatch(model)
    return (pinned[1], pinned[2]) if pinned else (model, None)


def snapshot(name: str, revision: str | None, kind: Literal["model", "dataset"] = "model") -> Path | None:
    """The folder of a download in the Hub's cache, which is called like its commit; None if it is not there.

    `revision` is a commit, a branch or a tag; None is the newest that was downloaded.
    """
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, ALWAYS_THERE[kind], revision=revision, repo_type=kind)
    except ValueError:  # not a valid name on the Hub
        return None
    return Path(found).parent if isinstance(found, str) else None


@contextmanager
def recording_commits() -> Iterator[dict[str, str]]:
    """Inside this context, the commit of everything that is loaded from the Hub is put into the dictionary, by name."""
    recorder: dict[str, str] = {}
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.pop()


def record_commit(name: str, commit: str) -> None:
    for recorder in _recorders:
        recorder[name] = commit


def prepare_model(model: str) -> None:
    """Before loading a model: refuse it if it is neither a folder nor downloaded, and the Hub does not answer."""
    if Path(model).exists():
        return
    reason = hub_problem()
    if reason is not None and snapshot(*name_and_revision(model)) is None:
        raise InputError(
            f"model '{model}' is neither a folder nor downloaded, and the Hub does not answer ({reason}); check the connection,"
            " or give a checkpoint folder"
        )
    prepare_hub()


def prepare_hub() -> None:
    """Before using the Hub: if it does not answer, let its libraries use only their cache."""
    reason = hub_problem()
    if reason is None:
        return
    from huggingface_hub import constants

    warn(f"the Hub does not answer ({reason}); only what was downloaded before can be used")
    os.environ["HF_HUB_OFFLINE"] = "1"  # for child processes
    constants.HF_HUB_OFFLINE = True
    datasets: Any = sys.modules.get("datasets")
    if datasets is not None:
        datasets.config.HF_HUB_OFFLINE = True


def hub_problem() -> str | None:
    """Why the Hub does not answer; None if it does, or in offline mode."""
    from huggingface_hub import constants

    return None if constants.is_offline_mode() else _problem(constants.ENDPOINT)


@cache
def _problem(endpoint: str) -> str | None:
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
