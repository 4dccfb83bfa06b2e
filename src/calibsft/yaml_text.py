"""Read YAML strictly: no repeated keys, and a limit on the values that aliases expand to."""

from typing import Any

import yaml

# A recipe has some hundred values; a few lines of nested aliases can expand to billions.
MOST_VALUES = 10_000


class YamlProblem(ValueError):
    """What is wrong with a YAML text, and in which line if that is known."""

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
                    raise YamlProblem(f"the key '{key.value}' occurs twice", key.start_mark.line + 1)
                found.add(key.value)
        return node


def parse_yaml(text: str) -> Any:
    """The data of `text`; raises `YamlProblem` if it is not valid."""
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
    except ValueError as error:  # an invalid date or number
        raise YamlProblem(str(error).split(";")[0]) from error


def _values(node: yaml.Node, counted: dict[int, int]) -> int:
    """How many values a node has, with those of aliases counted at each use."""
    if id(node) not in counted:
        counted[id(node)] = MOST_VALUES  # for an alias inside its own node
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else []
        parts = node.value if isinstance(node, yaml.SequenceNode) else parts
        counted[id(node)] = 1 + sum(_values(part, counted) for part in parts)
    return counted[id(node)]
