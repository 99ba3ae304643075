"""Large locals become scratch memory that the caller gives.

A stack is small on many machines, and not aligned to a vector; the arena is neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import prod

from weft.loops.nodes import Access, Buffer, For, If, Instruct, Kernel, Local, Stmt
from weft.loops.statements import declared_in, rename_buffers, walk_stmts
from weft.loops.walk import FreshNames
from weft.records import dataclass

LEAST_BYTES = 8192
"""Locals of fewer bytes stay on the stack, if a target does not say otherwise."""


@dataclass(frozen=True)
class Hoisted:
    """A kernel without large locals.

    Attributes:
        kernel: with a parameter for each of them, before its last.
        offsets: where each lies in the scratch memory, in bytes.
        bytes: of scratch memory that one running of the kernel needs.
    """

    kernel: Kernel
    offsets: tuple[int, ...]
    bytes: int


@dataclass
class _Hoist:
    names: FreshNames
    alignment: int
    least: int
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    offsets: list[int] = field(default_factory=list[int])
    most: int = 0

    def block(self, stmts: Sequence[Stmt], offset: int) -> tuple[Stmt, ...]:
        """Statements whose surroundings use the scratch memory up to an offset."""
        found: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case For(var, start, stop, body, kind):
                    found.append(For(var, start, stop, self.block(body, offset), kind))
                case If():
                    then = self.block(stmt.then, offset)
                    found.append(
                        replace(stmt, then=then, otherwise=self.block(stmt.otherwise, offset))
                    )
                case Local():
                    found += self.local(stmt, offset)
                case _:
                    found.append(stmt)
        return tuple(found)

    def local(self, stmt: Local, offset: int) -> tuple[Stmt, ...]:
        size = _bytes(stmt.buffer)
        if size < self.least:
            return (replace(stmt, body=self.block(stmt.body, offset)),)
        name = self.names(stmt.buffer.name)
        self.buffers.append(replace(stmt.buffer, name=name, access=Access.SCRATCH))
        self.offsets.append(offset)
        end = offset + -(-size // self.alignment) * self.alignment
        self.most = max(self.most, end)
        body = rename_buffers(stmt.body, {stmt.buffer.name: name})
        return self.block(body, end)


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.shape) * buffer.dtype.bytes


def _only_instructions(stmts: Sequence[Stmt]) -> bool:
    """Whether there are no loops around instructions, whose locals are arrays."""
    return all(
        isinstance(stmt, Instruct)
        or (isinstance(stmt, Local) and stmt.buffer.shape and _only_instructions(stmt.body))
        for stmt in stmts
    )


def _large_only(stmts: Sequence[Stmt], least: int) -> frozenset[str]:
    """Names that only large locals have."""
    locals = [stmt.buffer for stmt in walk_stmts(stmts) if isinstance(stmt, Local)]
    small = {buffer.name for buffer in locals if _bytes(buffer) < least}
    return frozenset(buffer.name for buffer in locals if buffer.name not in small)


def hoist(kernel: Kernel, alignment: int, least: int = LEAST_BYTES) -> Hoisted:
    """The kernel with its large locals as parameters; those not live at once share memory.

    Args:
        kernel: its last parameter stays the last.
        alignment: of every buffer, in bytes.
        least: locals of fewer bytes stay; on machines short of stack only beside loops.
    """
    if least < LEAST_BYTES and _only_instructions(kernel.body):
        # They take addresses: nothing of it would be in registers.
        least = 1
    taken = {buffer.name for buffer in kernel.params} | declared_in(kernel.body)
    hoisting = _Hoist(
        FreshNames(frozenset(taken - _large_only(kernel.body, least))), alignment, least
    )
    body = hoisting.block(kernel.body, 0)
    if not hoisting.buffers:
        return Hoisted(kernel, (), 0)
    params = (*kernel.params[:-1], *hoisting.buffers, kernel.params[-1])
    # Buffers have other names, nothing else changed: what was simple still is.
    hoisted = replace(kernel, params=params, body=body)
    return Hoisted(hoisted, tuple(hoisting.offsets), hoisting.most)
