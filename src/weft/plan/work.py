"""How long a kernel takes, roughly, and how it is cut into parts for threads.

Only the loops at the top of a kernel are cut: a nest of ``parallel`` loops, perfectly nested
and with constant bounds, is one flat range, of which parts take pieces that are also
contiguous in what they write.  Statements beside them are the first part's.
Where a statement at the top reads what another one writes, a new stage begins: all parts of
a stage are done before the next begins.  What statements write without reading it is taken
to be at places of their own.

Scratch memory that one statement at the top uses is every part's own; what several use is
shared by all parts, and so keeps their stages apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod

from weft.loops.affine import affine
from weft.loops.instruction import expanded, instruction
from weft.loops.nodes import (
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    For,
    If,
    Instruct,
    Kernel,
    Load,
    Local,
    LoopKind,
    Operation,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.statements import all_exprs, loaded, stored, walk_stmts
from weft.loops.walk import children, free_vars, loads
from weft.records import dataclass
from weft.targets.target import DESKTOP, Costs

MOST_STAGES = 16
"""A kernel of more stages is not cut."""

# A range of fewer iterations is cut finer, whatever that costs: parts should be equal.
_FINE = 128
# So many cycles of an iteration hide the divisions that find its place in the range. Code
# generation finds the same ranges without the machine: for all of them those of DESKTOP.
_COARSE = 400


@dataclass(frozen=True, slots=True)
class Range:
    """Perfectly nested parallel loops that are cut as one.

    Attributes:
        loops: outermost first.
        extents: of each.
        starts: first value of each variable.
        along: the loop along which parts take neighbouring iterations, each for all iterations of
            the loops around it, where shares come out even; otherwise, parts follow one another
            in the order of the loops.
    """

    loops: tuple[For, ...]
    extents: tuple[int, ...]
    starts: tuple[int, ...]
    along: int = 0

    @property
    def total(self) -> int:
        """Number of iterations."""
        return prod(self.extents)

    @property
    def body(self) -> tuple[Stmt, ...]:
        """What an iteration runs."""
        return self.loops[-1].body


@dataclass(frozen=True, slots=True)
class WorkStage:
    """Statements at the top of a kernel that need not wait for one another.

    Attributes:
        stmts: in their order.
        ranges: what is cut, by place in ``stmts``.
    """

    stmts: tuple[Stmt, ...]
    ranges: Mapping[int, Range]


def cycles(
    stmts: Sequence[Stmt], costs: Costs = DESKTOP, around: Mapping[str, float] | None = None
) -> float:
    """About how many cycles statements take, their data in registers or the first cache.

    Args:
        stmts: what to run once.
        costs: of the machine.
        around: middles of the ranges of the loop variables around.
    """
    clock = _Clock(costs)
    clock.block(stmts, 1.0, 1.0, around or {})
    return clock.cycles


@dataclass
class _Clock:
    """Adds up what statements do.

    Attributes:
        costs: of the machine.
        cycles: that arithmetic and moves between registers and the first cache take.
        touched: elements of each buffer that are loaded or stored, repetitions included.
        locals: buffers that live in registers.
    """

    costs: Costs
    cycles: float = 0.0
    touched: dict[str, float] = field(default_factory=dict[str, float])
    locals: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.operations = dict(self.costs.operations)

    def block(
        self, stmts: Sequence[Stmt], times: float, lanes: float, around: Mapping[str, float]
    ) -> None:
        """Statements that run so often, each time for so many lanes."""
        for stmt in stmts:
            match stmt:
                case For(var, start, stop, body, kind):
                    first, last = _middle(start, around), _middle(stop, around)
                    trips = max(0.0, last - first)
                    inner = {**around, var: (first + last - 1) / 2}
                    if kind is LoopKind.VECTOR:
                        self.block(body, times * min(trips, 1.0), lanes * trips, inner)
                    else:
                        self.block(body, times * trips, lanes, inner)
                case If(condition, then, otherwise):
                    self.value(condition, times, lanes)
                    # Guards hold nearly always.
                    self.block(then or otherwise, times, lanes, around)
                case Local(buffer, body):
                    self.locals.add(buffer.name)
                    self.block(body, times, lanes, around)
                case Store(buffer, _, value):
                    self.value(value, times, lanes)
                    self.move(buffer, times, lanes)
                case Instruct(name):
                    # One of two pipes; its meaning says what it touches, not what it takes.
                    row, before = instruction(name), self.cycles
                    self.block(expanded(stmt), times, lanes, around)
                    each = dict(self.costs.instructions).get(name, row.cycles) / 2
                    self.cycles = before + times * each
                case _:
                    self.block(expanded(stmt), times, lanes, around)

    def value(self, expr: Expr, times: float, lanes: float) -> None:
        """An expression that is computed so often."""
        total = 0.0
        stack, seen = [expr], set[int]()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            match node:
                case Load(buffer, index):
                    # Positions are cheap, unless they are data themselves.
                    stack += [load for place in index for load in loads(place)]
                    self.move(buffer, times, lanes)
                case Binary("add" | "sub", lhs, Binary("mul", x, y)):
                    total += self.operations.get("add", self.costs.other)
                    stack += lhs, x, y
                case Binary(op) | Unary(op):
                    total += self.operations.get(op, self.costs.other)
                    stack += children(node)
                case Select() | Cast():
                    total += self.costs.other
                    stack += children(node)
                case Operation():
                    stack += children(node)
                case _:
                    pass
        self.cycles += times * total

    def move(self, buffer: str, times: float, lanes: float) -> None:
        """Loads from or stores to a buffer."""
        if buffer not in self.locals:
            self.cycles += times * self.costs.move
            self.touched[buffer] = self.touched.get(buffer, 0.0) + times * lanes

    def bytes(self, kernel: Kernel) -> float:
        """What comes and goes, every element of a parameter once at the most."""
        total = 0.0
        for buffer in kernel.params:
            size = min(float(prod(buffer.shape)), self.touched.get(buffer.name, 0.0))
            if buffer.access is not Access.SCRATCH:
                total += size * buffer.dtype.bytes
        return total


def _middle(expr: Expr, around: Mapping[str, float]) -> float:
    """An index where each loop is in its middle; 1 for what is data."""
    match expr:
        case Const(value=value):
            return float(value)
        case Var(name):
            return around.get(name, 0.0)
        case Binary(op, lhs, rhs):
            left, right = _middle(lhs, around), _middle(rhs, around)
            return _binary(op, left, right)
        case Unary("neg", x):
            return -_middle(x, around)
        case Select(_, then, otherwise):
            return (_middle(then, around) + _middle(otherwise, around)) / 2
        case Cast(_, x):
            return _middle(x, around)
        case _:
            return 1.0


def _binary(op: str, left: float, right: float) -> float:
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case "floordiv" | "div":
            return left / right if right else 1.0
        case "mod" | "fmod":
            return left % right if right else 1.0
        case _:
            return 1.0


def work_of(kernel: Kernel, costs: Costs = DESKTOP) -> int:
    """About how many cycles a kernel takes on one core, data in the shared cache."""
    return _work(kernel, kernel.body, costs)


def _work(kernel: Kernel, stmts: Sequence[Stmt], costs: Costs) -> int:
    clock = _Clock(costs)
    clock.block(stmts, 1.0, 1.0, {})
    return round(max(clock.cycles, clock.bytes(kernel) / costs.layer))


def parts_of(kernel: Kernel, threads: int, costs: Costs = DESKTOP) -> tuple[int, ...]:
    """Into how many parts each stage of a kernel is worth cutting for so many threads.

    One stage of one part stands for a kernel that is not worth it.  The kernel must be simple
    (``simplify_kernel``).
    """
    if threads < 2:
        return (1,)
    parts: list[int] = []
    for stage in stages_of(kernel):
        most = max((each.total for each in stage.ranges.values()), default=1)
        share = int(_work(kernel, stage.stmts, costs) // costs.part) if most > 1 else 1
        parts.append(max(1, min(threads, most, share)))
    return tuple(parts) if max(parts, default=1) > 1 and len(parts) <= MOST_STAGES else (1,)


def stages_of(kernel: Kernel) -> tuple[WorkStage, ...]:
    """The stages of a kernel, which must be simple."""
    conflict = _Conflicts(kernel)
    found: list[list[Stmt]] = []
    for stmt in kernel.body:
        if not found or any(conflict(stmt, each) for each in found[-1]):
            found.append([])
        found[-1].append(stmt)
    return tuple(_stage(kernel, stmts) for stmts in found)


def _stage(kernel: Kernel, stmts: Sequence[Stmt]) -> WorkStage:
    found = {place: _range(stmt) for place, stmt in enumerate(stmts)}
    cut = {
        place: replace(each, along=_along(kernel, each)) for place, each in found.items() if each
    }
    return WorkStage(tuple(stmts), cut)


def _along(kernel: Kernel, cut: Range) -> int:
    """The loop along which parts write memory of their own in one piece.

    What a part has written is in the cache of its core, where the same part of the next kernel
    finds it: from other caches it comes slowly, on virtual machines at a fraction of the speed.
    Not so where all parts would have to read again more than what they share, as of large weights.
    """
    if len(cut.loops) == 1:
        return 0
    names = [loop.var for loop in cut.loops]
    steps, moving = dict.fromkeys(names, 0), dict[str, set[str]]()
    written = stored(cut.body)
    buffers = {each.name: each for each in kernel.params if each.access is not Access.SCRATCH}
    for buffer, index in _accesses(cut.body):
        if buffer not in buffers:
            continue
        moving.setdefault(buffer, set()).update(*map(free_vars, index))
        if buffer not in written:
            continue
        for part, size in zip(index, buffers[buffer].steps, strict=True):
            for atom, factor in affine(part).terms.items():
                if isinstance(atom, Var) and atom.name in steps:
                    steps[atom.name] = max(steps[atom.name], abs(factor * size))
    widest = max(range(len(names)), key=lambda place: steps[names[place]])
    shared = {True: 0, False: 0}
    for name, variables in moving.items():
        each = buffers[name]
        shared[names[widest] in variables] += prod(each.shape) * each.dtype.bytes
    return widest if shared[False] <= shared[True] else 0


def _accesses(stmts: Sequence[Stmt]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Buffers that are loaded from or stored to, and where."""
    for stmt in walk_stmts(stmts):
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.index
    for load in loads(*all_exprs(stmts)):
        yield load.buffer, load.index


def shared_scratch(kernel: Kernel) -> frozenset[str]:
    """Scratch buffers that all parts of a simple kernel share.

    These are what several statements at the top use, unless they are all the first part's.
    """
    scratch = {each.name for each in kernel.params if each.access is Access.SCRATCH}
    if not scratch:
        return frozenset()
    uses = [loaded((stmt,)) | stored((stmt,)) for stmt in kernel.body]
    cut = [_range(stmt) is not None for stmt in kernel.body]
    shared: set[str] = set()
    for name in scratch:
        users = [is_cut for is_cut, use in zip(cut, uses, strict=True) if name in use]
        if len(users) > 1 and any(users):
            shared.add(name)
    return frozenset(shared)


class _Conflicts:
    """Tells whether one of two statements at the top of a kernel must wait for the other."""

    def __init__(self, kernel: Kernel) -> None:
        names = {each.name: each.access for each in kernel.params}
        self._scratch = {name for name in names if names[name] is Access.SCRATCH}
        self._memory = names.keys() - self._scratch
        self._shared = shared_scratch(kernel)

    def __call__(self, one: Stmt, other: Stmt) -> bool:
        if _range(one) is None and _range(other) is None:
            return False  # the first part runs both, in order
        reads = [loaded((one,)), loaded((other,))]
        writes = [stored((one,)), stored((other,))]
        if (reads[0] & writes[1] | reads[1] & writes[0]) & self._memory:
            return True
        uses = [read | write for read, write in zip(reads, writes, strict=True)]
        # Scratch buffers that are not in use at once may be the same memory.
        return bool((uses[0] | uses[1]) & self._shared) and all(use & self._scratch for use in uses)


def _range(stmt: Stmt) -> Range | None:
    """The parallel loops from a statement on inwards that are worth taking as one."""
    taken: list[tuple[For, int, int]] = []
    total = 1
    around: dict[str, float] = {}
    while isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
        start, stop = affine(stmt.start), affine(stmt.stop)
        if start.terms or stop.terms or stop.const <= start.const:
            break
        around[stmt.var] = (start.const + stop.const - 1) / 2
        if taken and total >= _FINE and cycles(stmt.body, DESKTOP, around) < _COARSE:
            break
        extent = stop.const - start.const
        total *= extent
        taken.append((stmt, extent, start.const))
        if len(stmt.body) != 1:
            break
        stmt = stmt.body[0]
    if not taken:
        return None
    loops, extents, starts = zip(*taken, strict=True)
    return Range(loops, extents, starts)
