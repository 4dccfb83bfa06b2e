"""YAML that a person wrote or a stage recorded, read strictly: a key stands once, and aliases cannot blow up."""

from typing import Any

import yaml

# A recipe has some hundred values; a few lines of aliases to aliases stand for billions.
MOST_VALUES = 10_000


class YamlProblem(ValueError):
    """What is wrong with a text in YAML, and in which line if that is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _StrictLoader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        found: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in found:
                    raise YamlProblem(f"the key '{key.value}' stands there twice", key.start_mark.line + 1)
                found.add(key.value)
        return node


def parse_yaml(text: str) -> Any:
    """The data that `text` writes; a `YamlProblem` says what is wrong with it."""
    try:
        loader = _StrictLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > MOST_VALUES:
            raise YamlProblem(f"with its aliases written out it holds more than {MOST_VALUES:,} values")
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlProblem(problem, mark.line + 1 if mark else None) from error
    except RecursionError as error:
        raise YamlProblem("it is nested too deeply") from error
    except YamlProblem:
        raise
    except ValueError as error:  # a date or a number that is none
        raise YamlProblem(str(error).split(";")[0]) from error


def _values(node: yaml.Node, counted: dict[int, int]) -> int:
    """How many values a node stands for, those of aliases counted wherever they are used."""
    if id(node) not in counted:
        counted[id(node)] = MOST_VALUES  # an alias to what it stands in
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else []
        parts = node.value if isinstance(node, yaml.SequenceNode) else parts
        counted[id(node)] = 1 + sum(_values(part, counted) for part in parts)
    return counted[id(node)]
