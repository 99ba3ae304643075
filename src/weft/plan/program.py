"""Program: a plan's last form, calls of functions at fixed addresses.

This is all that code generation sees: no graph, no choices left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from weft.deferred import later
from weft.dtypes import DType
from weft.ir.foreign import NOTHING_FOREIGN, Foreign
from weft.records import dataclass
from weft.screen import Screen, Shown, several

if TYPE_CHECKING:
    from weft.loops.nodes import Kernel
    from weft.plan.lazy_weights import weights_bytes
else:
    # A start from the cache does not need it.
    weights_bytes = later("weft.plan.lazy_weights").weights_bytes


ADDRESS_BYTES = 8
"""Room for an address, on every machine."""


class Region(Enum):
    """Where an address is counted from."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"
    WEIGHTS = "weights"
    STATE = "state"
    PREPARED = "prepared"
    HELD = "held"
    """A parameter where the caller has it."""


@dataclass(frozen=True, slots=True)
class Arena:
    """A memory region that holds intermediate values.

    Offsets of a plan count through all regions, one behind the other, as if they were one: what
    tells when and where values lie need not know that there are several.

    Attributes:
        name: of the memory; empty where there is one region only.
        start: where it begins, counted through; bytes: that are used of it.
        lower_bound: no placement of what lies in it uses less.
    """

    name: str
    start: int
    bytes: int
    lower_bound: int


def located(arenas: Sequence[Arena], offset: int) -> tuple[str, int]:
    """The name of the region that an offset is in, and where in it."""
    if not arenas:
        return "", offset
    held = (each for each in reversed(arenas) if each.start <= offset and each.bytes)
    found = next(held, arenas[0])
    return found.name, offset - found.start


@dataclass(frozen=True, slots=True)
class Advance:
    """Moves an address by ``bytes`` (may be negative) per iteration of a ``Repeat``."""

    var: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Address:
    """An argument of a call.

    Attributes:
        region: where it is counted from.
        name: of a port, a weight, or a region of several; empty for the one arena and the state.
        offset: bytes from there.
        advances: what surrounding ``Repeat`` loops add.
        part_bytes: what each part of a call that is cut for threads adds (scratch memory,
            of which each has its own).
    """

    region: Region
    name: str
    offset: int = 0
    advances: tuple[Advance, ...] = ()
    part_bytes: int = 0

    def moved(self, offset: int) -> Address:
        """The address so many bytes on."""
        return replace(self, offset=self.offset + offset)


@dataclass(frozen=True, slots=True)
class FormalParameter:
    """A formal parameter of an extern function."""

    name: str
    dtype: DType
    writes: bool


@dataclass(frozen=True, slots=True)
class ExternFunction:
    """A function whose C body is given (``weft.ops.record.ExternBody``)."""

    name: str
    params: tuple[FormalParameter, ...]
    body: str
    stack_bytes: int = 1024
    foreign: Foreign = NOTHING_FOREIGN
    prepare: str = ""


Function: TypeAlias = "Kernel | ExternFunction"


@dataclass(frozen=True, slots=True)
class CallStep:
    """One call.

    Attributes:
        function: name of a function of the program.
        arguments: one address for each parameter, in order.
        comments: what the call stands for: ops with shapes, source nodes, rules.
        parts: into how many parts each stage of the function may be cut at the most, for
            threads (``weft.plan.work``); ``(1,)`` where it is not cut.
    """

    function: str
    arguments: tuple[Address, ...]
    comments: tuple[str, ...] = ()
    parts: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Runs ``body`` ``count`` times (a scan)."""

    var: str
    count: int
    body: tuple[ProgramStep, ...]
    comments: tuple[str, ...] = ()


ProgramStep: TypeAlias = CallStep | Repeat


@dataclass(frozen=True, slots=True)
class Port:
    """A graph input or output as the caller sees it: packed, row-major."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.value}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class State:
    """Memory that an input reads and an output writes: handed from run to run.

    Attributes:
        port: the input as the caller sees it.
        output: name of the output that takes its memory.
        offset: bytes from the start of the state, which the caller owns.
    """

    port: Port
    output: str
    offset: int

    @property
    def bytes(self) -> int:
        """Size of the memory."""
        return prod(self.port.shape) * self.port.dtype.bytes


@dataclass(frozen=True, slots=True)
class Preparation:
    """The second program: makes of parameters what runs read.

    Attributes:
        parameters: in the order in which the caller gives them.
        bytes: that it writes, of the region ``PREPARED``.
        steps: the calls, in order; parameters are inputs.
        arena_bytes: size of its own scratch memory.
        held: parameters that runs read where they lie, and where in ``PREPARED`` their addresses
            are put.
    """

    parameters: tuple[Port, ...]
    bytes: int
    steps: tuple[ProgramStep, ...]
    arena_bytes: int
    held: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, repr=False)
class Program(Shown):
    """What is generated as one C library.

    Attributes:
        name: a C identifier, the prefix of everything public.
        inputs: ports in the order of the run function's parameters; outputs: after them.
        functions: each once; kernels with one signature are shared by many steps.
            ``function_comments`` says for each what it computes.
        steps: the calls, in order.
        weights: packed arrays by name, maybe packed when they are asked for (``LazyWeights``).
        arena_bytes: size of the caller's scratch memory.
        alignment: of the arena and of every buffer in it, in bytes.
        arenas: the regions of that memory; none where it is one.
        threads: how many may be used at once; with one, nothing is cut into parts.
        states: what is handed from run to run; neither among the inputs nor the outputs.
        preparation: what runs before, where parameters are given at run time.
        notes: sentences for the header on what is computed.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    functions: tuple[Function, ...]
    steps: tuple[ProgramStep, ...]
    weights: Mapping[str, np.ndarray]
    arena_bytes: int
    alignment: int = 64
    function_comments: tuple[tuple[str, tuple[str, ...]], ...] = ()
    title: tuple[str, ...] = ()
    threads: int = 1
    states: tuple[State, ...] = ()
    preparation: Preparation | None = None
    arenas: tuple[Arena, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def regions(self) -> tuple[Arena, ...]:
        """The regions of the scratch memory, of which the caller gives a pointer each."""
        return self.arenas or (Arena("", 0, self.arena_bytes, self.arena_bytes),)

    @property
    def all_steps(self) -> tuple[ProgramStep, ...]:
        """The steps of the preparation, then those of a run."""
        return (*(self.preparation.steps if self.preparation else ()), *self.steps)

    @property
    def state_bytes(self) -> int:
        """Size of the memory of all states."""
        return state_bytes(self.states)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        size = weights_bytes(self.weights)
        title = (
            f"Program {self.name}: {several(len(self.steps), 'step')} of "
            f"{several(len(self.functions), 'function')}, {size:,} bytes of weights, "
            f"arena {self.arena_bytes:,} bytes"
        )
        rows = [(port.name, port.dtype.value, str(list(port.shape))) for port in self._ports()]
        return Screen(title, (), ("port", "elements", "shape"), rows)

    def _ports(self) -> tuple[Port, ...]:
        return (*self.inputs, *self.outputs)


def state_bytes(states: Sequence[State]) -> int:
    """Size of the memory of states, which lie in order."""
    return states[-1].offset + states[-1].bytes if states else 0
