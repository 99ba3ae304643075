"""Instructions in C: a call of a helper, which holds the row's text and its meaning."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen import tree as c
from weft.codegen.naming import STORAGE
from weft.codegen.scalar import Scalar
from weft.codegen.slots import place
from weft.loops.instruction import instruction, is_instruction
from weft.loops.nodes import Instruct, Load

PREFIX = "instr_"
"""What stands before an instruction's name in that of its helper, after ``weft_``."""


def instruction_call(stmt: Instruct, scalar: Scalar) -> c.Node:
    """What runs an instruction on its windows."""
    windows = (_pointer(each, scalar, number > 0) for number, each in enumerate(stmt.operands))
    return c.Helper(f"weft_{PREFIX}{stmt.name}", tuple(windows))


def changed_register(stmt: Instruct, scalar: Scalar) -> set[c.Node]:
    """The variable that an instruction adds to, if that stays in a register."""
    window = stmt.operands[0]
    slot = scalar.slot(window.buffer)
    if not slot.registers:
        return set()
    name, _ = place(slot, [scalar.linear(each) for each in window.index])
    return {c.Name(name)}


def _pointer(window: Load, scalar: Scalar, read: bool) -> c.Node:
    slot = scalar.slot(window.buffer)
    name, offset = place(slot, [scalar.linear(each) for each in window.index])
    if slot.registers or offset is None:
        register = c.CUnary("&", c.Name(name))
        return c.CCast(f"{STORAGE[slot.dtype]} *", register) if slot.lanes else register
    return c.CUnary("&", scalar.scope.element(slot, name, offset, load=read))


def is_helper_of_instruction(bare: str) -> bool:
    """Whether a helper's name, without ``weft_``, is that of an instruction."""
    return bare.startswith(PREFIX) and is_instruction(bare.removeprefix(PREFIX))


def guarded(name: str, signature: str, portable: Sequence[str], idle: Sequence[str]) -> str:
    """The text of an instruction's helper.

    Args:
        name: of the instruction.
        signature: of the helper.
        portable: the meaning as lines, braces included.
        idle: functions that these call and the instruction does not.
    """
    row = instruction(name)
    header = [f"#if {row.when}", f"#include <{row.header}>", "#endif"] if row.header else []
    begin = [*header, f"/* {row.doc} */", signature, "{", f"#if {row.when}"]
    if row.asks:
        own = [f"    if ({row.asks}) {{", *(f"        {line}" for line in row.c.splitlines())]
        own += ["        return;", "    }", "#endif", *portable[1:-1]]
    else:
        own = [*(f"    {line}" for line in row.c.splitlines()), *(f"    (void){x};" for x in idle)]
        own += ["#else", *portable[1:-1], "#endif"]
    return "\n".join([*begin, *own, "}", ""])
