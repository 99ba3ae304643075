"""Mathematical functions: the C library's where the standard has them, else our own."""

from __future__ import annotations

from weft.codegen import tree as c
from weft.codegen.helper_text import helper_text
from weft.codegen.value import Value

# What C89 has for ``double`` alone; C99 adds ``float`` variants with an ``f``.
_C89 = {
    op: op
    for op in "sqrt exp log sin cos tan asin acos atan sinh cosh tanh floor ceil fmod pow".split()
} | {"abs": "fabs"}
_C99 = {
    **_C89,
    **{op: op for op in "asinh acosh atanh erf erfc expm1 log1p trunc".split()},
    "round": "rint",
}
LIBRARY_OPS = frozenset(_C99)


def library_helper(name: str, c99: bool) -> str | None:
    """The stand-in for a function that a strict C89 library lacks."""
    return None if c99 else helper_text("library", name)


def library_call(op: str, arguments: tuple[Value, ...], kind: str, c99: bool) -> Value:
    """A call of a mathematical function."""
    double = kind == "double"
    nodes = tuple(argument.node for argument in arguments)
    if c99:
        return Value(c.Call(_C99[op] + ("" if double else "f"), nodes), kind)
    if not double:
        nodes = tuple(c.Cast("double", node) for node in nodes)
    known = _C89.get(op)
    call = c.Call(known, nodes) if known else c.Helper(f"weft_{_C99[op]}", nodes)
    return Value(call if double else c.Cast("float", call), kind)
