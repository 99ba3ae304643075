"""Instructions in C: a call of a helper, which holds the row's text and its meaning."""

from __future__ import annotations

import re

from weft.codegen.naming import STORAGE
from weft.codegen.scalar import Scalar
from weft.codegen.slots import place
from weft.loops.instruction import instruction, instructions
from weft.loops.nodes import Instruct, Load

PREFIX = "instr_"
"""What stands before an instruction's name in that of its helper, after ``weft_``."""
_NAMES = re.compile(r"\bweft_\w+|\bWEFT_\w+")


def call_text(stmt: Instruct, scalar: Scalar) -> str:
    """The statement that runs an instruction on its windows."""
    first, *read = stmt.operands
    pointers = [_pointer(first, scalar, False), *(_pointer(each, scalar, True) for each in read)]
    windows = ", ".join(pointers)
    return f"weft_{PREFIX}{stmt.name}({windows});"


def _pointer(window: Load, scalar: Scalar, read: bool) -> str:
    slot = scalar.slot(window.buffer)
    name, offset = place(slot, [scalar.linear(each) for each in window.index])
    if slot.registers or offset is None:
        return f"({STORAGE[slot.dtype]} *)&{name}" if slot.lanes else f"&{name}"
    return f"&{scalar.scope.element(slot, name, offset, load=read)}"


def instruction_names() -> frozenset[str]:
    """Names of the helpers, without ``weft_``."""
    return frozenset(f"{PREFIX}{name}" for name in instructions())


def guarded(name: str, signature: str, portable: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The text of an instruction's helper, and the helpers that it needs.

    Args:
        name: of the instruction.
        signature: of the helper.
        portable: the meaning as lines, braces included.
    """
    row = instruction(name)
    inner = list(portable[1:-1])
    header = [f"#if {row.when}", f"#include <{row.header}>", "#endif"] if row.header else []
    text = "\n".join(
        [
            *header,
            f"/* {row.doc} */",
            signature,
            "{",
            f"#if {row.when}",
            *(f"    {line}" for line in row.c.splitlines()),
            "#else",
            *inner,
            "#endif",
            "}",
            "",
        ]
    )
    return text, tuple(sorted(set(_NAMES.findall("\n".join(inner)))))
