"""The Hub's cache as downloads leave it, in a temporary folder; the Hub's own libraries read it offline."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = "0" * 39 + "1", "f" * 39 + "2"


@dataclass(frozen=True)
class HubCache:
    root: Path

    def add_model(self, name: str, commit: str, checkpoint: Path, *refs: str) -> Path:
        """A downloaded checkpoint; `refs` are the branches and tags that lead to it."""
        return self._add("models", name, commit, refs, checkpoint)

    def add_dataset(
        self, name: str, config: str, split: str, commit: str, rows: list[dict[str, Any]], *refs: str
    ) -> None:
        """A downloaded and prepared dataset."""
        import datasets
        from datasets.naming import camelcase_to_snakecase

        source = self.root / "made" / commit
        source.mkdir(parents=True)
        (source / "README.md").write_text("")
        self._add("datasets", name, commit, refs, source)
        rows_file = source / "rows.jsonl"
        rows_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = datasets.load_dataset(
            "json", data_files={split: str(rows_file)}, split=split, cache_dir=str(source / "prepared")
        )
        owner, _, last = name.rpartition("/")
        arrow, short = Path(made.cache_files[0]["filename"]), camelcase_to_snakecase(last)
        folder = self.root / "prepared" / f"{owner}___{short}" / config / "0.0.0" / commit
        folder.mkdir(parents=True)
        shutil.copy(arrow, folder / f"{short}-{split}.arrow")
        known = json.loads((arrow.parent / "dataset_info.json").read_text())
        (folder / "dataset_info.json").write_text(
            json.dumps(known | {"dataset_name": short, "config_name": config})
        )

    def _add(self, kind: str, name: str, commit: str, refs: tuple[str, ...], content: Path) -> Path:
        folder = self.root / "hub" / f"{kind}--{name.replace('/', '--')}"
        for ref in refs:
            (folder / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
            (folder / "refs" / ref).write_text(commit)
        return Path(shutil.copytree(content, folder / "snapshots" / commit))


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubCache:
    """An empty cache, which is used instead of the user's."""
    import datasets
    from huggingface_hub import constants

    cache = HubCache(tmp_path / "hf")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache.root / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache.root / "prepared")
    return cache
