"""A thing is known by name in its own file and in its dict: whoever else needs one asks the dict or the thing itself.

So what holds for one thing holds for those that are added. Comments, docstrings and sentences may name examples.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import calibsft

PACKAGE = Path(calibsft.__file__).parent


@dataclass(frozen=True)
class Kind:
    """Things of one kind.

    Attributes
    ----------
    module, listed
        Where their dict is.
    closed
        Whether nobody else imports from a thing's own file, or names its classes, either.
    """

    module: str
    listed: str
    closed: bool = True

    @property
    def things(self) -> Mapping[str, Any]:
        things: Mapping[str, Any] = getattr(import_module(self.module), self.listed)
        return things


KINDS = {
    "engine": Kind("calibsft.engines", "ENGINES"),
    "benchmark": Kind("calibsft.benchmarks", "BENCHMARKS"),
    # Graders are made of others, and the stated confidence is what other estimators are compared with.
    "grader": Kind("calibsft.verify", "GRADERS", closed=False),
    "estimator": Kind("calibsft.estimators", "ESTIMATORS", closed=False),
    "evidence": Kind("calibsft.evidence", "EVIDENCE"),
    "target": Kind("calibsft.targets", "TARGETS", closed=False),
    "method": Kind("calibsft.rl.methods", "METHODS"),
}
# What may name things of another kind, as a recipe does: a benchmark its grader, a target the evidence that it needs.
NAMED_BY = {"grader": "benchmark", "evidence": "target"}
# The models of an experiment are named as those of a recipe are.
EXPERIMENTS = ("reproduction/arms.py", "reproduction/experiments/")
# What is done with unreadable confidences: an option of commands and functions.
MALFORMED = {
    "decisions/files.py",
    "files/cells.py",
    "metrics/files.py",
    "prior/files.py",
    "report/sources.py",
}
# Files in which a text that is the name of a thing has another role; exactly these.
OTHER_ROLES = {
    # The library that loads a checkpoint, as cards name it; its version, in a study.
    ("engine", "transformers"): {"cards.py", "reproduction/document.py"},
    # What samples in verl, by verl's name for it; the package that serves a policy in training; a kind of server, as
    # a router names it.
    ("engine", "vllm"): {
        "integrations/routers/semantic_router.py",
        "integrations/verl/rl_config.py",
        "engines/policy/serve.py",
        "engines/policy/weights.py",
    },
    # Whose API it is, by OpenTelemetry's conventions.
    ("engine", "openai"): {"gateway/telemetry.py"},
    # A benchmark's own grader has its name.
    ("benchmark", "hotpotqa"): {"verify/__init__.py", "verify/hotpotqa.py"},
    ("benchmark", "drop"): {"verify/__init__.py", "verify/drop.py"} | MALFORMED,
    # The family of exercises that the benchmark takes its questions from.
    ("benchmark", "cross"): {
        "playground/world.py",
        "playground/study/families.py",
        "playground/study/questions.py",
    },
    # The model that a recipe starts from, a tag of its card, and the worlds that it can learn.
    ("benchmark", "playground"): {"playground/settings.py", "playground/base.py", "playground/worlds.py"},
    # That world, the recipe on it, and the name of a study's figures.
    ("benchmark", "study"): {
        "playground/settings.py",
        "playground/worlds.py",
        "cli/reproduce.py",
        "reproduction/drawings.py",
        "reproduction/run.py",
    },
    # The playground's questions name their grader, as a benchmark does.
    ("grader", "exact"): {"playground/world.py", "playground/study/questions.py"},
    # A part of a chat message and of a completion in OpenAI's protocol; a column of a user's file.
    ("grader", "text"): {
        "gateway/requests.py",
        "engines/openai/protocols.py",
        "files/chats.py",
        "files/dialect.py",
    },
    ("grader", "drop"): MALFORMED,
    # A column of confidences in a user's file.
    ("target", "stated"): {"verify/files.py"},
    # A section of the settings.
    ("grader", "judge"): {"stages/rl.py", "pipeline/planner.py"},
}
# The name of the program is everywhere.
EVERY = [(kind, name) for kind in KINDS for name in KINDS[kind].things if name != "calibsft"]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(module: str) -> Path:
    """The file of a module, or the folder of a package."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path if path.is_dir() else path.with_suffix(".py")


@cache
def own_module(kind: str, name: str) -> str:
    """The module that the dict's module imports a thing from, alone or among others."""
    listing, thing = import_module(KINDS[kind].module), KINDS[kind].things[name]
    assert listing.__file__
    found = [
        str(node.module)
        for node in tree_of(Path(listing.__file__)).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{KINDS[kind].module}.")
        for alias in node.names
        if is_or_holds(getattr(listing, alias.name), thing)
    ]
    (module,) = found
    return module


def is_or_holds(value: Any, thing: Any) -> bool:
    return value is thing or (isinstance(value, list | tuple) and any(one is thing for one in value))


def is_own(path: Path, kind: str, name: str) -> bool:
    """Whether a file belongs to a thing, or is that of the dict."""
    own = file_of(own_module(kind, name))
    return path in (own, file_of(KINDS[kind].module) / "__init__.py") or own in path.parents


@cache
def class_names(kind: str, name: str) -> set[str]:
    """The classes of a thing and of its settings."""
    own = file_of(own_module(kind, name))
    nodes = (
        node for path in ([own] if own.is_file() else own.rglob("*.py")) for node in ast.walk(tree_of(path))
    )
    found = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    return {one for one in found if one.endswith(("Settings", kind.title()))}


def mentions(tree: ast.AST) -> Iterator[str]:
    """Every identifier and text of a program, and every module of ours that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield repr(node.value)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("calibsft"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("calibsft"))


def knows(found: str, kind: str, name: str) -> bool:
    """Whether a text, an identifier or a module stands for the thing."""
    if found == repr(name):
        return True
    if not KINDS[kind].closed:
        return False
    if found.rpartition(".")[2] in class_names(kind, name):
        return True
    return f"{found}.".startswith(f"{own_module(kind, name)}.")


@cache
def mentioned(path: Path) -> frozenset[str]:
    return frozenset(mentions(tree_of(path)))


def may_name(path: Path, kind: str) -> bool:
    """Whether a file is that of an experiment, or of a thing which names things of this kind."""
    if str(path.relative_to(PACKAGE)).startswith(EXPERIMENTS):
        return True
    by = NAMED_BY.get(kind)
    return by is not None and any(
        is_own(path, by, name) and path != file_of(KINDS[by].module) / "__init__.py"
        for name in KINDS[by].things
    )


@pytest.mark.parametrize("kind, name", EVERY)
def test_nobody_else_knows_a_thing_by_name(kind: str, name: str) -> None:
    knowing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(knows(found, kind, name) for found in mentioned(path))
        and not is_own(path, kind, name)
        and not may_name(path, kind)
    }
    assert knowing == OTHER_ROLES.get((kind, name), set())


@pytest.mark.parametrize(
    "program",
    [
        "from calibsft.engines.scripted import anything",
        "from calibsft.engines import scripted",
        "import calibsft.engines.scripted as other",
        "from calibsft.engines import ScriptedEngine as other",
        "engine = ScriptedEngine",
        "engines.ScriptedEngine()",
        "settings.name == 'scripted'",
    ],
)
def test_the_check_sees_every_way_to_know_one(program: str) -> None:
    assert any(knows(found, "engine", "scripted") for found in mentions(ast.parse(program)))


@pytest.mark.parametrize("name", KINDS["engine"].things)
def test_the_check_knows_the_classes_of_an_engine(name: str) -> None:
    assert len(class_names("engine", name)) == 2


@pytest.mark.parametrize("kind, name", EVERY)
def test_a_thing_is_listed_under_its_own_name(kind: str, name: str) -> None:
    assert getattr(KINDS[kind].things[name], "name", name) == name
