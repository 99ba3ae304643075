"""Mathematical functions: the C library's where the standard has them, else our own."""

from __future__ import annotations

from weft.codegen import tree as c
from weft.codegen.flavours import C99_FUNCTIONS, Dialect
from weft.codegen.helper_text import helper_text
from weft.codegen.value import CValue

LIBRARY_OPS = frozenset(C99_FUNCTIONS)


def library_helper(name: str, dialect: Dialect) -> str | None:
    """The stand-in for a function that a dialect lacks."""
    return None if name in dialect.functions.values() else helper_text("library", name)


def library_call(op: str, arguments: tuple[CValue, ...], kind: str, dialect: Dialect) -> CValue:
    """A call of a mathematical function; of the one for ``double`` where ``float`` has none."""
    known = dialect.functions.get(op)
    nodes = tuple(argument.node for argument in arguments)
    if known and kind == "float" and dialect.single:
        return CValue(c.CCall(dialect.single.format(known), nodes), kind)
    if kind != "double":
        nodes = tuple(c.CCast("double", node) for node in nodes)
    call = c.CCall(known, nodes) if known else c.Helper(f"weft_{C99_FUNCTIONS[op]}", nodes)
    return CValue(call if kind == "double" else c.CCast("float", call), kind)
