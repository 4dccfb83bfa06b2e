"""The wheel has all that the package needs outside a checkout, and nothing else."""

from email import message_from_bytes
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest

from calibsft import shipped
from distribution import ROOT, build, contents, unpacked

PACKAGES = ("calibsft", "calibsft_verifiers")
SHIPPED = [folder for name, folder in vars(shipped).items() if name.isupper()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def files(wheel: Path) -> dict[str, bytes]:
    return contents(wheel)


def of_checkout() -> dict[str, bytes]:
    """Files of the packages and of the folders that come with them, named as in the wheel."""
    folders = {f"calibsft/{name}": ROOT / name for name in SHIPPED}
    folders |= {name: ROOT / "src" / name for name in PACKAGES}
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for name, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def described(files: dict[str, bytes], suffix: str) -> bytes:
    """A file of the wheel's own folder."""
    (found,) = (text for name, text in files.items() if name.endswith(f".dist-info/{suffix}"))
    return found


def test_it_has_every_file_of_the_package_and_its_folders(files: dict[str, bytes]) -> None:
    expected = of_checkout()
    assert {name.split("/")[1] for name in expected} >= {"recipes", "launchers", "machines", "report"}
    assert sorted(expected.keys() - files.keys()) == []
    assert [name for name, text in expected.items() if files[name] != text] == []


def test_it_has_nothing_else(files: dict[str, bytes]) -> None:
    others = files.keys() - of_checkout().keys()
    assert [name for name in others if ".dist-info/" not in name] == []


def test_the_source_distribution_builds_the_same_wheel(files: dict[str, bytes], tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path)
    again = contents(build("wheel", unpacked(sdist, tmp_path / "unpacked"), tmp_path))
    assert [name for name in files.keys() | again.keys() if files.get(name) != again.get(name)] == []


def test_its_description_is_the_readme_and_its_licence_is_inside(files: dict[str, bytes]) -> None:
    metadata = message_from_bytes(described(files, "METADATA"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.get_payload(decode=True).decode() == readme
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert described(files, "licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_its_entry_points_name_modules_that_exist(files: dict[str, bytes]) -> None:
    lines = described(files, "entry_points.txt").decode().splitlines()
    points = [EntryPoint(*line.split(" = "), group="") for line in lines if " = " in line]
    assert {point.name for point in points} == {"calibsft"} and len(points) >= 3
    assert [point.value for point in points if find_spec(point.module) is None] == []
