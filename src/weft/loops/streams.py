"""Whether a kernel reads a buffer in the order in which it lies in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.loops.affine import AffineForm, affine
from weft.loops.nodes import Buffer, Const, For, Kernel, Load, Stmt, Var
from weft.loops.statements import blocks, own_exprs
from weft.loops.walk import loads
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class _Step:
    """A loop that moves a load: its variable, elements a round, and rounds."""

    var: str
    step: int
    count: int


def streams(kernel: Kernel, name: str, gap: int = 64) -> bool:
    """Whether every load of a parameter walks over it as it lies in memory.

    Processors foresee such walks, also where a row is read several times before the next.

    Args:
        kernel: the kernel.
        name: of the parameter.
        gap: fewer bytes than this may be left out between one round of a loop and the next.
    """
    buffer = next(each for each in kernel.params if each.name == name)
    chains = [
        _chain(load, loops, buffer)
        for load, loops in _walks(kernel.body, ())
        if load.buffer == name
    ]
    near = -(-gap // buffer.dtype.bytes)
    whole = [chain for chain in chains if chain is not None and _in_order(chain, near)]
    # What is left over at the end of a row comes when the rest of the row has.
    rows = {chain[:depth] for chain in whole for depth in range(1, len(chain) + 1)}
    return all(chain in rows for chain in chains)


def _walks(stmts: Sequence[Stmt], loops: tuple[For, ...]) -> Iterator[tuple[Load, tuple[For, ...]]]:
    """Loads and the loops around them, the outermost first."""
    for stmt in stmts:
        for expr in own_exprs(stmt):
            yield from ((load, loops) for load in loads(expr))
        around = (*loops, stmt) if isinstance(stmt, For) else loops
        for block in blocks(stmt):
            yield from _walks(block, around)


def _chain(load: Load, loops: Sequence[For], buffer: Buffer) -> tuple[_Step, ...] | None:
    """The loops that move a load, if how far is known."""
    place = AffineForm({}, 0)
    for index, step in zip(load.index, buffer.steps, strict=True):
        place = place.plus(affine(index), step)
    steps = dict(place.terms)
    chain: list[_Step] = []
    for loop in loops:
        step = steps.pop(Var(loop.var), 0)
        if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
            return None
        if step:
            chain.append(_Step(loop.var, step, int(loop.stop.value) - int(loop.start.value)))
    return None if steps else tuple(chain)


def _in_order(chain: Sequence[_Step], near: int) -> bool:
    covered = 1
    for each in reversed(chain):
        if not covered <= each.step < covered + near:
            return False
        covered = each.step * each.count
    return True
