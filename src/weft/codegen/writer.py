"""The statements of a kernel as C."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace

from weft.codegen import tree as c
from weft.codegen.block import BlockWriter
from weft.codegen.flavours import CACHE_LINE, Dialect
from weft.codegen.instruct import changed_register, instruction_call
from weft.codegen.lanes import Lanes, storage
from weft.codegen.linear import LANE, LinearAddress, atom, constant, value_of
from weft.codegen.naming import CNames
from weft.codegen.operations import stored
from weft.codegen.pool import share
from weft.codegen.scalar import Scalar
from weft.codegen.scope import KernelScope
from weft.codegen.shapes import Mode, Shapes
from weft.codegen.sharing import Sharing
from weft.codegen.slots import Slot, place
from weft.codegen.unrolling import step_hint, unroll_hint
from weft.codegen.value import INT_LIMITS, CValue, converted
from weft.codegen.vector import Varying, VectorExpression
from weft.loops.alike import Shared, Step
from weft.loops.nodes import (
    Access,
    Binary,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
)
from weft.loops.statements import walk_stmts

# From this many accumulators on, compilers merge loads across steps and run out of registers.
_TILE = 8
_FREE = c.Evaluate(c.Helper("weft_free_registers", ()))
_ASSIGNED = {"add": "+=", "sub": "-=", "mul": "*="}


def _holds_local(stmts: Sequence[Stmt]) -> bool:
    return any(isinstance(stmt, Local) for stmt in walk_stmts(stmts))


class StatementWriter:
    """Writes the statements of one kernel.

    Attributes:
        declared: bytes of all variables that it declares, each with a place of its own.
        numbers: names of the parameters that follow the buffers.
    """

    def __init__(self, kernel: Kernel, flavour: Dialect, shared: Shared | None = None) -> None:
        self._flavour = flavour
        self._shapes = Shapes(kernel.body, flavour.vectors)
        self._names = CNames(flavour.reserved)
        self.scope = KernelScope(flavour)
        self.scalar = Scalar(self.scope)
        self._vector: VectorExpression | None = None
        self._sharing = Sharing()
        # By the identity of a loop over lanes, what varies in it.
        self._varying: dict[int, Varying] = {}
        # Registers stored to, one set for each loop around: finds the steps of a reduction.
        self._stored: list[set[c.Node]] = [set()]
        # The sums of tiles whose blocks are not done.
        self._tiles: list[set[c.Node]] = []
        self._loop_variables: dict[str, tuple[str, str]] = {}
        self.declared = 0
        self.params: list[Slot] = []
        self.numbers: list[str] = []
        given: Mapping[str, Sequence[Step]] = {}
        if shared is not None:
            self._take(shared.numbers)
            given = shared.steps
        for buffer in kernel.params:
            steps = tuple(map(self._step, given.get(buffer.name, ())))
            slot = Slot(buffer, self._names.fresh(buffer.name), given=steps)
            self.params.append(slot)
            self.scope.slots[buffer.name] = slot

    def _take(self, numbers: Mapping[str, tuple[int, int]]) -> None:
        """Parameters for numbers, of which the smallest and the largest are known."""
        for wish, (low, high) in numbers.items():
            name = self._names.fresh(wish)
            self.numbers.append(name)
            self.scope.numbers.add(c.Name(name))
            self.scope.values[wish] = atom(CValue(c.Name(name), "int", low, high))

    def _step(self, step: Step) -> int | CValue:
        return step if isinstance(step, int) else value_of(self.scope.values[step])

    def block(self, stmts: Sequence[Stmt], block: BlockWriter) -> None:
        """Statements one after the other."""
        for at, stmt in enumerate(stmts):
            match stmt:
                case For():
                    self._for(stmt, block)
                case Store():
                    self._store(stmt, block)
                case If():
                    self._if(stmt, block)
                case Local():
                    alone = self._flavour.vectors or not _holds_local(stmts[at + 1 :])
                    self._local(stmt, block, alone)
                case Prefetch():
                    self._prefetch(stmt, block)
                case _:
                    block.add(c.Evaluate(instruction_call(stmt, self.scalar)))
                    self._stored[-1] |= changed_register(stmt, self.scalar)

    def finish(self, block: BlockWriter) -> list[c.Statement]:
        """The statements of a block that is done; its names are free again, but not around it."""
        block.flush()
        self._tiles = [sums for sums in self._tiles if not self._freed(sums, block)]
        statements = share(block, self._names)
        for name in block.names:
            self._names.release(name)
        return statements

    def _freed(self, sums: Set[c.Node], block: BlockWriter) -> bool:
        """Whether a block leaves all registers to the sums of a tile, before it sets its own.

        Compilers load the constants of what follows a tile before all tiles, and keep them in
        registers until some of the sums have none.  What a larger tile around this one sums
        stays where it is.
        """
        own = {each.name for each in sums if isinstance(each, c.Name)}.intersection(block.names)
        others = [
            slot
            for slot in self.scope.slots.values()
            if slot.registers and slot.name not in block.names
        ]
        if len(own) < _TILE or sum(len(slot.points()) for slot in others) >= _TILE:
            return False
        for at, statement in enumerate(block.statements):
            if not own.isdisjoint(c.named(statement)):
                if at == 0 or block.statements[at - 1] != _FREE:
                    block.statements.insert(at, _FREE)
                break
        return True

    def _close(self, inner: BlockWriter, block: BlockWriter) -> list[c.Statement]:
        """The statements of a block that goes into another one."""
        statements = self.finish(inner)
        block.inner |= inner.inner.union(inner.names)
        return statements

    # --- loops --------------------------------------------------------------------------------

    def _for(self, loop: For, block: BlockWriter) -> None:
        start, stop = self.scalar.linear(loop.start), self.scalar.linear(loop.stop)
        extent = stop.plus(start, -1).constant
        if extent is not None and extent <= 0 and start.fits() and stop.fits():
            return
        match self._shapes.mode(loop):
            case Mode.UNROLL:
                self._unrolled(loop, start.const, stop.const, block)
            case Mode.VECTOR:
                self._vectorised(loop, start.const, stop.const - start.const, block)
            case Mode.LOOP:
                self._serial(loop, start, stop, extent, block)

    def _with_value(self, var: str, value: LinearAddress, run: Callable[[], None]) -> None:
        values = self.scope.values
        old = values.get(var)
        values[var] = value
        run()
        if old is None:
            del values[var]
        else:
            values[var] = old

    def _unrolled(self, loop: For, start: int, stop: int, block: BlockWriter) -> None:
        ends: list[int] = []
        steps: list[set[c.Node]] = []
        for number in range(start, stop):
            self._stored.append(set[c.Node]())
            self._with_value(loop.var, constant(number), lambda: self.block(loop.body, block))
            steps.append(self._stored.pop())
            self._stored[-1] |= steps[-1]
            ends.append(len(block.statements))
        same = all(step == steps[0] for step in steps)
        if self._flavour.barriers and same and len(steps[0]) >= _TILE and len(steps) > 1:
            for end in reversed(ends):
                if not isinstance(block.statements[end - 1], c.Barrier):
                    block.statements.insert(end, c.Barrier())
            self._tiles.append(steps[0])

    def _vectorised(self, loop: For, start: int, lanes: int, block: BlockWriter) -> None:
        lane = atom(CValue(LANE, "int", 0, lanes - 1)).plus(constant(start))
        varying = self._varying.setdefault(id(loop), {})
        self._vector = VectorExpression(self.scope, loop.var, start, lanes, varying=varying)
        self._with_value(loop.var, lane, lambda: self.block(loop.body, block))
        self._vector = None

    def _serial(
        self,
        loop: For,
        start: LinearAddress,
        stop: LinearAddress,
        extent: int | None,
        block: BlockWriter,
    ) -> None:
        first, last = value_of(start), value_of(stop)
        if any(isinstance(each, c.CMemory | c.Index) for each in c.nodes(last.node)):
            # Evaluated once, whatever the body stores.
            self._bounded(loop, first, last, block)
            return
        self._loop(loop, first, last, block, extent)

    def _bounded(self, loop: For, first: CValue, last: CValue, block: BlockWriter) -> None:
        outer = BlockWriter()
        name = self._names.fresh(f"{loop.var}_stop")
        kind = last.promoted
        outer.declare(c.Declare(kind, name, converted(last, kind)))
        self._loop(loop, first, last._replace(node=c.Name(name), kind=kind), outer)
        self._names.release(name)
        block.add(c.Braced(self._close(outer, block)))

    def _loop(
        self,
        loop: For,
        first: CValue,
        last: CValue,
        block: BlockWriter,
        extent: int | None = None,
    ) -> None:
        fits = first.within(INT_LIMITS) and last.within(INT_LIMITS)
        kind = "int" if fits and first.promoted == last.promoted == "int" else "int64_t"
        block.flush()
        name = self._loop_variable(loop.var, kind)
        inner = BlockWriter()
        self._stored.append(set[c.Node]())
        value = CValue(c.Name(name), kind, first.low, max(first.low, last.high - 1))
        self.scope.loops.add(value.node)
        self._with_value(loop.var, atom(value), lambda: self.block(loop.body, inner))
        self.scope.loops.discard(value.node)
        stored = self._stored.pop()
        self._stored[-1] |= stored
        hint = ""
        if self._flavour.barriers and len(stored) >= _TILE and loop.kind is LoopKind.SERIAL:
            outside = stored - set(map(c.Name, inner.names))
            if len(outside) >= _TILE:
                self._tiles.append(outside)
                if not isinstance(inner.statements[-1], c.Barrier):
                    hint = step_hint(extent, inner.statements)
                    inner.add(c.Barrier())
        if not inner.statements and not inner.pending:
            self._names.release(name)
            return
        if last.low == last.high and not self._flavour.vectors:
            hint = unroll_hint(loop, last.low - first.low)
        body = self._close(inner, block)
        block.add(c.CFor(kind, name, converted(first, kind), last.node, body, hint))
        block.inner.add(name)
        self.declared += 4
        if self._flavour.loop_declarations:
            self._names.release(name)

    def _loop_variable(self, var: str, kind: str) -> str:
        if self._flavour.loop_declarations:
            return self._names.fresh(var)
        # Declared at the head of the function: a variable that no loop around uses will do.
        busy = {node for value in self.scope.values.values() for node in value.terms}
        for name, (wish, known) in self._loop_variables.items():
            if wish == var and known == kind and c.Name(name) not in busy:
                return name
        name = self._names.fresh(var)
        self._loop_variables[name] = (var, kind)
        return name

    def loop_declarations(self, used: Collection[str]) -> list[c.Statement]:
        """Declarations of the loop variables used, where the dialect wants them up front."""
        by_kind: dict[str, list[c.Variable]] = {}
        for name, (_, kind) in self._loop_variables.items():
            if name in used:
                by_kind.setdefault(kind, []).append(c.Variable(kind, name))
        return [c.Variables(kind, variables) for kind, variables in by_kind.items()]

    # --- conditions ---------------------------------------------------------------------------

    def _if(self, stmt: If, block: BlockWriter) -> None:
        test = self.scalar.value(stmt.condition)
        if test.low == test.high:
            self.block(stmt.then if test.low else stmt.otherwise, block)
            return
        bodies: list[list[c.Statement]] = []
        for body in (stmt.then, stmt.otherwise):
            inner = BlockWriter()
            self.block(body, inner)
            bodies.append(self._close(inner, block))
        block.add(c.CIf(test.node, *bodies))

    # --- locals -------------------------------------------------------------------------------

    def _local(self, stmt: Local, block: BlockWriter, alone: bool = True) -> None:
        """A local with its body; in braces where another follows, so that both may share memory."""
        if not block.head or not alone:
            inner = BlockWriter()
            self._local(stmt, inner)
            block.add(c.Braced(self._close(inner, block)))
            return
        form = self._shapes.form(stmt)
        buffer = replace(stmt.buffer, access=Access.LOCAL, strides=None)
        slot = self._named(Slot(buffer, "", form.prefix, form.lanes, form.private), block)
        self._declare(slot, block)
        old = self.scope.slots.get(buffer.name)
        self.scope.slots[buffer.name] = slot
        self.block(stmt.body, block)
        if old is None:
            del self.scope.slots[buffer.name]
        else:
            self.scope.slots[buffer.name] = old

    def _named(self, slot: Slot, block: BlockWriter) -> Slot:
        """The slot under a name that none of its registers shares with another one's."""
        while True:
            name = self._names.fresh(slot.buffer.name)
            block.names.append(name)
            slot = replace(slot, name=name)
            registers = (slot.register(point) for point in slot.points() if point)
            if not any(map(self._names.has, registers)):
                return slot

    def _declare(self, slot: Slot, block: BlockWriter) -> None:
        kind = slot.ctype
        if slot.lanes:
            kind = f"v{slot.lanes}{storage(slot.dtype).value}"
        for point in slot.points():
            name = slot.register(point)
            if name != slot.name:
                self._names.take(name)  # to the letter: that is how it is read
                block.names.append(name)
            length = 0 if slot.registers else max(1, slot.inner)
            bytes = (length or max(1, slot.lanes)) * storage(slot.dtype).bytes
            self.declared += bytes
            aligned = self._flavour.vectors and bytes >= CACHE_LINE and bytes % CACHE_LINE == 0
            block.pending[name] = c.Variable(kind, name, length, aligned)

    # --- prefetches ---------------------------------------------------------------------------

    def _prefetch(self, stmt: Prefetch, block: BlockWriter) -> None:
        """A hint in dialects that have one, into the second cache: the first is small."""
        if not self._flavour.prefetches:
            return
        slot = self.scalar.slot(stmt.buffer)
        name, offset = place(slot, [self.scalar.linear(each) for each in stmt.index])
        if offset is not None:
            block.add(c.Fetch(self.scope.element(slot, name, offset)))

    # --- stores -------------------------------------------------------------------------------

    def _store(self, stmt: Store, block: BlockWriter) -> None:
        shared = self._sharing.nodes(stmt, vectors=self._vector is not None)
        if self._vector is None:
            # Loaded whatever a condition says, where that is safe: a compiler cannot know.
            guarded = [each for each in self._sharing.guarded(stmt) if self._harmless(each)]
            shared = [*guarded, *shared]
        if not shared:
            self._store_plain(stmt, block)
            return
        inner = BlockWriter()
        vector, known = self._vector, dict(self.scope.temporaries)
        temporaries = {self._temporary(expr, inner) for expr in shared}
        self._store_plain(stmt, inner)
        inner.drop_unused(temporaries)
        self._vector = vector
        self.scope.temporaries.clear()
        self.scope.temporaries.update(known)
        block.add(c.Braced(self._close(inner, block)))

    def _harmless(self, load: Load) -> bool:
        slot = self.scope.slots[load.buffer]
        return not slot.local and self.scalar.inside(load)

    def _temporary(self, expr: Expr, block: BlockWriter) -> str:
        """Computes a shared expression once; returns the name of what holds it."""
        name = self._names.fresh("t")
        block.names.append(name)
        self.declared += 8
        vector = self._vector
        value = vector.value(expr) if vector else self.scalar.value(expr)
        if isinstance(value, Lanes):
            assert vector is not None
            dtype = f"v{vector.lanes}{value.dtype.value}"
            if value.mask:
                dtype = f"v{vector.lanes}i{value.mask * 8}"
            block.declare(c.Declare(dtype, name, value.node))
            held = value._replace(node=c.Name(name))
            self._vector = vector.with_temporaries({id(expr): held})
            return name
        kind = value.promoted
        block.declare(c.Declare(kind, name, value.node))
        self.scope.temporaries[id(expr)] = value._replace(node=c.Name(name), kind=kind)
        return name

    def _store_plain(self, stmt: Store, block: BlockWriter) -> None:
        slot = self.scalar.slot(stmt.buffer)
        index = [self.scalar.linear(each) for each in stmt.index]
        if self._vector is not None:
            self._store_lanes(self._vector, stmt, slot, index, block)
            return
        name, offset = place(slot, index)
        target = self.scalar.at(slot, name, offset, load=False)
        operator, rest = self._accumulation(stmt, slot)
        value = stored(self.scalar.value(rest), slot)
        self._assign(target, operator, value, slot, block)

    def _accumulation(self, stmt: Store, slot: Slot) -> tuple[str, Expr]:
        """``+=`` and what is added, where the value stored is the old one and something."""
        value = stmt.value
        if not (isinstance(value, Binary) and value.op in _ASSIGNED):
            return "=", value
        if slot.buffer.dtype.value not in ("f32", "f64") or not isinstance(value.lhs, Load):
            return "=", value
        same = value.lhs.buffer == stmt.buffer and value.lhs.index == stmt.index
        return (_ASSIGNED[value.op], value.rhs) if same else ("=", value)

    def _assign(
        self, target: c.Node, operator: str, value: c.Node, slot: Slot, block: BlockWriter
    ) -> None:
        if operator == "=" and value == target:
            return
        if slot.registers:
            self._stored[-1].add(target)
        if isinstance(target, c.Name) and operator == "=" and block.head:
            variable = block.pending.pop(target.name, None)
            if variable is not None:
                block.declare(c.Declare(variable.type, target.name, value, const=False))
                return
        block.add(c.Assign(target, operator, value))

    def _store_lanes(
        self,
        vector: VectorExpression,
        stmt: Store,
        slot: Slot,
        index: list[LinearAddress],
        block: BlockWriter,
    ) -> None:
        name, offset = place(slot, index)
        target = vector.whole(slot, name, offset, load=False)
        if target is None:
            self._scatter(vector, stmt, slot, block)
            return
        operator, rest = self._accumulation(stmt, slot)
        if operator == "=":
            value = vector.packed(slot, vector.vector(rest))
        else:
            value = vector.operand(vector.value(rest), slot.dtype)
        self._assign(target, operator, value, slot, block)

    def _scatter(
        self, vector: VectorExpression, stmt: Store, slot: Slot, block: BlockWriter
    ) -> None:
        """Stores lane by lane."""
        inner = BlockWriter()
        value = vector.packed(slot, vector.vector(stmt.value))
        kind = vector.type(storage(slot.dtype))
        name = self._names.fresh("lanes")
        inner.names.append(name)
        inner.declare(c.Declare(kind, name, value))
        for lane in range(vector.lanes):
            scalar = vector.at_lane(lane)
            base, offset = place(slot, [scalar.linear(each) for each in stmt.index])
            target = scalar.at(slot, base, offset, load=False)
            inner.add(c.Assign(target, "=", c.Index(c.Name(name), c.CNumber(str(lane)))))
        block.add(c.Braced(self._close(inner, block)))
