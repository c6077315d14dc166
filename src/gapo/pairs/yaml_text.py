"""YAML that a person wrote: small, of one meaning, and not larger in memory than it looks."""

from __future__ import annotations

from typing import Any

import yaml

LONGEST = 2**20  # characters: a recipe has a thousand; PyYAML takes a second for each million
MOST_VALUES = 100_000  # with every alias written out: nine lines of aliases make a billion
DEEPEST = 20


class NotYaml(yaml.YAMLError):
    """The text is no YAML of ours; `line` is where, if that is known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.line = line


def read_yaml(text: str, *, once: bool = False) -> Any:
    """The value of a text; raises NotYaml. `once` refuses a key that is there twice: PyYAML would take the last."""
    if len(text) > LONGEST:
        raise NotYaml(f"it has more than {LONGEST:,} characters")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _size(node, {}, (), once)
        return loader.construct_document(node)
    except NotYaml:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise NotYaml(str(what), mark.line + 1 if mark else None) from None
    except RecursionError:
        raise NotYaml("it is nested too deeply") from None
    except (ValueError, TypeError, OverflowError, ArithmeticError) as error:  # a date of the 45th, a number of words
        raise NotYaml(str(error)) from None


def _size(node: yaml.Node, known: dict[int, int], above: tuple[int, ...], once: bool) -> int:
    """How many values there are with every alias written out."""
    if id(node) in above:
        raise NotYaml("does an anchor contain itself?", _line(node))
    if len(above) > DEEPEST:
        raise NotYaml("it is nested too deeply", _line(node))
    if id(node) not in known:
        known[id(node)] = size = 1 + sum(_size(part, known, (*above, id(node)), once) for part in _parts(node, once))
        if size > MOST_VALUES:
            raise NotYaml(f"more than {MOST_VALUES:,} values by its aliases", _line(node))
    return known[id(node)]


def _parts(node: yaml.Node, once: bool) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for place, (tag, name) in enumerate(keys) if (tag, name) in keys[:place]), None)
        if once and twice is not None:
            raise NotYaml(f"key {twice[:40]!r} is there twice", _line(node))
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
