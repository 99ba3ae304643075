"""Parse the text of a graph that ``weft.ir.printer`` prints.

::

    graph   = "graph" name "(" [typed {"," typed}] ")" "->" "(" [value {"," value}] ")"
              "{" {"history" string [":" string] | constant | node} "}"
    constant = "const" typed "=" (reference | "[" scalars "]")     or "const" typed
    node    = made {"," made} "=" op "(" [read {"," read}] ")" ["{" attributes "}"] [label]
    made    = typed | "_"            read = value | "_"
    typed   = value ":" type         type = dtype "[" [dim {"," dim}] "]"
    label   = "#" name ["<-" [names] ["by" names]]
    attribute = name "=" (scalar | string | tuple | dtype | enum | type | record | graph)

A line that starts with ``//`` is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, cast, get_args, get_type_hints

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import NO_ATTRIBUTES, Attributes, Graph, Node, Origin
from weft.ir.history import HistoryEntry
from weft.ir.lexer import STRING, Tokens
from weft.ir.printer import scoped
from weft.ir.types import Dim, Symbol, TensorType
from weft.ir.unknown import digest
from weft.ir.verify import violations
from weft.records import dataclass

AttributeClass: TypeAlias = Callable[[str], type]

_LABEL = re.compile(rf'(?P<name>{STRING}|[^\s",]+)|(?P<comma>,)|\s+')
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None, "inf": float("inf")}
_DTYPES = {dtype.value: dtype for dtype in DType}
_MAX_DEPTH = 32


def parse(
    text: str,
    attribute_class: AttributeClass,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """Read a graph.

    Args:
        text: what ``show`` printed, or what was written by hand in its grammar.
        attribute_class: the attribute class of an op's name.
        constants: the arrays that the text refers to, by constant name.

    Raises:
        UserError: with the line, if the text is not a valid graph.
    """
    parser = _Parser(text, attribute_class, constants or {})
    graph = parser.graph("")
    parser.end()
    found = violations(graph)
    if found:
        raise UserError(f"text: the graph {graph.name} is invalid", got="; ".join(found))
    return graph


@dataclass
class _Parts:
    """The inside of a graph as it is read."""

    scope: str
    nodes: list[Node] = field(default_factory=list[Node])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    history: list[HistoryEntry] = field(default_factory=list[HistoryEntry])


class _Parser(Tokens):
    def __init__(
        self, text: str, attribute_class: AttributeClass, constants: Mapping[str, np.ndarray]
    ) -> None:
        super().__init__(text)
        self.attribute_class = attribute_class
        self.constants = constants
        self.depth = 0

    def graph(self, scope: str) -> Graph:
        """A graph; ``scope`` prefixes the names under which its constants are looked up."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"graphs and attributes nest at most {_MAX_DEPTH} deep")
        self.expect("graph")
        name = self.name()
        parts = _Parts(scope)
        self.expect("(")
        inputs = self.listed(lambda: self.typed(parts), ")")
        self.take("arrow", "'->'")
        self.expect("(")
        outputs = self.listed(self.value, ")")
        self.expect("{")
        while not self.accept("}"):
            self.statement(parts)
        self.depth -= 1
        return Graph(
            name,
            tuple(inputs),
            tuple(outputs),
            tuple(parts.nodes),
            parts.types,
            parts.constants,
            tuple(parts.history),
        )

    def statement(self, parts: _Parts) -> None:
        """An entry of history, a constant or a node."""
        if self.accept("history"):
            name = self.string()
            parts.history.append(HistoryEntry(name, self.string() if self.accept(":") else ""))
        elif self.accept("const"):
            self.constant(parts)
        else:
            self.node(parts)

    def constant(self, parts: _Parts) -> None:
        """A constant: its elements, or a reference that is looked up."""
        name = self.typed(parts)
        type = parts.types[name]
        if not self.accept("="):
            parts.constants[name] = self.stored(parts.scope + name, type, "")
        elif self.accept("["):
            parts.constants[name] = self.elements(type)
        else:
            reference = self.take("reference", "'[' or a reference such as @0123456789abcdef")
            parts.constants[name] = self.stored(parts.scope + name, type, reference[1:])

    def stored(self, name: str, type: TensorType, expected: str) -> np.ndarray:
        """The array that a constant refers to."""
        array = self.constants.get(name)
        if array is None:
            raise UserError(f"text: constant {name} is referenced without an array")
        if expected and digest(array) != expected:
            raise UserError(
                f"text: constant {name} has different elements than the text references",
                got=f"@{digest(array)} for @{expected}",
            )
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            got = f"{array.dtype}{list(array.shape)}"
            raise UserError(f"text: constant {name} is {type}", got=got)
        view = array.view()
        view.flags.writeable = False
        return view

    def elements(self, type: TensorType) -> np.ndarray:
        """The elements of a small constant."""
        values = self.listed(self.attribute, "]")
        if not type.is_static or len(values) != type.size:
            raise self.error(f"the elements of {type} are expected, there are {len(values)}")
        try:
            array = np.array(values, dtype=type.dtype.numpy).reshape(type.dims)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(f"the elements must be {type.dtype.value} ({error})") from None
        array.flags.writeable = False
        return array

    def node(self, parts: _Parts) -> None:
        """A node."""
        outputs = self.listed(lambda: self.made(parts), "=")
        op = self.name()
        self.expect("(")
        inputs = self.listed(self.read, ")")
        record = self.attribute_class(op)
        name, origin = next((value for value in outputs if value), ""), Origin()
        values: dict[str, Any] = {}
        if self.sees("{"):
            # The label comes last, yet its name scopes the constants of body graphs.
            name = self.name_ahead(name)
            values = self.fields(record, lambda each: scoped(parts.scope, name, each))
        if self.kind == "label":
            name, origin = self.label()
        if not name:
            raise self.error("a node without outputs needs a name", back=1)
        attributes = self.record(record, values)
        parts.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attributes, origin))

    def name_ahead(self, default: str) -> str:
        """The node's name, which stands behind the attributes that are about to be read."""
        start, level = self.position, 0
        while True:
            kind, text, _ = self.tokens[self.position]
            if kind == "end":
                raise self.error("'}' is expected")
            level += (kind == "mark" and text == "{") - (kind == "mark" and text == "}")
            self.position += 1
            if not level:
                break
        name = self.label()[0] if self.kind == "label" else default
        self.position = start
        return name

    def label(self) -> tuple[str, Origin]:
        """A node's name and origin."""
        text = self.take("label", "a name")[1:]
        groups: list[list[str]] = [[]]
        for found in _LABEL.finditer(text):
            item = found.group("name")
            if item in ("<-", "by"):
                groups += [[]] * (item == "by" and len(groups) == 1)
                groups.append([])
            elif item:
                groups[-1].append(self.unquoted(item))
        if len(groups[0]) != 1 or len(groups) > 3:
            raise self.error("a label is '# name', '<- sources', 'by rules'", back=1)
        groups += [[], []]
        return groups[0][0], Origin(tuple(groups[1]), tuple(groups[2]))

    def typed(self, parts: _Parts) -> str:
        """A value and its type."""
        name = self.value()
        if name in parts.types:
            raise self.error(f"there is a value {name} already", back=1)
        self.expect(":")
        parts.types[name] = self.type(self.take("word", "an element type"))
        return name

    def type(self, dtype: str) -> TensorType:
        """The shape behind an element type."""
        if dtype not in _DTYPES:
            raise self.error(f"an element type is one of {', '.join(_DTYPES)}", back=1)
        self.expect("[")
        return TensorType(_DTYPES[dtype], tuple(self.listed(self.dim, "]")))

    def dim(self) -> Dim:
        """A size or a symbol."""
        if self.kind == "word":
            return Symbol(self.take("word", "a size"))
        return self.size()

    def made(self, parts: _Parts) -> str:
        """An output."""
        return "" if self.accept("_") else self.typed(parts)

    def read(self) -> str:
        """An input."""
        return "" if self.accept("_") else self.value()

    # --- attributes -------------------------------------------------------------------------

    def fields(self, record: type, scope: Callable[[str], str]) -> dict[str, Any]:
        """``{name=value, ...}`` for the fields of a class."""
        self.expect("{")
        known = _fields_of(record)
        values: dict[str, Any] = {}

        def read() -> None:
            name = self.take("word", "an attribute's name")
            if name not in known or name in values:
                listed = ", ".join(known) or "none"
                raise self.error(
                    f"{record.__name__} has the attributes: {listed}, each once", back=1
                )
            self.expect("=")
            values[name] = self.attribute(_classes_of(record), scope(name))

        self.listed(read, "}")
        return values

    def record(self, record: type, values: Mapping[str, Any]) -> Any:
        """An instance of an attribute class."""
        if record is Attributes:
            return NO_ATTRIBUTES
        try:
            return record(**values)
        except TypeError as error:
            raise self.error(f"{record.__name__}: {error}") from None

    def attribute(self, classes: Mapping[str, type] | None = None, scope: str = "") -> Any:
        """A value of an attribute."""
        kind, text, _ = self.tokens[self.position]
        if self.sees("graph"):
            return self.graph(scope)
        if kind == "string":
            return self.string()
        if kind == "number":
            return self.number()
        self.position += 1
        if kind == "symbol":
            return Symbol(text[1:])
        if kind == "mark" and text == "(":
            return self.tuple(classes, scope)
        if kind == "word":
            return self.word(text, classes or {}, scope)
        raise self.error("a value is expected", back=1)

    def tuple(self, classes: Mapping[str, type] | None, scope: str) -> tuple[Any, ...]:
        """The rest of a tuple."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"graphs and attributes nest at most {_MAX_DEPTH} deep")
        found = tuple(self.listed(lambda: self.attribute(classes, scope), ")"))
        self.depth -= 1
        return found

    def word(self, text: str, classes: Mapping[str, type], scope: str) -> Any:
        """What a bare word stands for: a constant, an element type, an enum, a record."""
        if text in _WORDS:
            return _WORDS[text]
        if text in _DTYPES:
            return self.type(text) if self.sees("[") else _DTYPES[text]
        if text in classes and self.sees("{"):
            return self.record(classes[text], self.fields(classes[text], lambda _: scope))
        name, _, member = text.partition(".")
        found = classes.get(name)
        if found is not None and issubclass(found, Enum) and member in found.__members__:
            return found[member]
        raise self.error("a value is expected", back=1)


def _fields_of(record: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record)) if is_dataclass(record) else ()


@cache
def _classes_of(record: type) -> Mapping[str, type]:
    """Enums and records that the annotations of a class name, by name."""
    found: dict[str, type] = {}
    pending: list[Any] = list(get_type_hints(record).values())
    while pending:
        hint = pending.pop()
        pending.extend(get_args(hint))
        if isinstance(hint, type):
            each = cast(type[object], hint)
            if issubclass(each, Enum) or is_dataclass(each):
                found[each.__name__] = each
    return found
