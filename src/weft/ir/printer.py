"""Print a graph as text that ``weft.ir.parser`` reads back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.ir.graph import Graph, Node, Origin
from weft.ir.types import Symbol, TensorType
from weft.ir.unknown import digest, is_known
from weft.ir.verify import bodies

INLINE_ELEMENTS = 8
"""A constant of at most this many elements is printed, a larger one referred to."""

_WIDEST_ALIGNED = 56
_BARE_VALUE = re.compile(r"[\w./-]*[\w./]")
_BARE_WORD = re.compile(r"[A-Za-z_][\w.]*")
_BARE_LABEL = re.compile(r'(?!by$|<-$)[^\s",]+')


def show(graph: Graph, *, defaults: bool = False) -> str:
    """The graph as text, one line per node; ``parse`` gives an equal graph.

    Args:
        graph: the graph.
        defaults: print attributes that have their default value too.
    """
    return "\n".join(_graph_lines(graph, defaults, "")) + "\n"


def show_node(node: Node, graph: Graph) -> str:
    """The line of one node of a graph."""
    return f"{_made(node, graph)} = {_use(node, False, '')}"


def show_attributes(record: Any, *, defaults: bool = False) -> str:
    """The attributes of a node in the text format, ``kernel=(3, 3), group=2``."""
    return _fields(record, defaults, "")


def architecture(graph: Graph) -> str:
    """A short hash of what a graph computes but for the elements of its constants.

    Names of nodes and values count; where nodes come from does not.
    """
    found = blake2b(digest_size=8)
    for line in _architecture_lines(graph):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def _architecture_lines(graph: Graph) -> Iterator[str]:
    yield from (f"{name}: {graph.types[name]}" for name in graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        attributes = node.attributes
        for attribute, body in bodies(node):
            yield f"{node.name} {attribute}"
            yield from _architecture_lines(body)
            attributes = replace(attributes, **{attribute: None})
        nodes.append(replace(node, attributes=attributes, origin=Origin()))
    bare = replace(graph, name="", nodes=tuple(nodes), constants={}, history=())
    yield from _graph_lines(bare, False, "")


def references(graph: Graph) -> dict[str, np.ndarray]:
    """The constants that ``show`` only refers to, under the names that ``parse`` looks up."""
    found: dict[str, np.ndarray] = {}
    for name, array in _references(graph, ""):
        if name in found:
            raise UserError(f"two constants would be stored as {name}", fix="Rename one.")
        found[name] = array
    return found


def scoped(scope: str, node: str, attribute: str) -> str:
    """The prefix of the names of the constants in a node's body graph."""
    return f"{scope}{node}//{attribute}//"


def _references(graph: Graph, scope: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in graph.constants.items():
        if _inline(array) is None:
            yield scope + name, array
    for node in graph.nodes:
        for attribute, body in bodies(node):
            yield from _references(body, scoped(scope, node.name, attribute))


def _graph_lines(graph: Graph, defaults: bool, indent: str) -> Iterator[str]:
    inputs = ", ".join(f"{value_text(v)}: {graph.types[v]}" for v in graph.inputs)
    outputs = ", ".join(value_text(v) for v in graph.outputs)
    yield f"graph {_word(graph.name)}({inputs}) -> ({outputs}) {{"
    inner = indent + "  "
    for entry in graph.history:
        what = f": {string_text(entry.what)}" if entry.what else ""
        yield f"{inner}history {string_text(entry.name)}{what}"
    for name, array in graph.constants.items():
        text = _inline(array) or f"@{digest(array)}"
        yield f"{inner}const {value_text(name)}: {graph.types[name]} = {text}"
    made = [_made(node, graph) for node in graph.nodes]
    width = max((len(text) for text in made if len(text) <= _WIDEST_ALIGNED), default=0)
    for text, node in zip(made, graph.nodes, strict=True):
        yield f"{inner}{text:<{width}} = {_use(node, defaults, inner)}"
    yield f"{indent}}}"


def _made(node: Node, graph: Graph) -> str:
    return ", ".join(f"{value_text(v)}: {graph.types[v]}" if v else "_" for v in node.outputs)


def _use(node: Node, defaults: bool, indent: str) -> str:
    inputs = ", ".join(value_text(v) if v else "_" for v in node.inputs)
    attributes = _fields(node.attributes, defaults, indent)
    parts = [f"{_word(node.op)}({inputs})"]
    if attributes:
        parts.append(f"{{{attributes}}}")
    label = _label(node)
    return " ".join(parts) + (f"  # {label}" if label else "")


def _label(node: Node) -> str:
    """The node's name and origin; nothing where the output's name says it all."""
    label = _bare_label(node.name)
    if node.origin.sources or node.origin.rules:
        label += " <-" + "".join(f" {text}" for text in _labels(node.origin.sources))
        if node.origin.rules:
            label += " by" + "".join(f" {text}" for text in _labels(node.origin.rules))
        return label
    first = next((value for value in node.outputs if value), "")
    return "" if node.name == first else label


def _labels(names: Iterable[str]) -> Iterator[str]:
    texts = [_bare_label(name) for name in names]
    yield from (f"{text}," for text in texts[:-1])
    yield from texts[-1:]


def _inline(array: np.ndarray) -> str | None:
    """The elements of a small array, if their text gives the same bytes back."""
    if array.size > INLINE_ELEMENTS or not is_known(array):
        return None
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN, not news
        if np.isnan(array.astype(np.float64)).any():
            return None
    return f"[{', '.join(_scalar(element) for element in array.reshape(-1).tolist())}]"


def _scalar(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _fields(record: Any, defaults: bool, indent: str) -> str:
    if not is_dataclass(record):
        raise InternalError(f"attributes must be a dataclass, got {record!r}")
    shown: list[str] = []
    for each in fields(record):
        value = getattr(record, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        # Types too: 1, 1.0 and True are equal, yet three texts.
        same = type(value) is type(default) and repr(value) == repr(default)
        if defaults or not same:
            shown.append(f"{each.name}={attribute_text(value, defaults, indent)}")
    return ", ".join(shown)


def attribute_text(value: Any, defaults: bool = False, indent: str = "") -> str:
    """An attribute as the parser reads it."""
    match value:
        case None | bool() | int() | float() | str() | np.generic() | Enum() | Symbol():
            return _atom(value)
        case TensorType():
            return str(value)
        case tuple():
            texts = [attribute_text(each, defaults, indent) for each in cast(tuple[Any], value)]
            return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        case Graph():
            return "\n".join(_graph_lines(value, defaults, indent))
        case _ if is_dataclass(value):
            return f"{type(value).__name__}{{{_fields(value, defaults, indent)}}}"
        case _:
            raise InternalError(f"an attribute cannot be a {type(value).__name__}: {value!r}")


def _atom(value: Any) -> str:
    match value:
        case None:
            return "none"
        case DType():
            return str(value.value)
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case str():
            return string_text(value)
        case Symbol():
            return f"${value.name}"
        case np.generic():
            return _scalar(cast(np.generic, value).item())
        case _:
            return _scalar(value)


def string_text(text: str) -> str:
    """A string as the parser reads it."""
    return json.dumps(text, ensure_ascii=False)


def value_text(name: str) -> str:
    """The name of a value as the parser reads it."""
    return "%" + (name if _BARE_VALUE.fullmatch(name) else string_text(name))


def _word(name: str) -> str:
    return name if _BARE_WORD.fullmatch(name) else string_text(name)


def _bare_label(name: str) -> str:
    return name if _BARE_LABEL.fullmatch(name) else string_text(name)
