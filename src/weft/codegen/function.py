"""Kernels as C functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from weft.codegen.block import Block
from weft.codegen.cut import PartWriter
from weft.codegen.flavours import Flavour
from weft.codegen.naming import identifier
from weft.codegen.slots import Slot
from weft.codegen.writer import Writer
from weft.loops.nodes import Access, For, If, Kernel, Local, Prefetch, Stmt, Store
from weft.loops.simplify import simplify_kernel


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A C function.

    Attributes:
        signature: without the semicolon or body.
        body: lines with the braces around them.
        stack_bytes: of its locals.
    """

    signature: str
    body: tuple[str, ...]
    stack_bytes: int


def kernel_function(
    kernel: Kernel,
    flavour: Flavour,
    *,
    name: str = "",
    aliased: frozenset[str] = frozenset(),
    linkage: str = "static ",
    cut: bool = False,
) -> FunctionText:
    """A kernel as a C function.

    Args:
        kernel: what it computes.
        flavour: the dialect.
        name: of the function, if not the kernel's.
        aliased: parameters whose memory may overlap another's.
        linkage: what stands before the return type.
        cut: whether it is told which part of how many to run, and which stages if it has
            several.
    """
    simple = simplify_kernel(kernel)
    block = Block(1)
    numbers: list[str] = []
    if cut:
        writer = PartWriter(simple, flavour)
        writer.cut(block)
        numbers = writer.numbers
    else:
        writer = Writer(simple, flavour)
        writer.block(simple.body, block)
    lines = writer.finish(block)
    text = "\n".join(lines)
    for given in [*(slot.name for slot in writer.params), *numbers]:
        if not re.search(rf"\b{given}\b", text):
            lines.append(f"    (void){given};")
    body = [*writer.loop_declarations(text), *lines]
    parameters = [_parameter(slot, flavour, aliased) for slot in writer.params]
    parameters += [f"int {number}" for number in numbers]
    declared = ", ".join(parameters) or "void"
    signature = f"{linkage}void {name or identifier(kernel.name)}({declared})"
    return FunctionText(signature, ("{", *body, "}"), stack_of(simple.body))


def stack_of(body: Sequence[Stmt]) -> int:
    """The most bytes that locals need at one time."""
    most = 0
    for stmt in body:
        match stmt:
            case For(body=inner):
                need = stack_of(inner) + 8
            case If(_, then, otherwise):
                need = max(stack_of(then), stack_of(otherwise))
            case Local(buffer, inner):
                size = max(4, buffer.dtype.bytes)
                for extent in buffer.shape:
                    size *= extent
                need = -(-size // 64) * 64 + stack_of(inner)
            case Store() | Prefetch():
                need = 0
            case _:
                assert_never(stmt)
        most = max(most, need)
    return most


def _parameter(slot: Slot, flavour: Flavour, aliased: frozenset[str]) -> str:
    const = "const " if slot.buffer.access is Access.READ else ""
    restrict = "" if slot.buffer.name in aliased else flavour.restrict
    return f"{const}{slot.ctype} *{restrict}{slot.name}"
