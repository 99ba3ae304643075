"""C text of the tree, and the names that it turns out to use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from weft.codegen import tree as c
from weft.codegen.element import Element
from weft.codegen.flavours import CACHE_LINE, Dialect
from weft.codegen.linear import LinearAddress, moved, value_of
from weft.codegen.uses import Uses

_INDENT = "    "


class Printer:
    """Prints a function.

    Args:
        flavour: the dialect.

    Attributes:
        names: variables, functions and types that were printed.
        helpers: helper functions that were called.
        loops: variables of the loops that were printed.
    """

    def __init__(self, flavour: Dialect) -> None:
        self._flavour = flavour
        self.names: set[str] = set()
        self.helpers: dict[str, None] = {}
        self.loops: set[str] = set()

    @property
    def uses(self) -> Uses:
        """What was printed needs."""
        return Uses(frozenset(self.names), tuple(self.helpers))

    # --- expressions --------------------------------------------------------------------------

    def text(self, node: c.Node, level: int = 0) -> str:
        """An expression, in brackets if it binds less tightly than ``level``."""
        if isinstance(node, c.Name):
            self.names.add(node.name)
            return node.name
        if isinstance(node, c.CBinary):
            own, left, right = c.BINARY_LEVELS[node.op]
            text = f"{self.text(node.lhs, left)} {node.op} {self.text(node.rhs, right)}"
            return text if own >= level else f"({text})"
        if isinstance(node, c.CMemory):
            text, own = self._memory(node), c.UNARY if node.vector and not node.held else c.PRIMARY
        elif isinstance(node, c.CNumber):
            self.names.update(node.names)
            text, own = node.text, node.level
        elif isinstance(node, c.Helper):
            self.helpers[node.function] = None
            return f"{node.function}({self._list(node.arguments)})"
        else:
            text, own = self._rare(node)
        return text if own >= level else f"({text})"

    def _rare(
        self,
        node: c.CUnary | c.Ternary | c.CCast | c.Convert | c.CGroup | c.Index | c.Braces | c.CCall,
    ) -> tuple[str, int]:
        match node:
            case c.CUnary(op, x):
                return f"{op}{self.text(x, c.UNARY)}", c.UNARY_LEVELS[op]
            case c.CCast(type, x):
                self.names.add(type.removesuffix(" *"))
                return f"({type}){self.text(x, c.UNARY)}", c.UNARY
            case c.Ternary(test, yes, no):
                parts = self.text(test, c.OR), self.text(yes, c.OR), self.text(no, c.TERNARY)
                return "{} ? {} : {}".format(*parts), c.TERNARY
            case c.CCall(function, arguments):
                self.names.add(function)
                return f"{function}({self._list(arguments)})", c.PRIMARY
            case c.Convert(x, type):
                self.names.add(type)
                return self._flavour.text("convert", x=self.text(x), type=type), c.PRIMARY
            case c.CGroup(x):
                return f"({self.text(x)})", c.PRIMARY
            case c.Index(base, at):
                return f"{self.text(base, c.PRIMARY)}[{self.text(at)}]", c.PRIMARY
            case c.Braces(type, items):
                self.names.add(type)
                return f"({type}){{{self._list(items)}}}", c.PRIMARY
            case _:
                assert_never(node)

    def _list(self, nodes: Iterable[c.Node]) -> str:
        return ", ".join([self.text(node) for node in nodes])

    def _memory(self, node: c.CMemory) -> str:
        assert isinstance(node, Element)
        if node.held:
            self.names.add(node.held)
            return node.held
        name, offset = node.name, node.offset
        if node.pointer:
            name, offset = node.pointer, node.rest
        self.names.add(name)
        plain = not offset.terms
        if not node.vector:
            return f"{name}[{offset.const if plain else self.text(value_of(offset).node)}]"
        self.names.add(f"{node.vector}_mem")
        const = "const " if node.load else ""
        target = name
        if not plain or offset.const:
            target = f"({name} + {offset.const})" if plain else self._moved(name, offset)
        return self._flavour.text("vector", const=const, type=node.vector, at=target)

    def _moved(self, name: str, offset: LinearAddress) -> str:
        return f"({self.text(moved(c.Name(name), offset))})"

    # --- statements ---------------------------------------------------------------------------

    def lines(self, statements: Sequence[c.Statement], depth: int = 1) -> list[str]:
        """Statements one after the other."""
        lines: list[str] = []
        for statement in statements:
            self._statement(statement, lines, depth)
        return lines

    def _statement(self, statement: c.Statement, lines: list[str], depth: int) -> None:
        indent = _INDENT * depth
        match statement:
            case c.Assign(target, op, value):
                text = f"{self.text(target)} {op} {self.text(value)}"
            case c.Declare(type, name, value, const):
                self.names.add(type)
                text = f"{'const ' if const else ''}{type} {name} = {self.text(value)}"
            case c.Pointer(type, const, name, value):
                self.names.add(type)
                pointer = self._flavour.pointer(type, const)
                text = f"{pointer}const {name} = {self.text(value)}"
            case c.Variables(type, variables):
                self.names.add(type)
                text = f"{type} {', '.join(map(self._variable, variables))}"
            case c.Evaluate(x):
                text = self.text(x)
            case c.Fetch(x):
                text = self._flavour.text("prefetch", x=self.text(x))
            case c.Unused(name):
                text = self._flavour.text("unused", name=name)
            case c.Barrier():
                text = self._flavour.text("barrier")
            case c.CFor() | c.CIf() | c.Braced():
                self._nested(statement, lines, depth, indent)
                return
            case _:
                assert_never(statement)
        lines.append(f"{indent}{text};")

    def _nested(
        self, statement: c.CFor | c.CIf | c.Braced, lines: list[str], depth: int, indent: str
    ) -> None:
        match statement:
            case c.CFor(body=body):
                lines.append(f"{indent}{self._for(statement)} {{")
            case c.CIf(test, body):
                lines.append(f"{indent}if ({self.text(test)}) {{")
            case c.Braced(body):
                lines.append(f"{indent}{{")
        lines += self.lines(body, depth + 1)
        if isinstance(statement, c.CIf) and statement.otherwise:
            lines.append(f"{indent}}} else {{")
            lines += self.lines(statement.otherwise, depth + 1)
        lines.append(f"{indent}}}")

    def _for(self, loop: c.CFor) -> str:
        declared = ""
        if self._flavour.loop_declarations:
            self.names.add(loop.type)
            declared = f"{loop.type} "
        self.loops.add(loop.name)
        if loop.hint:
            self.helpers[loop.hint] = None
        name, first = loop.name, self.text(loop.first)
        last = self.text(loop.last, c.BINARY_LEVELS["<"][2])
        hint = f"{loop.hint} " if loop.hint else ""
        return f"{hint}for ({declared}{name} = {first}; {name} < {last}; ++{name})"

    def _variable(self, variable: c.Variable) -> str:
        """A variable in its declaration; vectors in an aligned array lie in one cache line."""
        name, length = variable.name, variable.length
        aligned = self._flavour.text("aligned", bytes=CACHE_LINE) if variable.aligned else ""
        return f"{name}[{length}]{aligned}" if length else name
