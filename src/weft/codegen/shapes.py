"""What becomes of loops and locals: unrolled, vectors, named registers or arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from weft.loops.affine import affine
from weft.loops.instruction import expanded
from weft.loops.nodes import (
    Buffer,
    Const,
    Expr,
    For,
    If,
    Leaf,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import blocks, own_exprs
from weft.loops.walk import FreeVars, free_vars, loads, walk
from weft.records import dataclass

Known = frozenset[str]
# More names than this are no registers any more.
_MOST_REGISTERS = 512


class Mode(Enum):
    """How a loop is written."""

    LOOP = "loop"
    UNROLL = "unroll"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class LoopForm:
    """How a local is written: see ``weft.codegen.slots.Slot``."""

    prefix: int
    lanes: int = 0
    private: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """The vector loop around: its variable and the number of lanes."""

    var: str
    lanes: int


@dataclass(frozen=True, slots=True)
class _Access:
    index: tuple[Expr, ...]
    known: Known
    lane: Lane | None


class Shapes:
    """Decides the form of every loop and local of a kernel.

    Args:
        body: the kernel's statements; they must outlive this.
        vectors: whether vector loops may become vectors.
    """

    def __init__(self, body: Sequence[Stmt], vectors: bool) -> None:
        self._vectors = vectors
        self._modes: dict[int, Mode] = {}
        self._forms: dict[int, LoopForm] = {}
        self._expanded: dict[int, tuple[Stmt, ...]] = {}
        self._loads: dict[int, dict[str, list[tuple[Expr, ...]]]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._free_vars = FreeVars()
        self._visit(body, frozenset(), None, {})

    def mode(self, loop: For) -> Mode:
        """How a loop of the kernel is written."""
        return self._modes[id(loop)]

    def form(self, local: Local) -> LoopForm:
        """How a local of the kernel is written."""
        return self._forms[id(local)]

    # --- the walk -----------------------------------------------------------------------------

    def _visit(
        self,
        body: Sequence[Stmt],
        known: Known,
        lane: Lane | None,
        open: dict[str, list[_Access]],
    ) -> None:
        """Decides forms.

        Args:
            body: statements.
            known: variables that are constant there.
            lane: the vector loop around.
            open: the locals around, with where they are accessed; more is added.
        """
        for stmt in body:
            if open:
                self._note(stmt, known, lane, open)
            match stmt:
                case For():
                    inner = self._enter(stmt, known, lane)
                    self._visit(stmt.body, *inner, open)
                case If(_, then, otherwise):
                    self._visit(then, known, lane, open)
                    self._visit(otherwise, known, lane, open)
                case Local(buffer, inside):
                    hidden, open[buffer.name] = open.get(buffer.name), []
                    self._visit(inside, known, lane, open)
                    self._forms[id(stmt)] = self._form_of(buffer, open.pop(buffer.name), lane)
                    if hidden is not None:
                        open[buffer.name] = hidden
                case Store():
                    pass
                case _:
                    self._visit(self._loops_of(stmt) if open else (), known, lane, open)

    def _note(
        self, stmt: Stmt, known: Known, lane: Lane | None, open: dict[str, list[_Access]]
    ) -> None:
        """Adds where a statement itself accesses the locals around."""
        for name, indices in self._loaded(stmt).items():
            if name in open:
                open[name] += [_Access(each, known, lane) for each in indices]
        if isinstance(stmt, Store) and stmt.buffer in open:
            open[stmt.buffer].append(_Access(stmt.index, known, lane))

    def _enter(self, loop: For, known: Known, lane: Lane | None) -> tuple[Known, Lane | None]:
        mode = self._modes.get(id(loop))
        if mode is None:
            mode = self._modes[id(loop)] = self._mode_of(loop, known, lane)
        if mode is Mode.UNROLL:
            return known | {loop.var}, lane
        if mode is Mode.VECTOR:
            return known, Lane(loop.var, _extent(loop))
        return known, lane

    def _mode_of(self, loop: For, known: Known, lane: Lane | None) -> Mode:
        if (
            loop.kind is LoopKind.UNROLL
            and self._is_known(loop.start, known)
            and self._is_known(loop.stop, known)
        ):
            return Mode.UNROLL
        if loop.kind is LoopKind.VECTOR and self._vectors and lane is None:
            extent = _extent(loop)
            if extent >= 2 and extent & (extent - 1) == 0:
                varying = _Varying(loop.var)
                if self._fits_vectors(loop.body, known, varying):
                    return Mode.VECTOR
        return Mode.LOOP

    # --- vector loops -------------------------------------------------------------------------

    def _fits_vectors(self, body: Sequence[Stmt], known: Known, varying: _Varying) -> bool:
        return all(self._fits_vector(stmt, known, varying) for stmt in body)

    def _fits_vector(self, stmt: Stmt, known: Known, varying: _Varying) -> bool:
        match stmt:
            case For(body=body):
                if stmt.kind is LoopKind.VECTOR or varying(stmt.start) or varying(stmt.stop):
                    return False
                unrolled = stmt.kind is LoopKind.UNROLL
                unrolled &= self._is_known(stmt.start, known) and self._is_known(stmt.stop, known)
                inner = known | {stmt.var} if unrolled else known
                return self._fits_vectors(body, inner, varying)
            case If(condition, then, otherwise):
                if varying(condition):
                    return False
                return all(self._fits_vectors(each, known, varying) for each in (then, otherwise))
            case Local(buffer, body):
                accesses = self._accesses(buffer, body, known, None)
                if not all(self._is_known(each, a.known) for a in accesses for each in a.index):
                    return False
                return self._fits_vectors(body, known, varying.with_private(buffer.name))
            case Store(buffer, index, _):
                return buffer in varying.private or any(varying(each) for each in index)
            case _:
                return False

    # --- locals -------------------------------------------------------------------------------

    def _form_of(self, buffer: Buffer, accesses: Sequence[_Access], lane: Lane | None) -> LoopForm:
        rank = len(buffer.shape)
        prefix = 0
        while prefix < rank and all(self._is_known(a.index[prefix], a.known) for a in accesses):
            prefix += 1
        if _count(buffer, prefix) > _MOST_REGISTERS:
            prefix = 0
        if lane is not None:
            return LoopForm(rank, lane.lanes, private=True)
        if prefix == rank - 1:
            lanes = self._common_lanes(accesses)
            fits = lanes and buffer.shape[-1] % lanes == 0
            one = buffer.shape[-1] == lanes
            if fits and all(
                self._by_vectors(a, lanes) or (one and self._shuffles(a)) for a in accesses
            ):
                return LoopForm(prefix, lanes)
        # Elements that some vector loop takes side by side stay side by side.
        if prefix == rank and rank and any(a.lane and self._uses(a) for a in accesses):
            prefix = rank - 1
        return LoopForm(prefix)

    def _is_known(self, expr: Expr, known: Known) -> bool:
        """Whether an expression is constant once the known variables are."""
        return is_known(expr, known, self._free_vars)

    def _common_lanes(self, accesses: Sequence[_Access]) -> int:
        """The lanes of the vector loops that index the last dimension, 0 if they disagree."""
        lanes = {a.lane.lanes for a in accesses if a.lane and self._uses(a)}
        return lanes.pop() if len(lanes) == 1 else 0

    def _uses(self, access: _Access) -> bool:
        assert access.lane is not None
        return access.lane.var in self._free_vars(access.index[-1])

    def _shuffles(self, access: _Access) -> bool:
        """Whether the lanes of a vector loop take lanes of one vector in an order of their own."""
        last = access.index[-1]
        if access.lane is None or any(loads(last)):
            return False
        return self._free_vars(last) == frozenset((access.lane.var,))

    def _by_vectors(self, access: _Access, lanes: int) -> bool:
        """Whether the last index is constant, or a vector loop's variable beside whole vectors."""
        last = access.index[-1]
        if self._is_known(last, access.known):
            return True
        if access.lane is None:
            return False
        form = affine(last)
        own = form.terms.get(Var(access.lane.var), 0)
        others = {a: c for a, c in form.terms.items() if a != Var(access.lane.var)}
        whole = form.const % lanes == 0 and all(c % lanes == 0 for c in others.values())
        # Atoms are new expressions, which nothing keeps.
        return own == 1 and whole and all(is_known(atom, access.known) for atom in others)

    def _accesses(
        self, buffer: Buffer, body: Sequence[Stmt], known: Known, lane: Lane | None
    ) -> list[_Access]:
        found: list[_Access] = []
        for stmt in body:
            if buffer.name not in self._accessed(stmt):
                continue
            found += [
                _Access(each, known, lane) for each in self._loaded(stmt).get(buffer.name, ())
            ]
            match stmt:
                case For():
                    inner = self._enter(stmt, known, lane)
                    found += self._accesses(buffer, stmt.body, *inner)
                case If() | Local():
                    inside = [each for block in blocks(stmt) for each in block]
                    found += self._accesses(buffer, inside, known, lane)
                case Store(name, index, _) if name == buffer.name:
                    found.append(_Access(index, known, lane))
                case Store():
                    pass
                case _:
                    found += self._accesses(buffer, self._loops_of(stmt), known, lane)
        return found

    def _loaded(self, stmt: Stmt) -> Mapping[str, Sequence[tuple[Expr, ...]]]:
        """Where a statement itself loads, by buffer; kept, for every local around it asks."""
        found = self._loads.get(id(stmt))
        if found is None:
            found = self._loads[id(stmt)] = {}
            for load in (load for expr in own_exprs(stmt) for load in loads(expr)):
                found.setdefault(load.buffer, []).append(load.index)
        return found

    def _accessed(self, stmt: Stmt) -> frozenset[str]:
        """Names of the buffers that a statement and those inside it load or store."""
        found = self._names.get(id(stmt))
        if found is None:
            match stmt:
                case For() | If() | Local():
                    inside = [each for block in blocks(stmt) for each in block]
                case Store():
                    inside = []
                case _:
                    inside = self._loops_of(stmt)
            stored = [stmt.buffer] if isinstance(stmt, Store) else []
            found = frozenset(stored).union(self._loaded(stmt), *map(self._accessed, inside))
            self._names[id(stmt)] = found
        return found

    def _loops_of(self, stmt: Leaf) -> tuple[Stmt, ...]:
        """What a statement means, kept: loops are known by identity."""
        if id(stmt) not in self._expanded:
            self._expanded[id(stmt)] = expanded(stmt)
        return self._expanded[id(stmt)]


class _Varying:
    """Tells which expressions differ from lane to lane."""

    def __init__(self, var: str, private: frozenset[str] = frozenset()) -> None:
        self._var = var
        self.private = private

    def with_private(self, buffer: str) -> _Varying:
        """With one more buffer that each lane has its own of."""
        return _Varying(self._var, self.private | {buffer})

    def __call__(self, expr: Expr) -> bool:
        for node in walk(expr):
            if isinstance(node, Var) and node.name == self._var:
                return True
            if isinstance(node, Load) and node.buffer in self.private:
                return True
        return False


def _extent(loop: For) -> int:
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return int(loop.stop.value) - int(loop.start.value)
    return 0


def _count(buffer: Buffer, prefix: int) -> int:
    count = 1
    for extent in buffer.shape[:prefix]:
        count *= extent
    return count


def is_known(expr: Expr, known: Known, free: Callable[[Expr], frozenset[str]] = free_vars) -> bool:
    """Whether an expression is constant once the known variables are."""
    match expr:
        case Const():
            return True
        case Var(name):
            return name in known
        case _:
            return free(expr) <= known and not any(loads(expr))
