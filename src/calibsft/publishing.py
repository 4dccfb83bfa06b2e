"""Upload a finished checkpoint or training set to a repository on the Hub, card included.

The repository is made before the work, so that a wrong name or a missing login is reported before
hours of training. A card names no base model that is a folder here. Does not download: that is `hub`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from calibsft.artifacts import CARD
from calibsft.errors import InputError
from calibsft.hub import hub_problem
from calibsft.progress import info

Kind = Literal["model", "dataset"]


def make_repository(name: str, kind: Kind, public: bool) -> None:
    """Make the repository unless it exists; an existing one stays as public as it is."""
    from huggingface_hub import HfApi

    with _as_input_error(name):
        if reason := hub_problem():
            raise ConnectionError(reason)
        HfApi().create_repo(name, repo_type=kind, private=not public, exist_ok=True)


def upload(folder: Path, name: str, kind: Kind, files: Sequence[str] | None = None) -> None:
    """Upload the folder, or those of its files that match patterns, to an existing repository."""
    from huggingface_hub import HfApi

    with _as_input_error(name):
        api, message = HfApi(), "Upload with calibsft"
        api.upload_folder(
            repo_id=name,
            repo_type=kind,
            folder_path=folder,
            allow_patterns=None if files is None else list(files),
            ignore_patterns=[CARD, ".*.lock"],
            commit_message=message,
        )
        card = _public_card((folder / CARD).read_text(encoding="utf-8"), kind).encode()
        done = api.upload_file(
            path_or_fileobj=card, path_in_repo=CARD, repo_id=name, repo_type=kind, commit_message=message
        )
    info(f"uploaded: {done.repo_url}")


def _public_card(text: str, kind: Kind) -> str:
    """The card without a base model that is a folder here: the Hub refuses such a name."""
    from huggingface_hub import ModelCard

    if kind != "model":
        return text
    card = ModelCard(text, ignore_metadata_errors=True)
    base = card.data.get("base_model")
    if base is None or not _is_folder(str(base)):
        return text
    card.data.pop("base_model")
    card.text = card.text.replace(f"`{base}`", "a checkpoint that is not on the Hub")
    return str(card)


def _is_folder(base: str) -> bool:
    """Whether a base model is of this machine: it exists, or cannot be a name on the Hub."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(base)
    except HFValidationError:
        return True
    return Path(base).exists()


@contextmanager
def _as_input_error(name: str) -> Iterator[None]:
    """Report what the Hub refuses in one sentence."""
    try:
        yield
    except Exception as error:  # names, logins and connections raise many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{name}: could not be uploaded ({reason.rstrip('.')}); log in with `hf auth login`, check the name, and run the"
            " same command again"
        ) from error
