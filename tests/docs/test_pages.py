"""Every code block of README, docs and examples runs, page by page as a reader would, or is in a table with the reason."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import datasets
import pytest
from huggingface_hub import constants

from command import Command
from doc_pages import ROOT, blocks, pages
from doc_reader import Reader, fitting
from doc_shelf import Shelf
from doc_tables import LONG, NEED_THE_DEMO
from hub_cache import HubCache


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """The files that pages name, with a cache of the Hub that is used instead of the user's."""
    folder = tmp_path_factory.mktemp("shelf")
    cache = HubCache(folder / "hf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(cache.root / "hub"))
        # for other processes
        patch.setenv("HF_HUB_CACHE", str(cache.root / "hub"))
        patch.setenv("HF_DATASETS_CACHE", str(cache.root / "prepared"))
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", cache.root / "prepared")
        yield Shelf(folder, cache)


WITH_BLOCKS = [page for page in pages() if blocks(page)]
ON_THE_DEMO = [page for page in WITH_BLOCKS if fitting(NEED_THE_DEMO, name(page))]
OF_MAKE_LONG = [page for page in WITH_BLOCKS if fitting(LONG, name(page))]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_every_block_of_a_page_runs(page: Path, shelf: Shelf, calibsft: Command, tmp_path: Path) -> None:
    with ExitStack() as servers:
        apart = page in (*ON_THE_DEMO, *OF_MAKE_LONG)
        wrong = Reader(tmp_path, calibsft, shelf.lay_out, servers, only_parses=apart).read(blocks(page))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("page", OF_MAKE_LONG, ids=name)
def test_every_block_of_a_long_page_runs(page: Path, shelf: Shelf, calibsft: Command, tmp_path: Path) -> None:
    with ExitStack() as servers:
        wrong = Reader(tmp_path, calibsft, shelf.lay_out, servers).read(blocks(page))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("page", ON_THE_DEMO, ids=name)
def test_a_page_on_the_demo_runs_after_it(page: Path, calibsft: Command, tmp_path: Path) -> None:
    code, _, said = calibsft("run", "tiny")
    assert code == 0, said
    with ExitStack() as servers:
        wrong = Reader(tmp_path, calibsft, lambda *_: None, servers, changes=()).read(blocks(page))
    assert not wrong, "\n\n".join(wrong)
