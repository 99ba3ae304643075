"""Kernels without functions of their own: the run function makes the calls that they consist of.

A function of nothing but calls of assembly saves registers for them, on top of what these save. If
no other calls of a program are as deep, and it thereby takes a larger share of the RAM than what
it saves of the flash, the run function makes them. What it needs for later calls, it then
keeps in memory that compilers must read anew for each: registers that they keep pointers in have
to be saved, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeAlias

from weft.codegen.calls import walk_calls
from weft.codegen.flavours import Dialect
from weft.codegen.function import stack_of
from weft.codegen.helpers import assembly_stack, helper_uses
from weft.codegen.instruct import PREFIX
from weft.loops.affine import affine
from weft.loops.nodes import Instruct, Kernel, Load
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import walk_stmts
from weft.plan.lazy_weights import weights_bytes
from weft.plan.program import CallStep, Program, ProgramStep, Region
from weft.records import dataclass

_FRAME, _LEAST_FRAME = 24, 16
"""Bytes that a function of two calls takes, and what the run function takes at the least."""
_CALL, _ARGUMENT, _FUNCTION = 4, 4, 8
"""Bytes of code that a call, an argument, and the begin and end of a function take."""


@dataclass(frozen=True, slots=True)
class Window:
    """An operand: the place of a parameter among the kernel's, and bytes from its address on."""

    parameter: int
    offset: int


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A call of an instruction's helper."""

    helper: str
    windows: tuple[Window, ...]


DirectCalls: TypeAlias = tuple[DirectCall, ...]


def direct_calls(kernel: Kernel) -> DirectCalls | None:
    """The calls of instructions that a kernel consists of; nothing where there is more to it."""
    if not _instructions(kernel):  # most kernels; simplifying them costs as much as all the rest
        return None
    found: list[DirectCall] = []
    for stmt in simplify_kernel(kernel).body:
        if not isinstance(stmt, Instruct):
            return None
        windows = [_window(kernel, each) for each in stmt.operands]
        known = tuple(each for each in windows if each is not None)
        if len(known) < len(windows):
            return None
        found.append(DirectCall(_helper(stmt), known))
    return tuple(found) or None


def _instructions(kernel: Kernel) -> list[Instruct]:
    return [each for each in walk_stmts(kernel.body) if isinstance(each, Instruct)]


def _helper(stmt: Instruct) -> str:
    return f"weft_{PREFIX}{stmt.name}"


def _window(kernel: Kernel, load: Load) -> Window | None:
    """Where an operand lies, if that is fixed."""
    offset = 0
    for place, buffer in enumerate(kernel.params):
        if buffer.name != load.buffer:
            continue
        for part, step in zip(load.index, buffer.steps, strict=True):
            form = affine(part)
            if form.terms:
                return None
            offset += form.const * step
        return Window(place, offset * buffer.dtype.bytes)
    return None


def direct_functions(program: Program, flavour: Dialect) -> dict[str, DirectCalls]:
    """The kernels of a program, by name, whose calls the run function makes itself.

    Args:
        program: whose kernels; any that threads share have functions.
        flavour: of the C.
    """
    calls = [call for call, _ in walk_calls(program.all_steps)]
    if any(max(each.parts) > 1 for each in calls) or program.preparation:
        return {}
    used = Counter(each.function for each in calls)
    kernels = [each for each in program.functions if each.name in used]
    found = {
        each.name: made
        for each in kernels
        if isinstance(each, Kernel) and (made := direct_calls(each)) is not None
    }
    if len(kernels) > sum(isinstance(each, Kernel) for each in kernels):
        return {}
    others = [each for each in kernels if isinstance(each, Kernel) and each.name not in found]
    deepest = max((_depth(each, flavour) for each in others), default=0)
    return found if _pays(program, found, used, deepest, flavour) else {}


def _pays(
    program: Program,
    found: Mapping[str, DirectCalls],
    used: Mapping[str, int],
    deepest: int,
    flavour: Dialect,
) -> bool:
    """Whether the share of the RAM that is saved is more than that of the flash that is taken."""
    direct = max(
        (_stack(call.helper, flavour) for calls in found.values() for call in calls), default=0
    )
    saved = min(_FRAME, _FRAME + direct - deepest)
    if not direct or saved <= 0:
        return False
    more = 0
    for name, calls in found.items():
        sizes = [_CALL + _ARGUMENT * len(each.windows) for each in calls]
        whole = _CALL + _ARGUMENT * len({w.parameter for each in calls for w in each.windows})
        more += used[name] * (sum(sizes) - whole) - (sum(sizes) + _FUNCTION)
    ram = program.arena_bytes + _LEAST_FRAME + _FRAME + direct
    flash = weights_bytes(program.weights)
    return saved / ram > (more / flash if flash else inf)


def _depth(kernel: Kernel, flavour: Dialect) -> int:
    """Bytes of the stack that a kernel takes with what it calls."""
    helpers = set(map(_helper, _instructions(kernel)))
    deepest = max((_stack(each, flavour) for each in helpers), default=0)
    return _FRAME + stack_of(kernel.body) + deepest


def _stack(helper: str, flavour: Dialect) -> int:
    """Bytes that a helper's functions in assembly take; 0 if it has none."""
    return max(map(assembly_stack, helper_uses(helper, flavour).helpers), default=0)


def later_ports(steps: Sequence[ProgramStep]) -> frozenset[tuple[Region, str]]:
    """Regions and names of what calls after the first read or write."""
    rest = steps[1:] if steps and isinstance(steps[0], CallStep) else steps
    return frozenset(
        (address.region, address.name) for call, _ in walk_calls(rest) for address in call.arguments
    )
