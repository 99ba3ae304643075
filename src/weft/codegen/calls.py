"""The calls of a program: addresses as C expressions, and which parameters may overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.codegen.flavours import Dialect
from weft.codegen.naming import STORAGE
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import Access
from weft.plan.program import Address, CallStep, ExternFunction, Function, ProgramStep, Region
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal parameter of a function: its element type and what is done with it."""

    name: str
    dtype: DType
    writes: bool
    span: int
    """Bytes that may be touched from its address on; 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A C function that serves a function of the program.

    Attributes:
        name: its name.
        numbers: what it is told after the addresses, if it serves several.
    """

    name: str
    numbers: tuple[int, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The numbers as C."""
        return list(map(str, self.numbers))


@dataclass(frozen=True, slots=True)
class Base:
    """A pointer that addresses are counted from: its text, element type and constness."""

    text: str
    ctype: str
    const: bool
    shift: int = 0
    """Bytes to add to every offset."""


def formals(function: Function) -> tuple[Formal, ...]:
    """The parameters of a kernel or an extern function."""
    if isinstance(function, ExternFunction):
        return tuple(Formal(each.name, each.dtype, each.writes, 0) for each in function.params)
    return tuple(
        Formal(
            each.name,
            each.dtype,
            each.access is not Access.READ,
            _span(each.shape, each.steps) * each.dtype.bytes,
        )
        for each in function.params
    )


def _span(shape: Sequence[int], steps: Sequence[int]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))


def argument(
    address: Address,
    formal: Formal,
    base: Base,
    variables: Mapping[str, str],
    types: set[str],
    dialect: Dialect,
) -> str:
    """An address as the argument for a parameter; adds the type that it is cast to."""
    if base.const and formal.writes:
        raise InternalError(f"{formal.name} is written, but {address} is read-only")
    ctype, size = STORAGE[formal.dtype], formal.dtype.bytes
    steps = [(variables[each.var], each.bytes) for each in address.advances if each.bytes]
    offset = address.offset + base.shift
    whole = offset % size == 0 and all(step % size == 0 for _, step in steps)
    if base.ctype == ctype and whole:
        return _moved(base.text, offset // size, [(var, step // size) for var, step in steps])
    types.add(ctype)
    cast = f"({dialect.pointer(ctype, const=not formal.writes)})"
    bytewise = base.text
    if base.ctype != "unsigned char":
        bytewise = f"({dialect.pointer('unsigned char', base.const)}){base.text}"
    moved = _moved(bytewise, offset, steps)
    return f"{cast}{base.text}" if moved == bytewise else f"{cast}({moved})"


def _moved(base: str, offset: int, steps: Sequence[tuple[str, int]]) -> str:
    text = base
    if offset:
        text += (
            f" {'+' if offset > 0 else '-'} {abs(offset)}{'L' if abs(offset) > 2**31 - 1 else ''}"
        )
    for var, step in steps:
        text += f" {'+' if step > 0 else '-'} (ptrdiff_t){var} * {abs(step)}"
    return text


def walk_calls(
    steps: Sequence[ProgramStep], counts: Mapping[str, int] | None = None
) -> Iterator[tuple[CallStep, Mapping[str, int]]]:
    """Every call with the counts of the repetitions around it."""
    counts = counts or {}
    for step in steps:
        if isinstance(step, CallStep):
            yield step, counts
        else:
            yield from walk_calls(step.body, {**counts, step.var: step.count})


def aliased_parameters(
    functions: Mapping[str, Function], steps: Sequence[ProgramStep]
) -> dict[str, frozenset[str]]:
    """For each function the parameters that overlap one that is written, in some call."""
    found: dict[str, set[str]] = {name: set() for name in functions}
    for call, counts in walk_calls(steps):
        parameters = formals(functions[call.function])
        places = [
            (each, address.region, address.name, *_reach(address, each, counts, max(call.parts)))
            for each, address in zip(parameters, call.arguments, strict=True)
        ]
        for place, (formal, region, name, low, high) in enumerate(places):
            for other, region2, name2, low2, high2 in places[place + 1 :]:
                if (region, name) != (region2, name2) or not (formal.writes or other.writes):
                    continue
                if low < high2 and low2 < high:
                    found[call.function] |= {formal.name, other.name}
    return {name: frozenset(names) for name, names in found.items()}


def _reach(
    address: Address, formal: Formal, counts: Mapping[str, int], parts: int
) -> tuple[int, int]:
    low = address.offset
    high = low + max(formal.span, 1) + address.part_bytes * (parts - 1)
    for advance in address.advances:
        moved = advance.bytes * (counts[advance.var] - 1)
        low, high = low + min(moved, 0), high + max(moved, 0)
    return low, high


def describe(address: Address, formal: Formal) -> str:
    """``x at arena 128..4224`` for the comment above a call."""
    end = f"..{address.offset + formal.span}" if formal.span else ""
    where = f"{address.region.value} {address.name}".strip()
    if address.region is not Region.ARENA and not address.offset and not address.advances:
        return f"{formal.name}: {where}"
    moves = "".join(
        f" {'-' if each.bytes < 0 else '+'} {abs(each.bytes)}*{each.var}"
        for each in address.advances
    )
    return f"{formal.name}: {where} {address.offset}{end}{moves}"
