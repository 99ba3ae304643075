"""Programs as C files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from weft.cached import cached_property
from weft.codegen.blob import Blob, pack
from weft.codegen.calls import formals, walk_calls
from weft.codegen.direct import direct_functions
from weft.codegen.flavours import APART, Dialect, flavour_named
from weft.codegen.foreign import foreign_of
from weft.codegen.fork import tasks_of
from weft.codegen.interface import Interface, header_text, interface_of, stack_lines
from weft.codegen.layout import comment, includes, wrap_all
from weft.codegen.literals import array_lines, array_names, storage_of
from weft.codegen.naming import STORAGE, CNames
from weft.codegen.run import Runs, open_function
from weft.codegen.source import source_text
from weft.codegen.stack import CallGraph, Stack, call_graph, estimate
from weft.codegen.state import reset_function
from weft.codegen.unit import Unit, callees, units_of
from weft.codegen.uses import Uses, together
from weft.errors import InternalError
from weft.ir.foreign import NOTHING_FOREIGN, Foreign
from weft.plan.lazy_weights import LazyWeights
from weft.plan.program import Program, Region
from weft.records import dataclass
from weft.screen import Screen, Shown

# A compiler takes about 50 MB for a source of this length, and starts in a tenth of the time that
# it takes for one.
_SOURCE_CHARACTERS = 1 << 16
# Of C for a byte of code: 1 to 6 among the networks of `bench.stack`, compilers and levels.
_CHARACTERS = 2

Early: TypeAlias = Callable[[str, str], object]
"""Takes the name and the text of a source."""


@dataclass(frozen=True, repr=False)
class Files(Shown):
    """Generated C.

    Attributes:
        name: the program's name.
        flavour: the dialect.
        header: name and text of the public header.
        sources: names and texts of the sources.
        private: names and texts of headers that only the sources include.
        blob: the weights if they are no arrays in the sources.
        stack: what a run takes of the stack.
        calls: the functions with what they call.
        interface: the public names.
        code_bytes: an estimate of what compilers make of the functions.
        threads: that one run can use at the most.
        foreign: sources and libraries that Weft did not write.
        stepped: for tests, the run function with a macro after each step, if it was asked for;
            to be compiled after the first source.
        notes: sentences on what is computed: how quantized layers round.
    """

    name: str
    flavour: Dialect
    header: tuple[str, str]
    sources: tuple[tuple[str, str], ...]
    private: tuple[tuple[str, str], ...]
    blob: Blob | None
    stack: Stack
    calls: CallGraph
    interface: Interface
    code_bytes: int
    threads: int = 1
    foreign: Foreign = NOTHING_FOREIGN
    stepped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def stack_bytes(self) -> int:
        """Bytes of the stack that a run takes, by ``stack``."""
        return self.stack.bytes

    def with_stack(self, stack: Stack) -> Files:
        """The same with another figure for the stack, in the header, too."""
        old, new = (
            "\n".join(stack_lines(self.interface, each)) + "\n" for each in (self.stack, stack)
        )
        name, text = self.header
        return replace(self, header=(name, text.replace(old, new, 1)), stack=stack)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        pairs = [self.header, *self.private, *self.sources]
        rows = [(name, f"{text.count(chr(10)):,}") for name, text in pairs]
        title = f"Files of {self.name} in {self.flavour.name}, run by {self.interface.function}"
        return Screen(title, (), ("file", "lines"), rows, (1,))


def emit(
    program: Program,
    flavour: str | Dialect = "gnu",
    weights: str = "arrays",
    parts: int = 1,
    ends: Sequence[int] = (),
    early: Early | None = None,
    share: bool = False,
) -> Files:
    """Writes a program as C.

    Args:
        program: what to write.
        flavour: ``c89``, ``c99`` or ``gnu``.
        weights: ``arrays`` puts them into the source as constants; with ``blob`` the
            caller passes a pointer to ``Files.blob``'s bytes.
        parts: how many sources the functions are spread over; 0 is one for each function.
        ends: for ``Files.stepped``: the number of calls and loops up to the end of each step.
        early: gets each source of functions as soon as it is written, where there are several,
            and then they are as many as make compilers need little memory.
        share: whether kernels that differ in numbers only become one function.

    Returns:
        The files; the same program gives the same bytes.
    """
    if isinstance(flavour, str):
        flavour = flavour_named(flavour)
    if weights not in ("arrays", "blob"):
        raise InternalError(f"weights are emitted as arrays or blob, not as {weights!r}")
    return _Emission(program, flavour, weights == "blob", parts, early, share).files(ends)


class _Emission:
    """One run of ``emit``."""

    def __init__(
        self,
        program: Program,
        flavour: Dialect,
        blob: bool,
        parts: int,
        early: Early | None,
        share: bool,
    ) -> None:
        self._program, self._flavour, self._parts = program, flavour, parts
        self._weights = _used_weights(program)
        blob = blob and not (program.preparation and not self._weights)
        self._blob = pack(self._weights, program.alignment) if blob else None
        self._formals = {each.name: formals(each) for each in program.functions}
        names = CNames([f"{program.name}_{word}" for word in ("run", "open", "prepare", "reset")])
        split = parts != 1
        prefix = f"{program.name}_" if split else ""
        linkage = "" if split else f"static {flavour.apart}"
        self._early: list[tuple[str, str]] = []
        self._direct = direct_functions(program, flavour)
        units = units_of(program, names, flavour, prefix, linkage, self._direct, share)
        self._units = list(units if early is None or not split else self._sent(units, early))
        self._functions = functions = callees(self._units)
        self._tasks = tasks_of(program, functions, self._formals, names)
        held = list(self._weights)
        self._interface = interface_of(program, self._blob, names.taken, held, prefix)
        self._header = f"{program.name}.h"
        self._private = f"{program.name}_private.h"

    def files(self, ends: Sequence[int]) -> Files:
        """Everything."""
        (run, uses), tasks = self._run(), self._tasks.values()
        calls = call_graph(self._units, tasks, (self._interface.function, uses), self._flavour)
        stack = estimate(self._units, tasks, calls, self._flavour.vectors)
        header = header_text(self._program, self._interface, self._flavour, self._blob, stack)
        single = self._parts == 1
        sources = (self._single(run, uses),) if single else tuple(self._split(run, uses))
        private = () if single else ((self._private, self._private_header()),)
        return Files(
            self._program.name,
            self._flavour,
            (self._header, header),
            sources,
            private,
            self._blob,
            stack,
            calls,
            self._interface,
            sum(map(len, [*self._definitions(self._units), *run])) // _CHARACTERS,
            self._program.threads,
            foreign_of(self._program, {name for name, _ in (*private, *sources)}),
            "\n".join([*self._runs.stepped(ends), ""]) if ends else "",
            self._program.notes,
        )

    # --- sources ------------------------------------------------------------------------------

    def _single(self, run: list[str], uses: Uses) -> tuple[str, str]:
        body = [*self._definitions(self._units), *run]
        uses = together([*map(self._uses, self._units), uses, self._array_uses])
        arrays = self._arrays("static const ")
        text = self._source(body, uses, self._header, arrays=arrays)
        return f"{self._program.name}.c", text

    def _split(self, run: list[str], uses: Uses) -> list[tuple[str, str]]:
        name = self._program.name
        sources = [(f"{name}.c", self._source(run, uses, self._header, self._private))]
        arrays = self._arrays("const ")
        if arrays:
            text = self._source([], self._array_uses, self._private, arrays=arrays)
            sources.append((f"{name}_weights.c", text))
        if self._early:
            return [*sources, *self._early]
        groups = [[unit] for unit in self._units]
        if self._parts > 1:
            groups = _balanced(self._units, self._parts)
        for number, group in enumerate(groups):
            label = group[0].name if self._parts == 0 else f"{name}_{number + 1}"
            uses = together(map(self._uses, group))
            text = self._source(self._definitions(group), uses, self._private)
            sources.append((f"{label}.c", text))
        return sources

    def _sent(self, units: Iterable[Unit], early: Early) -> Iterator[Unit]:
        """The functions, while the sources that they fill are sent off.

        These do without the header of all functions, which is not complete yet.
        """
        group: list[Unit] = []
        for unit in units:
            yield unit
            group.append(unit)
            if sum(len(line) for each in group for line in each.lines) >= _SOURCE_CHARACTERS:
                self._send(group, early)
                group = []
        if group:
            self._send(group, early)

    def _send(self, group: Sequence[Unit], early: Early) -> None:
        name = f"{self._program.name}_{len(self._early) + 1}.c"
        text = self._source(self._definitions(group), together(map(self._uses, group)))
        self._early.append((name, text))
        early(name, text)

    def _source(
        self,
        body: Sequence[str],
        uses: Uses,
        *headers: str,
        arrays: Sequence[str] = (),
    ) -> str:
        return source_text(self._program.title, self._flavour, body, uses, headers, arrays)

    def _definitions(self, units: Sequence[Unit]) -> list[str]:
        return [line for unit in units for line in [*unit.lines, ""]]

    def _uses(self, unit: Unit) -> Uses:
        """What a function uses, with what keeps it apart from those that call it."""
        apart = self._flavour.apart.startswith(APART) and (self._parts == 1 or unit.stages)
        return Uses(unit.uses.names, (*unit.uses.helpers, *([APART] if apart else [])))

    @cached_property
    def _array_uses(self) -> Uses:
        """What the arrays of weights use."""
        arrays = () if self._blob is not None else self._weights.values()
        return Uses(array_names(arrays, self._flavour))

    @cached_property
    def _runs(self) -> Runs:
        return Runs(
            self._program,
            self._interface,
            self._flavour,
            self._blob,
            self._functions,
            self._formals,
            self._tasks,
            self._direct,
        )

    def _run(self) -> tuple[list[str], Uses]:
        (run, uses), (prepare, more) = self._runs.run(), self._runs.prepare()
        opened = open_function(self._program, self._interface)
        tasks = [line for task in self._tasks.values() for line in task.definition()]
        reset = reset_function(self._interface.reset, self._interface.prefix)
        return [*tasks, *reset, *opened, *prepare, *run], together([uses, more])

    def _arrays(self, linkage: str) -> list[str]:
        if self._blob is not None:
            return []
        section = f"{self._interface.prefix}_WEIGHTS_SECTION"
        lines: list[str] = []
        if self._weights:
            example = f"-D{section}='__attribute__((section(\"NAME\")))'"
            lines += comment([f"Where the linker puts the weights: {example}."])
            lines += [f"#ifndef {section}", f"#define {section}", "#endif", ""]
        for name, array in self._weights.items():
            shape = ",".join(map(str, array.shape))
            lines += comment([f"{name} [{shape}]"])
            lines.append(f"{linkage}{self._declared(name, array)} {section} = {{")
            lines += array_lines(array, self._flavour)
            lines += ["};", ""]
        return lines

    def _declared(self, name: str, array: np.ndarray) -> str:
        return f"{storage_of(array.dtype)} {self._interface.arrays[name]}[{max(1, array.size)}]"

    def _private_header(self) -> str:
        guard = f"{self._interface.prefix}_PRIVATE_H"
        declared = [line for unit in self._units for line in wrap_all([f"{unit.signature};"])]
        if self._blob is None:
            declared += [
                f"extern const {self._declared(name, array)};"
                for name, array in self._weights.items()
            ]
        names = {STORAGE[each.dtype] for unit in self._units for each in self._formals[unit.key]}
        types = includes(names | self._array_uses.names, self._flavour)
        head = comment([*self._program.title, "Generated by Weft. Do not edit."])
        lines = [*head, f"#ifndef {guard}", f"#define {guard}", "", *types, "", *declared, ""]
        return "\n".join([*lines, "#endif", ""])


def _used_weights(program: Program) -> LazyWeights:
    """The weights that some call reads, in the program's order."""
    read = {
        address.name
        for call, _ in walk_calls(program.all_steps)
        for address in call.arguments
        if address.region is Region.WEIGHTS
    }
    missing = read - set(program.weights)
    if missing:
        raise InternalError(f"calls read weights that do not exist: {', '.join(sorted(missing))}")
    return LazyWeights.of(program.weights).only(name for name in program.weights if name in read)


def _balanced(units: Sequence[Unit], parts: int) -> list[list[Unit]]:
    """The functions in at most ``parts`` groups of about the same length of text."""
    groups: list[list[Unit]] = [[] for _ in range(min(parts, len(units)))]
    sizes = [0] * len(groups)
    for unit in sorted(units, key=lambda each: -len(each.lines)):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(unit)
        sizes[smallest] += len(unit.lines)
    return groups
