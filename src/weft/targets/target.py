"""What a processor is to kernels and to code generation: a machine record.

Figures that a record does not state are those of a desktop core with two pipes for vectors,
as they were measured on Zen 4 and Zen 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from weft.cached import cached_property
from weft.dtypes import DType
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.loops.instruction import Instruction

FLAVOURS = ("c89", "c99", "gnu")
KINDS = ("cache", "ram", "rom")
REACHES = ("core", "cluster", "shared")
HOLDS = ("code", "weights", "arena", "stack")


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vector registers; of plain C, which has none, the shape of the tiles.

    Attributes:
        bytes: in a register; 0 for none. Plain C runs loops of so many bytes.
        count: of registers, or of what takes their place in a tile.
        executed: bytes that an instruction works on at once, where it takes a wide register
            in turns; 0 where it takes all of it.
        held: bytes of the longest vector that compilers keep in registers, where vectors are
            loops to them; 0 where all are registers.
        fused: whether one instruction multiplies and adds, and another loads one element
            into all lanes; without, a product takes a register and a scalar a shuffle.
    """

    bytes: int
    count: int
    executed: int = 0
    held: int = 0
    fused: bool = True

    @property
    def share(self) -> float:
        """The part of a register that an instruction works on at once."""
        return self.executed / self.bytes if self.executed else 1.0


@dataclass(frozen=True, slots=True)
class Issue:
    """Instructions that a core begins in a cycle, and how long their results take.

    Attributes:
        multiply_adds: of ``vectors.executed`` bytes, as are the others.
        operations: of vectors, other than multiply-adds.
        loads: beside multiply-adds; of two ports 1.75, as tiles of one vector load twice
            for every product.
        stores: beside multiply-adds.
        latency: cycles until a sum can be added to again.
        window: instructions that a core looks at for some that need not wait; 1 where they begin in
            order.
    """

    multiply_adds: float = 2.0
    operations: float = 2.0
    loads: float = 1.75
    stores: float = 1.0
    latency: float = 4.0
    window: float = 1.0


@dataclass(frozen=True, slots=True)
class Memory:
    """A cache or a memory.

    Attributes:
        name: ``L1``, ``DRAM``, ``DTCM``, ...
        kind: ``cache``, ``ram`` or ``rom``.
        bytes: that it holds; 0 where that is a matter of the board.
        bytes_per_cycle: that one core reads from it; 0 where nobody measured it.
        streams: in how many streams one core reads it fastest: where prefetchers follow each stream
            only so far, one alone waits.
        alignment: bytes that it brings together: a line, a bus.
        reach: ``core`` where it belongs to one core, ``cluster`` where a few share it and one may
            use all of it, ``shared`` where all have it.
        region: whether intermediate values lie in it, in memory of its own for which the C takes
            a pointer; where no memory of a target says so, they have one arena, wherever it is.
        holds: what of a network may be in it: `code`, `weights`, `arena`, `stack`; by default code
            and weights in a `rom`, arena and stack in a `ram`.
    """

    name: str
    kind: str = "cache"
    bytes: int = 0
    bytes_per_cycle: float = 0.0
    streams: int = 1
    alignment: int = 64
    reach: str = "core"
    region: bool = False
    holds: tuple[str, ...] = ()

    def may_hold(self, what: str) -> bool:
        """Whether a part of a network, of ``HOLDS``, may be in it."""
        default = {"rom": HOLDS[:2], "ram": HOLDS[2:]}
        return what in (self.holds or default.get(self.kind, ()))


OPERATIONS: tuple[tuple[str, float], ...] = (
    *((name, 0.4) for name in ("add", "sub", "mul", "min", "max", "neg", "abs")),
    *(("div", 4.0), ("sqrt", 4.0), ("mod", 8.0), ("floordiv", 8.0), ("fmod", 20.0)),
    *((name, 15.0) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")),
    ("pow", 40.0),
    *((name, 20.0) for name in ("erf", "erfc", "sin", "cos", "asin", "acos", "atan")),
    ("tan", 30.0),
    *((name, 25.0) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
)
"""Cycles of an operation on a vector, where many run at once."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles of what kernels are made of.

    Attributes:
        operations: of one on a vector, by name.
        other: of an operation that ``operations`` does not name.
        instructions: from one issue of an instruction to the next, by its name, where that is
            not what its row says.
        move: of a load or store that the first cache answers.
        tile: to begin a register tile: loops, addresses, and the first products' latency.
        row: to begin a row of a softmax, or a register tile of the products beside it.
        softmax: of what a softmax does with a vector of scores.
        layout: of an element that is laid out anew for a product.
        transform: of Winograd's transform of a tile, beside its operations.
        prefetch: that a tile must take for each line that it fetches ahead, as ports that load
            are free every other cycle.
        ahead: bytes from what is read to what is fetched, where memory sets the pace.
        layer: bytes per cycle that a core gets of what other cores wrote.
        part: that a part for a thread must take at the least, about 6 microseconds. A fork and
            join among threads that spin takes less than half a microsecond, but data must
            move between caches: kernels of 32 KB in and out that take 5 microseconds alone
            take 4 to 7 in two parts.
    """

    operations: tuple[tuple[str, float], ...] = OPERATIONS
    other: float = 1.0
    instructions: tuple[tuple[str, float], ...] = ()
    move: float = 0.2
    tile: float = 20.0
    row: float = 40.0
    softmax: float = 20.0
    layout: float = 1.0
    transform: float = 30.0
    prefetch: float = 8.0
    ahead: int = 8192
    layer: float = 8.0
    part: float = 25_000.0


DESKTOP = Costs()
"""What no record says."""


@dataclass(frozen=True)
class Target:
    """A processor, as kernels and code generation see it.

    Attributes:
        name: as on the command line.
        doc: one sentence for the reference pages.
        flavour: of the C that is generated by default: ``c89``, ``c99`` or ``gnu``.
        vectors: its vector registers.
        flags: for a GNU-compatible compiler, what selects this processor.
        architecture: as ``uname -m`` names it; empty for any.
        features: what instructions ask for beside vectors, named as the compiler or
            ``/proc/cpuinfo`` names it: ``dsp``, ``vfp``, ``mve``, ``dotprod``, ``avx512_vnni``.
        integers: integer registers that are free for a kernel's values; 0 if unknown.
        floats: scalar registers of ``f32`` that are not vectors; 0 for none.
        issue: instructions per cycle.
        memories: nearest first; none where memory is short and near.
        clock: megahertz at most; 0 where that is a matter of the chip.
        stack_limit: a buffer of a kernel that takes so many bytes lies in the arena, not on the
            stack.
        costs: in cycles.
        core: of ``host``: what the system says the processor is.
    """

    name: str
    doc: str
    flavour: str
    vectors: Vectors
    flags: tuple[str, ...] = ()
    architecture: str = ""
    features: tuple[str, ...] = ()
    integers: int = 0
    floats: int = 0
    issue: Issue = field(default_factory=Issue)
    memories: tuple[Memory, ...] = ()
    clock: int = 0
    stack_limit: int = 8192
    costs: Costs = DESKTOP
    core: str = ""

    def in_flavour(self, flavour: str) -> Target:
        """The machine for C of a flavour that may have no vectors; its own if empty."""
        plain = flavour in FLAVOURS and flavour != "gnu"
        return replace(self, flavour=flavour) if plain and self.flavour == "gnu" else self

    # --- vectors ----------------------------------------------------------------------------

    @property
    def vector_bytes(self) -> int:
        """Width of a vector register; 0 for none."""
        return self.vectors.bytes

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return self.vectors.count

    @property
    def fused(self) -> bool:
        """Whether one instruction multiplies and adds; see ``Vectors``."""
        return self.vectors.fused

    def lanes(self, dtype: DType) -> int:
        """Elements of ``dtype`` in a vector register; 1 without vectors."""
        return max(1, self.vectors.bytes // dtype.bytes)

    def lanes_at_once(self, dtype: DType) -> int:
        """Elements of ``dtype`` that an instruction works on at once."""
        return max(1, (self.vectors.executed or self.vectors.bytes) // dtype.bytes)

    def whole(self, lanes: int, dtype: DType) -> float:
        """Whole vectors that take as long as vectors of so many lanes in all.

        Half of a vector takes half of its time where wide registers are executed in halves.
        """
        step = self.lanes_at_once(dtype)
        return -(-lanes // step) * step / self.lanes(dtype)

    def holds(self, lanes: int, dtype: DType) -> bool:
        """Whether vectors of so many lanes stay in registers: tiles of others are not unrolled."""
        return not self.vectors.held or lanes * dtype.bytes <= self.vectors.held

    # --- per cycle --------------------------------------------------------------------------

    @property
    def multiply_adds(self) -> float:
        """Of whole vectors, per cycle."""
        return self.issue.multiply_adds * self.vectors.share

    @property
    def operations(self) -> float:
        """On whole vectors, per cycle."""
        return self.issue.operations * self.vectors.share

    @property
    def loads(self) -> float:
        """Of whole vectors, per cycle."""
        return self.issue.loads * self.vectors.share

    @property
    def stores(self) -> float:
        """Of whole vectors, per cycle."""
        return self.issue.stores * self.vectors.share

    def cycles(self, row: Instruction) -> float:
        """From one issue of an instruction to the next, in one of two pipes."""
        return dict(self.costs.instructions).get(row.name, row.cycles)

    # --- memories ---------------------------------------------------------------------------

    def regions(self, given: Mapping[str, int] | None) -> tuple[Memory, ...]:
        """The memories that intermediate values lie in, the nearest first; none for any.

        Args:
            given: sizes by name, in place of the target's own.
        """
        if given is None:
            return tuple(each for each in self.memories if each.region)
        return tuple(Memory(name, "ram", size, region=True) for name, size in given.items())

    @cached_property
    def caches(self) -> tuple[int, ...]:
        """Bytes that one core has of every level of data cache, nearest first."""
        return tuple(each.bytes for each in self.memories if _own(each))

    @property
    def line(self) -> int:
        """Bytes of a line of the nearest memory."""
        return self.memories[0].alignment if self.memories else Memory("").alignment

    @cached_property
    def near(self) -> float:
        """Bytes per cycle from the last of a core's own caches."""
        return [each for each in self.memories if _own(each)][-1].bytes_per_cycle

    @cached_property
    def far(self) -> float:
        """Bytes per cycle from beyond a core's own caches: a cache shared by all, or memory."""
        return next(each.bytes_per_cycle for each in self.memories if not _own(each))

    @property
    def memory(self) -> float:
        """Bytes per cycle from the last memory."""
        return self.memories[-1].bytes_per_cycle

    @cached_property
    def cached(self) -> int:
        """Bytes of the largest cache, past which data come from memory."""
        return max((each.bytes for each in self.memories if each.kind == "cache"), default=0)


def _own(memory: Memory) -> bool:
    return memory.kind == "cache" and memory.reach != "shared"
