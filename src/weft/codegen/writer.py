"""The statements of a kernel as C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.codegen.block import BARRIER, LANES, SUMS, Block, boundary
from weft.codegen.flavours import Flavour
from weft.codegen.instruct import call_text
from weft.codegen.lanes import Lanes, storage
from weft.codegen.linear import LANE, Linear, atom, constant, print_linear
from weft.codegen.naming import Names
from weft.codegen.operations import stored
from weft.codegen.pool import Pool
from weft.codegen.scalar import Scalar
from weft.codegen.scope import Scope
from weft.codegen.shapes import Mode, Shapes
from weft.codegen.sharing import guarded_loads, shared_nodes
from weft.codegen.slots import Slot, place
from weft.codegen.value import INT_LIMITS, PRIMARY, SUM, Value, converted
from weft.codegen.vector import Vector
from weft.loops.nodes import (
    Access,
    Binary,
    Expr,
    For,
    If,
    Kernel,
    Kind,
    Load,
    Local,
    Prefetch,
    Stmt,
    Store,
)
from weft.loops.walk import loads, walk_stmts

# From this many accumulators on, compilers merge loads across steps and run out of registers.
_TILE = 8
CACHE_LINE = 64
# gcc unrolls loops of so many steps before it makes vectors; and afterwards, by its hint.
_UNROLLED_EARLY, _UNROLLED_LAST = 16, 4
_ASSIGNED = {"add": "+=", "sub": "-=", "mul": "*="}


def _holds_local(stmts: Sequence[Stmt]) -> bool:
    return any(isinstance(stmt, Local) for stmt in walk_stmts(stmts))


def _accumulates(loop: For) -> bool:
    """Whether some store in a loop adds to what it replaces."""
    return any(
        isinstance(stmt, Store)
        and any(
            node.buffer == stmt.buffer and node.index == stmt.index for node in loads(stmt.value)
        )
        for stmt in walk_stmts(loop.body)
    )


class Writer:
    """Writes the statements of one kernel.

    Attributes:
        declared: bytes of all variables that it declares, each with a place of its own.
    """

    def __init__(self, kernel: Kernel, flavour: Flavour) -> None:
        self._flavour = flavour
        self._shapes = Shapes(kernel.body, flavour.vectors)
        self._names = Names()
        self._pool = Pool(self._names)
        self.scope = Scope(flavour, pool=self._pool)
        self.scalar = Scalar(self.scope)
        self._vector: Vector | None = None
        # Registers stored to, one set for each loop around: finds the steps of a reduction.
        self._stored: list[set[str]] = [set()]
        self._loop_variables: dict[str, tuple[str, str]] = {}
        self.declared = 0
        self.params: list[Slot] = []
        for buffer in kernel.params:
            slot = Slot(buffer, self._names.fresh(buffer.name))
            self.params.append(slot)
            self.scope.slots[buffer.name] = slot

    def block(self, stmts: Sequence[Stmt], block: Block) -> None:
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
                    block.statement(call_text(stmt, self.scalar))

    def finish(self, block: Block) -> list[str]:
        """The lines of a block that is done; its names are free again, but not around it."""
        block.flush()
        lines = self._pool.resolve(block, boundary)
        for name in block.names:
            self._names.release(name)
        return lines

    def _close(self, inner: Block, block: Block, opening: str) -> None:
        """Puts a block into the one around it."""
        block.statement(opening)
        block.lines += self.finish(inner)
        block.inner |= inner.inner.union(inner.names)
        block.add("}")

    # --- loops --------------------------------------------------------------------------------

    def _for(self, loop: For, block: Block) -> None:
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
                self._serial(loop, start, stop, block)

    def _with_value(self, var: str, value: Linear, run: Callable[[], None]) -> None:
        values = self.scope.values
        old = values.get(var)
        values[var] = value
        run()
        if old is None:
            del values[var]
        else:
            values[var] = old

    def _unrolled(self, loop: For, start: int, stop: int, block: Block) -> None:
        ends: list[int] = []
        steps: list[set[str]] = []
        for number in range(start, stop):
            self._stored.append(set())
            self._with_value(loop.var, constant(number), lambda: self.block(loop.body, block))
            steps.append(self._stored.pop())
            self._stored[-1] |= steps[-1]
            ends.append(len(block.lines))
        same = all(step == steps[0] for step in steps)
        if self._flavour.barriers and same and len(steps[0]) >= _TILE and len(steps) > 1:
            for end in reversed(ends):
                if not block.lines[end - 1].endswith(BARRIER):
                    block.lines.insert(end, block.indent + BARRIER)

    def _vectorised(self, loop: For, start: int, lanes: int, block: Block) -> None:
        lane = atom(Value(LANE, PRIMARY, "int", 0, lanes - 1)).plus(constant(start))
        self._vector = Vector(self.scope, loop.var, start, lanes)
        self._with_value(loop.var, lane, lambda: self.block(loop.body, block))
        self._vector = None

    def _serial(self, loop: For, start: Linear, stop: Linear, block: Block) -> None:
        first, last = print_linear(start), print_linear(stop)
        if "[" in last.text:  # evaluated once, whatever the body stores
            self._bounded(loop, first, last, block)
            return
        self._loop(loop, first, last, block)

    def _bounded(self, loop: For, first: Value, last: Value, block: Block) -> None:
        outer = Block(block.depth + 1)
        name = self._names.fresh(f"{loop.var}_stop")
        kind = last.promoted
        outer.add(f"const {kind} {name} = {converted(last, kind)};")
        self._loop(loop, first, last._replace(text=name, level=PRIMARY, kind=kind), outer)
        self._names.release(name)
        self._close(outer, block, "{")

    def _loop(self, loop: For, first: Value, last: Value, block: Block) -> None:
        fits = first.within(INT_LIMITS) and last.within(INT_LIMITS)
        kind = "int" if fits and first.promoted == last.promoted == "int" else "int64_t"
        block.flush()
        name = self._loop_variable(loop.var, kind)
        begin = converted(first, kind)
        declared = f"{kind} " if self._flavour.loop_declarations else ""
        test = f"{name} < {last.at(SUM)}"
        inner = Block(block.depth + 1)
        self._stored.append(set())
        value = atom(Value(name, PRIMARY, kind, first.low, max(first.low, last.high - 1)))
        self.scope.loops.add(name)
        self._with_value(loop.var, value, lambda: self.block(loop.body, inner))
        self.scope.loops.discard(name)
        stored = self._stored.pop()
        self._stored[-1] |= stored
        if self._flavour.barriers and len(stored) >= _TILE and loop.kind is Kind.SERIAL:
            outside = stored - set(inner.names)
            if len(outside) >= _TILE and not inner.lines[-1].endswith(BARRIER):
                inner.statement(BARRIER)
        if not inner.lines and not inner.pending:
            self._names.release(name)
            return
        hint = self._hint(loop, first, last)
        self._close(inner, block, f"{hint}for ({declared}{name} = {begin}; {test}; ++{name}) {{")
        block.inner.add(name)
        self.declared += 4
        if self._flavour.loop_declarations:
            self._names.release(name)

    def _hint(self, loop: For, first: Value, last: Value) -> str:
        """What tells compilers how far to unroll a loop over lanes."""
        if loop.kind is not Kind.VECTOR or self._flavour.vectors or last.low != last.high:
            return ""
        lanes = last.low - first.low
        if lanes > _UNROLLED_EARLY:
            return f"{SUMS} " if _accumulates(loop) else ""
        # Compilers would unroll it before they look for vectors.
        return f"{LANES} " if lanes > _UNROLLED_LAST else ""

    def _loop_variable(self, var: str, kind: str) -> str:
        if self._flavour.loop_declarations:
            return self._names.fresh(var)
        # Declared at the head of the function: a variable that no loop around uses will do.
        busy = {text for value in self.scope.values.values() for text in value.terms}
        for name, (wish, known) in self._loop_variables.items():
            if wish == var and known == kind and name not in busy:
                return name
        name = self._names.fresh(var)
        self._loop_variables[name] = (var, kind)
        return name

    def loop_declarations(self, text: str) -> list[str]:
        """Declarations of the loop variables used, where the dialect wants them up front."""
        by_kind: dict[str, list[str]] = {}
        for name, (_, kind) in self._loop_variables.items():
            if f"for ({name} = " not in text:
                continue
            by_kind.setdefault(kind, []).append(name)
        return [f"    {kind} {', '.join(names)};" for kind, names in by_kind.items()]

    # --- conditions ---------------------------------------------------------------------------

    def _if(self, stmt: If, block: Block) -> None:
        test = self.scalar.value(stmt.condition)
        if test.low == test.high:
            self.block(stmt.then if test.low else stmt.otherwise, block)
            return
        inner = Block(block.depth + 1)
        self.block(stmt.then, inner)
        self._close(inner, block, f"if ({test.text}) {{")
        if stmt.otherwise:
            inner = Block(block.depth + 1)
            self.block(stmt.otherwise, inner)
            del block.lines[-1]
            self._close(inner, block, "} else {")

    # --- locals -------------------------------------------------------------------------------

    def _local(self, stmt: Local, block: Block, alone: bool = True) -> None:
        """A local with its body; in braces where another follows, so that both may share memory."""
        if not block.head or not alone:
            inner = Block(block.depth + 1)
            self._local(stmt, inner)
            self._close(inner, block, "{")
            return
        form = self._shapes.form(stmt)
        buffer = replace(stmt.buffer, access=Access.LOCAL, strides=None)
        slot = self._named(Slot(buffer, "", form.prefix, form.lanes, form.private), block)
        self._declare(slot, block)
        old = self.scope.slots.get(buffer.name)
        self.scope.slots[buffer.name] = slot
        self.block(stmt.body, block)
        if old is not None:
            self.scope.slots[buffer.name] = old

    def _named(self, slot: Slot, block: Block) -> Slot:
        """The slot under a name that none of its registers shares with another one's."""
        while True:
            name = self._names.fresh(slot.buffer.name)
            block.names.append(name)
            slot = replace(slot, name=name)
            registers = (slot.register(point) for point in slot.points() if point)
            if not any(map(self._names.has, registers)):
                return slot

    def _declare(self, slot: Slot, block: Block) -> None:
        kind = slot.ctype
        if slot.lanes:
            kind = f"v{slot.lanes}{storage(slot.dtype).value}"
        for point in slot.points():
            name = slot.register(point)
            if name != slot.name:
                self._names.take(name)  # to the letter: that is how it is read
                block.names.append(name)
            array = "" if slot.registers else self._array(slot)
            count = max(1, slot.lanes) if slot.registers else max(1, slot.inner)
            self.declared += count * storage(slot.dtype).bytes
            block.pending[f"{name}{array}"] = kind

    # --- prefetches ---------------------------------------------------------------------------

    def _prefetch(self, stmt: Prefetch, block: Block) -> None:
        """A hint in dialects that have one, into the second cache: the first is small."""
        if not self._flavour.prefetches:
            return
        slot = self.scalar.slot(stmt.buffer)
        name, offset = place(slot, [self.scalar.linear(each) for each in stmt.index])
        if offset is not None:
            target = self.scope.element(slot, name, offset)
            block.statement(f"__builtin_prefetch(&{target}, 0, 2);")

    def _array(self, slot: Slot) -> str:
        """What stands behind the name of an array; vectors in it lie in one cache line."""
        size = max(1, slot.inner)
        bytes = size * storage(slot.dtype).bytes
        aligned = self._flavour.vectors and bytes >= CACHE_LINE and bytes % CACHE_LINE == 0
        return f"[{size}] __attribute__((aligned({CACHE_LINE})))" if aligned else f"[{size}]"

    # --- stores -------------------------------------------------------------------------------

    def _store(self, stmt: Store, block: Block) -> None:
        shared = shared_nodes(stmt.value)
        if self._vector is None:
            # Loaded whatever a condition says, where that is safe: a compiler cannot know.
            guarded = [each for each in guarded_loads(stmt.value) if self._harmless(each)]
            shared = [*guarded, *shared]
        if not shared:
            self._store_plain(stmt, block)
            return
        inner = Block(block.depth + 1)
        vector, known = self._vector, dict(self.scope.temporaries)
        for expr in shared:
            self._temporary(expr, inner)
        self._store_plain(stmt, inner)
        inner.drop_unused()
        self._vector = vector
        self.scope.temporaries.clear()
        self.scope.temporaries.update(known)
        self._close(inner, block, "{")

    def _harmless(self, load: Load) -> bool:
        slot = self.scope.slots[load.buffer]
        return not slot.local and self.scalar.inside(load)

    def _temporary(self, expr: Expr, block: Block) -> None:
        """Computes a shared expression once."""
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
            block.add(f"const {dtype} {name} = {value.text};")
            held = Lanes(name, PRIMARY, value.dtype, value.mask)
            self._vector = vector.with_temporaries({id(expr): held})
            return
        kind = value.promoted
        block.add(f"const {kind} {name} = {value.text};")
        self.scope.temporaries[id(expr)] = value._replace(text=name, level=PRIMARY, kind=kind)

    def _store_plain(self, stmt: Store, block: Block) -> None:
        slot = self.scalar.slot(stmt.buffer)
        index = [self.scalar.linear(each) for each in stmt.index]
        if self._vector is not None:
            self._store_lanes(self._vector, stmt, slot, index, block)
            return
        name, offset = place(slot, index)
        target = name if offset is None else self.scope.element(slot, name, offset, load=False)
        operator, rest = self._accumulation(stmt, slot, target)
        value = stored(self.scalar.value(rest), slot)
        self._assign(target, operator, value, slot, block)

    def _accumulation(self, stmt: Store, slot: Slot, target: str) -> tuple[str, Expr]:
        """``+=`` and what is added, where the value stored is the old one and something."""
        value = stmt.value
        if not (isinstance(value, Binary) and value.op in _ASSIGNED):
            return "=", value
        if slot.buffer.dtype.value not in ("f32", "f64") or not isinstance(value.lhs, Load):
            return "=", value
        same = value.lhs.buffer == stmt.buffer and value.lhs.index == stmt.index
        return (_ASSIGNED[value.op], value.rhs) if same else ("=", value)

    def _assign(self, target: str, operator: str, value: str, slot: Slot, block: Block) -> None:
        if operator == "=" and value == target:
            return
        if slot.registers:
            self._stored[-1].add(target)
        if target in block.pending and operator == "=" and block.head:
            kind = block.pending.pop(target)
            block.add(f"{kind} {target} = {value};")
            return
        block.statement(f"{target} {operator} {value};")

    def _store_lanes(
        self, vector: Vector, stmt: Store, slot: Slot, index: list[Linear], block: Block
    ) -> None:
        name, offset = place(slot, index)
        target = vector.whole(slot, name, offset, load=False)
        if target is None:
            self._scatter(vector, stmt, slot, block)
            return
        operator, rest = self._accumulation(stmt, slot, target)
        if operator == "=":
            self._assign(target, "=", vector.stored(slot, rest), slot, block)
            return
        value = vector.value(rest)
        text = vector.operand(value, slot.dtype, SUM if operator == "*=" else 0)
        self._assign(target, operator, text, slot, block)

    def _scatter(self, vector: Vector, stmt: Store, slot: Slot, block: Block) -> None:
        """Stores lane by lane."""
        inner = Block(block.depth + 1)
        value = vector.vector(stmt.value)
        text = vector.packed(slot, value)
        kind = vector.type(storage(slot.dtype))
        name = self._names.fresh("lanes")
        inner.names.append(name)
        inner.add(f"const {kind} {name} = {text};")
        for lane in range(vector.lanes):
            scalar = vector.at_lane(lane)
            base, offset = place(slot, [scalar.linear(each) for each in stmt.index])
            at = base if offset is None else self.scope.element(slot, base, offset, load=False)
            inner.add(f"{at} = {name}[{lane}];")
        self._close(inner, block, "{")
