"""What a run takes of the stack: an estimate, and the sum of what a compiler says of functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from weft.codegen.flavours import MACROS, Dialect
from weft.codegen.fork import ForkTask
from weft.codegen.helpers import assembly_stack, helper_uses
from weft.codegen.naming import MATH
from weft.codegen.unit import Unit
from weft.codegen.uses import Uses
from weft.records import dataclass

RUNTIME, LIBRARY, TRIGONOMETRY = 96, 256, 1024
"""Bytes allowed for what a function calls that Weft did not write: what compilers call by
themselves, functions of libm, and those of them that reduce angles (newlib on a Cortex-M4 without
doubles: 876 bytes)."""
RED_ZONE = 128
"""Bytes below the stack pointer that a function on x86-64 may use without saying so."""
_ANGLES = {"sin", "cos", "tan", "sinf", "cosf", "tanf"}
ROUND = 16
"""What figures are multiples of."""
LINK, _VECTORS = 16, 64
"""Bytes that a call may take beside what compilers say: a return address, and room to align."""
IDLE = ("__aeabi_unwind_cpp_pr0", "__aeabi_unwind_cpp_pr1", "_GLOBAL_OFFSET_TABLE_")
"""Symbols that objects name and their functions do not call."""
# Compilers keep in memory what they have no register for: at the most 3.1 times the locals among
# the kernels of the networks of `bench.stack`. Those that do not optimize give each variable a
# place of its own, and each step of an expression on vectors, too.
_SPILLS, _STEPS, _FRAMES = 3, 2, 512


@dataclass(frozen=True, slots=True)
class Stack:
    """What one run takes of the stack.

    Attributes:
        bytes: how much.
        compiler: that said so, with its flags; empty if it is an estimate.
    """

    bytes: int
    compiler: str = ""

    def __str__(self) -> str:
        return self.compiler or "an estimate for any compiler"


@dataclass(frozen=True, slots=True)
class Called:
    """A C function.

    Attributes:
        name: its name.
        more: bytes that what it calls outside of the sources may take.
        calls: names of the functions in the sources that it calls.
        own: bytes that it takes itself and compilers do not count, as it is in assembly.
    """

    name: str
    more: int
    calls: tuple[str, ...]
    own: int = 0


@dataclass(frozen=True, slots=True)
class CallGraph:
    """The functions of a program, callees first, the run function last.

    Attributes:
        functions: all of them.
        level: bytes that a call may take beside what a compiler says of the function.
        pointers: whether it calls functions of the caller's by their addresses.
    """

    functions: tuple[Called, ...]
    level: int
    pointers: bool = False

    def bytes(
        self, frames: Mapping[str, int], symbols: Collection[str] | None = None, link: int = LINK
    ) -> int | None:
        """The most that a run takes.

        Args:
            frames: bytes that each function takes; those that are missing are part of others.
            symbols: of functions that the objects define or need. If all of them are in
                ``frames``, nothing is called outside of the sources, and nothing is allowed for
                it.
            link: bytes that a call takes then beside what a compiler says; see ``LINK``.

        Returns:
            Nothing if the run function is missing.
        """
        totals: dict[str, int] = {}
        closed = bool(symbols) and not self.pointers and frames.keys() >= set(symbols or ())
        level = self.level - (LINK - link if closed else 0)
        for each in self.functions:
            own = each.own + (frames[each.name] + level if each.name in frames else 0)
            deepest = max((totals[name] for name in each.calls), default=0)
            totals[each.name] = own + max(0 if closed else each.more, deepest)
        last = self.functions[-1].name
        return totals[last] if last in frames else None


def call_graph(
    units: Sequence[Unit], tasks: Iterable[ForkTask], run: tuple[str, Uses], flavour: Dialect
) -> CallGraph:
    """The functions of a program.

    Args:
        units: its kernels.
        tasks: what threads call.
        run: name of the run function, and what it uses.
        flavour: of the helpers.
    """
    found: dict[str, Called] = {}

    def helpers(uses: Uses) -> tuple[str, ...]:
        called = tuple(name for name in uses.helpers if name not in MACROS)
        for name in called:
            if name not in found:
                own, taken = helper_uses(name, flavour), assembly_stack(name)
                # Assembly calls nothing that Weft did not write.
                found[name] = Called(name, 0 if taken else _outside(own), helpers(own), taken)
        return called

    for unit in units:
        called = helpers(unit.uses)
        more = max(_outside(unit.uses), unit.foreign_bytes)
        for stage in unit.stages:
            found[stage] = Called(stage, more, called)
        found[unit.name] = Called(unit.name, more, (*unit.stages, *called))
    names = [unit.name for unit in units]
    shared = [task.name for task in tasks]
    for task in tasks:
        found[task.name] = Called(task.name, RUNTIME, (task.function.name,))
    name, uses = run
    called = helpers(uses)
    if shared:
        found["weft_fork"] = Called("weft_fork", RUNTIME, tuple(shared))
    found[name] = Called(name, _outside(uses), (*names, *shared, *called))
    order = [each for each in found.values() if each.name != name]
    level = LINK + (_VECTORS if flavour.vectors else 0)
    return CallGraph((*order, found[name]), level, bool(shared))


def _outside(uses: Uses) -> int:
    if not uses.names.isdisjoint(_ANGLES):
        return TRIGONOMETRY
    return RUNTIME if uses.names.isdisjoint(MATH) else LIBRARY


def estimate(
    units: Sequence[Unit], tasks: Iterable[ForkTask], graph: CallGraph, vectors: bool
) -> Stack:
    """What a run takes if a compiler keeps in memory what those that were tried did.

    Args:
        units: its kernels.
        tasks: what threads call.
        graph: all functions.
        vectors: whether the kernels have vector types.
    """
    steps = _STEPS if vectors else 1
    deepest = max(
        (
            unit.stack_bytes
            if unit.extern
            else steps * max(_SPILLS * unit.stack_bytes, unit.declared_bytes)
            for unit in units
        ),
        default=0,
    )
    deepest += max((task.stack_bytes for task in tasks), default=0)
    deepest += max(each.own for each in graph.functions)
    outside = max(each.more for each in graph.functions)
    return Stack(rounded(deepest + _FRAMES + outside))


def rounded(bytes: int) -> int:
    """As the header says it."""
    return -(-bytes // ROUND) * ROUND


def frames_of(texts: Iterable[str]) -> dict[str, int] | None:
    """Bytes that functions take, from what ``-fstack-usage`` writes.

    Copies of a function count as the largest of them; parts that were split off as further
    functions, which it calls.

    Returns:
        Nothing where a function takes what is only known when it runs.
    """
    whole: dict[str, int] = {}
    parts: dict[str, int] = {}
    for line in (line for text in texts for line in text.splitlines()):
        place, size, kind = line.split("\t")
        if kind == "dynamic":
            return None
        name, _, copy = place.rpartition(":")[2].partition(".")
        into = parts if copy.startswith("part") else whole
        into[name] = max(into.get(name, 0), int(size))
    return {name: whole.get(name, 0) + parts.get(name, 0) for name in {*whole, *parts}}
