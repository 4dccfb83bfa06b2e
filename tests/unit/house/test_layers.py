"""Rooms import in one direction: each knows only those below it, imports inside functions counted."""

import ast
from collections import defaultdict
from pathlib import Path

import calibsft

PACKAGE = Path(calibsft.__file__).parent
# From the lowest room to the highest; a room may use any below it.
ROOMS = [
    "callable_room",
    "errors",
    "interrupts",
    "text",
    "text_table",
    "yaml_text",
    "settings",
    "shipped",
    "supervised",
    "launchers",
    "schema",
    "table_schemas",
    "unix",
    "progress",
    "artifacts",
    "responses",
    "files",
    "hub",
    "models",
    "served",
    "engines",
    "metrics",
    "success_rates",
    "judge",
    "verify",
    "evidence",
    "targets",
    "model_index",
    "cards",
    "publishing",
    "training",
    "sft",
    "estimators",
    "playground",
    "benchmarks",
    "questions",
    "rollouts",
    "prior",
    "evaluation",
    "graded",
    "rl",
    "decisions",
    "monitoring",
    "report",
    "stages",
    "warmup",
    "recipe",
    "pipeline",
    "reproduction",
    "integrations",
    "estimates",
    "doctor",
    "gateway",
    "cli",
    "api",
]


def imported(source: str) -> set[str]:
    """The rooms that a module names in its imports, wherever they stand."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = (
                [f"calibsft.{alias.name}" for alias in node.names]
                if node.module == "calibsft"
                else [node.module]
            )
        found |= {module.split(".")[1] for module in modules if module.startswith("calibsft.")}
    return found


def edges() -> dict[tuple[str, str], list[str]]:
    """Which room uses which, with the files that do."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        room = place.parts[0].removesuffix(".py")
        for used in imported(path.read_text(encoding="utf-8")) & set(ROOMS) - {room}:
            found[room, used].append(str(place))
    return found


def test_every_room_has_its_place() -> None:
    rooms = {
        path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert rooms - {"__pycache__", "__init__", "__main__", "recipes"} == set(ROOMS)
    assert len(ROOMS) == len(set(ROOMS))


def test_no_room_uses_one_above_it() -> None:
    upward = {
        edge: files
        for edge, files in edges().items()
        if edge[0] in ROOMS and ROOMS.index(edge[1]) > ROOMS.index(edge[0])
    }
    assert not upward


def test_imports_inside_functions_are_seen() -> None:
    assert imported("def f():\n    from calibsft.cli.app import main\n    import calibsft.rl.train") == {
        "cli",
        "rl",
    }
    assert imported("from calibsft import progress") == {"progress"}
