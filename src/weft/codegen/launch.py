"""Programs for devices: one kernel, which a host launches once for each step.

Where C has a run function that makes all calls, a device has a kernel that makes the call of the
step that it is told.  Parts of a call, which threads run on a processor, are work-items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.codegen.blob import Blob, pack
from weft.codegen.calls import Base, argument, formals, walk_calls
from weft.codegen.flavours import Dialect
from weft.codegen.layout import comment, wrap_all
from weft.codegen.naming import CNames
from weft.codegen.source import source_text
from weft.codegen.unit import units_of
from weft.codegen.uses import Uses, together
from weft.errors import InternalError
from weft.plan.program import (
    Address,
    Advance,
    CallStep,
    ExternFunction,
    Program,
    ProgramStep,
    Region,
)
from weft.records import dataclass

_PART = "part"
_CONSTANT = (Region.INPUT, Region.WEIGHTS)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a program's kernel; it waits for the one before.

    Attributes:
        numbers: the first arguments, ``int``: the step, and the variables of the repetitions.
        items: work-items in one dimension.
    """

    numbers: tuple[int, ...]
    items: int


@dataclass(frozen=True)
class DeviceProgram:
    """A program in a dialect whose kernels are launched by a host.

    Attributes:
        source: its text.
        kernel: name of the kernel.
        memory: region and name of its other arguments, each a buffer of bytes: of the inputs
            and outputs, then the arena's regions, the state and the weights where there are such.
        weights: the bytes of the weights.
        launches: that make a run, in order.
    """

    source: str
    kernel: str
    memory: tuple[tuple[Region, str], ...]
    weights: Blob
    launches: tuple[Launch, ...]


def device_program(program: Program, dialect: Dialect) -> DeviceProgram:
    """A program in a dialect whose kernels are launched.

    Args:
        program: of kernels; its calls may be cut into parts.
        dialect: with texts for ``kernel``, ``part`` and ``parts``.
    """
    if any(isinstance(each, ExternFunction) for each in program.functions):
        raise InternalError(f"C that was given cannot be part of a program in {dialect.name}")
    names = CNames([f"{program.name}_run"])
    units = list(units_of(program, names, dialect, f"{program.name}_", f"static {dialect.apart}"))
    kernel = _Kernel(program, dialect, {unit.key: unit.name for unit in units})
    body = [line for unit in units for line in [*unit.lines, ""]]
    lines = kernel.lines()
    uses = together([*(unit.uses for unit in units), Uses(frozenset(kernel.types))])
    return DeviceProgram(
        source_text(program.title, dialect, [*body, *lines], uses),
        kernel.name,
        tuple(kernel.pointers),
        kernel.blob,
        tuple(kernel.launches(program.steps, {})),
    )


class _Kernel:
    """The kernel of a program, which makes one call."""

    def __init__(self, program: Program, dialect: Dialect, functions: Mapping[str, str]) -> None:
        self._dialect, self._functions = dialect, functions
        self.name = f"{program.name}_run"
        self.blob = pack(program.weights, program.alignment)
        self.types: set[str] = set()
        self._formals = {each.name: formals(each) for each in program.functions}
        calls = [(call, counts) for call, counts in walk_calls(program.steps)]
        names = CNames([*functions.values(), self.name, *dialect.reserved])
        self._step, self._part, self._parts = map(names.fresh, ("step", _PART, "parts"))
        self._variables = {var: names.fresh(var) for _, counts in calls for var in counts}
        self.pointers: dict[tuple[Region, str], str] = {}
        for region, ports in ((Region.INPUT, program.inputs), (Region.OUTPUT, program.outputs)):
            self.pointers |= {(region, port.name): names.fresh(port.name) for port in ports}
        for region, name, size in (
            *((Region.ARENA, each.name, each.bytes) for each in program.regions),
            (Region.STATE, "", program.state_bytes),
            (Region.WEIGHTS, "", self.blob.size),
        ):
            if size:
                self.pointers[region, name] = names.fresh(f"{region.value}_{name}".rstrip("_"))
        self._cut = {call.function for call, _ in calls if max(call.parts) > 1}
        # Calls with equal texts are one case; each stage of a call that is cut is its own.
        self._cases: dict[tuple[CallStep, int], int] = {}
        for call, _ in calls:
            for stage in range(len(call.parts)):
                self._cases.setdefault((call, stage), len(self._cases))

    def launches(self, steps: Sequence[ProgramStep], at: Mapping[str, int]) -> Iterator[Launch]:
        """Launches of steps where variables have these values."""
        values = tuple(at.get(var, 0) for var in self._variables)
        for step in steps:
            if isinstance(step, CallStep):
                for stage, items in enumerate(step.parts):
                    yield Launch((self._cases[step, stage], *values), items)
            else:
                for turn in range(step.count):
                    yield from self.launches(step.body, {**at, step.var: turn})

    def lines(self) -> list[str]:
        """The definition."""
        parameters = [f"const int {name}" for name in (self._step, *self._variables.values())]
        for (region, _), name in self.pointers.items():
            pointer = self._dialect.pointer("unsigned char", region in _CONSTANT)
            parameters.append(f"{pointer}const {name}")
        text = self._dialect.text("kernel", name=self.name, parameters=", ".join(parameters))
        lines = [text, "{"]
        for name in ("part", "parts"):
            own = self._part if name == "part" else self._parts
            lines.append(f"    const int {own} = {self._dialect.text(name)};")
        lines.append(f"    switch ({self._step}) {{")
        for (call, stage), number in self._cases.items():
            lines += [f"    case {number}:", *comment(call.comments, "        ")]
            lines += [f"        {self._call(call, stage)}", "        break;"]
        return [*wrap_all(lines), "    default:", "        break;", "    }", "}"]

    def _call(self, call: CallStep, stage: int) -> str:
        pairs = zip(call.arguments, self._formals[call.function], strict=True)
        variables = {**self._variables, _PART: self._part}
        texts = [
            argument(
                replace(each, advances=(*each.advances, Advance(_PART, each.part_bytes))),
                formal,
                self._base(each),
                variables,
                self.types,
                self._dialect,
            )
            for each, formal in pairs
        ]
        if call.function in self._cut:
            texts += [self._part, self._parts]
            texts += [str(1 << stage)] if len(call.parts) > 1 else []
        name = self._functions[call.function]
        return self._dialect.text("launch", name=name, arguments=", ".join(texts))

    def _base(self, address: Address) -> Base:
        weight = address.region is Region.WEIGHTS
        name, shift = ("", self.blob.offsets[address.name]) if weight else (address.name, 0)
        # Values without elements lie in memory of no size, which no kernel is given or reads.
        pointer = self.pointers.get((address.region, name), "0")
        return Base(pointer, "unsigned char", address.region in _CONSTANT, shift)
