"""The run function: checks, then the calls in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from weft.cached import cached_property
from weft.codegen.blob import Blob
from weft.codegen.calls import Base, Callee, Formal, argument, describe, walk_calls
from weft.codegen.checks import CHECKED, guard, prepare_checks, run_checks
from weft.codegen.direct import DirectCalls, later_ports
from weft.codegen.flavours import Dialect
from weft.codegen.foreign import preparations
from weft.codegen.fork import ForkTask, TaskKey, task_key
from weft.codegen.interface import Interface, PortName, prepare_signature, run_signature
from weft.codegen.layout import comment, wrap_all
from weft.codegen.literals import storage_of
from weft.codegen.naming import STORAGE, CNames
from weft.codegen.uses import Uses
from weft.errors import InternalError
from weft.loops.nodes import Kernel
from weft.loops.streams import streams
from weft.plan.lazy_weights import LazyWeights
from weft.plan.program import Address, CallStep, Program, ProgramStep, Region, Repeat
from weft.records import dataclass

LEAST_FETCHED, MOST_FETCHED = 1 << 15, 1 << 20
"""Bytes of inputs that are worth a loop and that fit a core's second cache."""
NO_MARKS: Mapping[int, int] = MappingProxyType({})


def stepped_name(interface: Interface) -> str:
    """The run function that tells when each step is done."""
    return f"{interface.function}_steps"


def step_macro(interface: Interface) -> str:
    """What it calls with the number of the step."""
    return f"{interface.prefix}_STEP"


@dataclass(frozen=True)
class _Calls:
    """What is needed to write the calls of a program."""

    program: Program
    interface: Interface
    flavour: Dialect
    blob: Blob | None
    functions: Mapping[str, Callee]
    formals: Mapping[str, tuple[Formal, ...]]
    tasks: Mapping[TaskKey, ForkTask]
    memory: Mapping[str, str]
    data: str
    arguments: str
    kept: str
    made: str
    preparing: bool = False
    direct: Mapping[str, DirectCalls] = field(default_factory=dict[str, DirectCalls])
    held: str = ""
    """The structure of what calls need after the first, in a run function of direct calls."""
    later: frozenset[tuple[Region, str]] = frozenset()
    used: set[str] = field(default_factory=set[str])
    """Variables and types that the calls written so far use."""
    helpers: dict[str, None] = field(default_factory=dict[str, None])
    """Helpers that they call."""

    @cached_property
    def parameters(self) -> dict[str, int]:
        """The place of each parameter."""
        first = self.program.preparation
        return {port.name: place for place, port in enumerate(first.parameters if first else ())}

    def pointers(self) -> tuple[list[str], list[str]]:
        """Declarations of the pointers that the calls written so far use, and statements.

        What is held is set by these, after the arguments were checked.
        """
        given, const = self.interface, "" if self.preparing else "const "
        lines: list[str] = []
        sets: list[str] = []
        arenas = {each.arena.name: each.name for each in given.arenas}
        if self.preparing:
            arenas = {"": given.arena}
        for name, value, kind in (
            *((self.memory[name], value, "") for name, value in arenas.items()),
            (self.kept, given.state, ""),
            (self.data, given.weights, "const "),
            (self.made, given.prepared, const),
        ):
            if value and name in self.used:
                bytes = f"{kind}unsigned char *"
                constant = "" if self.held else f"const {name} = ({bytes}){value}"
                lines.append(f"    {bytes}{constant or name};")
                sets.append(f"    {self.held}.{name} = ({bytes}){value};")
        if not self.held:
            return lines, []
        for each in given.ports:
            if f"{self.held}.{each.name}" in self.used:
                const = "const " if each in given.inputs else ""
                lines.append(f"    {const}{STORAGE[each.port.dtype]} *{each.name};")
                sets.append(f"    {self.held}.{each.name} = {each.name};")
        told = "Kept in memory: registers that compilers keep it in would be saved there, too."
        lines = [*comment([told], "    "), "    volatile struct {", *map("    {}".format, lines)]
        return ([*lines, f"    }} {self.held};"], sets) if sets else ([], [])

    def pointer(self, name: str) -> str:
        """A pointer that is declared, as calls name it."""
        self.used.add(name)
        return f"{self.held}.{name}" if self.held else name

    def moved_made(self, offset: int) -> str:
        """A place in the memory that is prepared."""
        made = self.pointer(self.made)
        return f"({made} + {offset})" if offset else made

    def holds(self) -> list[str]:
        """Notes the addresses of the parameters that runs read where they lie."""
        first = self.program.preparation
        if first is None:
            return []
        return [
            f"    *(const void **){self.moved_made(offset)} = "
            f"{self.interface.parameters}[{self.parameters[name]}];"
            for name, offset in first.held.items()
        ]

    def port(self, ports: Sequence[PortName], address: Address, const: bool) -> Base:
        """The base of an input or output."""
        for each in ports:
            if each.port.name == address.name:
                later = self.held and (address.region, address.name) in self.later
                text = self.pointer(each.name) if later else each.name
                self.used.add(text)
                return Base(text, STORAGE[each.port.dtype], const)
        raise InternalError(f"an address names the port {address.name}, which the program has not")

    def base(self, address: Address) -> Base:
        """The pointer that an address is counted from."""
        match address.region:
            case Region.ARENA:
                return Base(self.pointer(self.memory[address.name]), "unsigned char", const=False)
            case Region.STATE:
                return Base(self.pointer(self.kept), "unsigned char", const=False)
            case Region.PREPARED:
                return Base(self.pointer(self.made), "unsigned char", const=not self.preparing)
            case Region.HELD:
                first = self.program.preparation
                assert first is not None
                place = self.moved_made(first.held[address.name])
                return Base(f"*(const void *const *){place}", "void", const=True)
            case Region.INPUT if self.preparing:
                place = self.parameters[address.name]
                return Base(f"{self.interface.parameters}[{place}]", "void", const=True)
            case Region.WEIGHTS if self.blob is not None:
                shift = self.blob.offsets[address.name]
                return Base(self.pointer(self.data), "unsigned char", const=True, shift=shift)
            case Region.WEIGHTS:
                weights = LazyWeights.of(self.program.weights)
                ctype = storage_of(weights.arrays[address.name].dtype)
                return Base(self.interface.arrays[address.name], ctype, const=True)
            case Region.INPUT:
                return self.port(self.interface.inputs, address, const=True)
            case Region.OUTPUT:
                return self.port(self.interface.outputs, address, const=False)


@dataclass(frozen=True)
class Runs:
    """What the functions that run steps are written with.

    Attributes:
        program: what is run; interface: its public names; flavour: of the C.
        blob: the weights if they are no arrays in the sources.
        functions: what serves the program's functions; formals: their parameters.
        tasks: what threads call.
        direct: kernels without functions, whose calls are made here.
    """

    program: Program
    interface: Interface
    flavour: Dialect
    blob: Blob | None
    functions: Mapping[str, Callee]
    formals: Mapping[str, tuple[Formal, ...]]
    tasks: Mapping[TaskKey, ForkTask]
    direct: Mapping[str, DirectCalls] = field(default_factory=dict[str, DirectCalls])

    def run(self) -> tuple[list[str], Uses]:
        """The definition of the run function, and what it and the tasks use."""
        interface, program = self.interface, self.program
        checks = run_checks(interface, self.blob)
        if interface.open:
            checks += guard(f"{interface.open}() != 0", f"{interface.prefix}_UNPREPARED")
        return self._written(run_signature(interface), program.steps, checks)

    def stepped(self, ends: Sequence[int]) -> list[str]:
        """The run function under another name, with a macro after each step of the plan.

        Args:
            ends: for each step of the plan, the number of calls and loops up to its end.
        """
        interface = self.interface
        named = replace(interface, function=stepped_name(interface))
        marks = {end: number for number, end in enumerate(ends)}
        checks = run_checks(named, self.blob)
        lines, _ = self._written(run_signature(named), self.program.steps, checks, marks=marks)
        return lines

    def prepare(self) -> tuple[list[str], Uses]:
        """The definition of the function that prepares weights, if there is one."""
        first, interface = self.program.preparation, self.interface
        if first is None:
            return [], Uses()
        checks = prepare_checks(self.program, first, interface, self.blob)
        lines, uses = self._written(prepare_signature(interface), first.steps, checks, True)
        return [*lines, ""], uses

    def _written(
        self,
        signature: str,
        steps: Sequence[ProgramStep],
        checks: list[str],
        preparing: bool = False,
        marks: Mapping[int, int] = NO_MARKS,
    ) -> tuple[list[str], Uses]:
        interface, flavour, tasks = self.interface, self.flavour, self.tasks
        taken = CNames(
            [
                *(each.name for each in interface.ports),
                *interface.arrays.values(),
                *(each.name for each in self.functions.values()),
                *(each.name for each in interface.arenas),
                *(interface.arena, interface.weights, interface.threads, interface.state),
                *(interface.prepared, interface.parameters, *CHECKED),
                *(name for task in tasks.values() for name in (task.name, task.struct)),
            ]
        )
        memory = {"": taken.fresh("memory")}
        memory |= {
            name: taken.fresh(f"memory_{name}")
            for each in interface.arenas
            if (name := each.arena.name)
        }
        data, arguments, kept, made = map(taken.fresh, ("data", "arguments", "kept", "made"))
        held = taken.fresh("held") if self.direct and not preparing else ""
        calls = _Calls(
            self.program, interface, flavour, self.blob, self.functions, self.formals, tasks,
            memory, data, arguments, kept, made, preparing,
            self.direct, held, later_ports(steps),
        )  # fmt: skip
        variables = {var: taken.fresh(var) for var in _repeat_variables(steps)}
        body = wrap_all(calls.holds()) if preparing else []
        for end, step in enumerate(steps, 1):
            body += _steps(calls, [step], variables, 1)
            if end in marks:
                body.append(f"    {step_macro(interface)}({marks[end]});")
        fetches = [] if preparing else _fetches(calls, steps)
        declared, sets = calls.pointers()
        lines = [*wrap_all([signature]), "{", *declared]
        if not flavour.loop_declarations and variables:
            lines.append(f"    int {', '.join(variables.values())};")
        cut = any(max(call.parts) > 1 for call, _ in walk_calls(steps))
        unused = [f"    (void){interface.threads};"] if interface.threads and not cut else []
        lines += [*checks, *unused, *sets, *fetches, *body, "    return 0;", "}"]
        shown = [each.port.dtype for each in interface.ports]
        shown += [each.dtype for task in tasks.values() for each in task.formals]
        helpers = (*(["weft_fork"] if cut else []), *(["weft_fetch"] if fetches else []))
        helpers += tuple(calls.helpers)
        used = frozenset(calls.used).union(STORAGE[dtype] for dtype in shown)
        return lines, Uses(used, helpers)


def open_function(program: Program, interface: Interface) -> list[str]:
    """The definition of the function that prepares libraries, if there are any."""
    names = preparations(program)
    if not names:
        return []
    lines = [f"int {interface.open}(void)", "{"]
    lines += [f"    extern int {name}(void);" for name in names]
    lines += guard(
        " || ".join(f"{name}() != 0" for name in names), f"{interface.prefix}_UNPREPARED"
    )
    return [*lines, "    return 0;", "}", ""]


def _repeat_variables(steps: Sequence[ProgramStep]) -> list[str]:
    found: list[str] = []
    for step in steps:
        if isinstance(step, Repeat):
            found += step.var, *_repeat_variables(step.body)
    return list(dict.fromkeys(found))


def _steps(
    calls: _Calls, steps: Sequence[ProgramStep], variables: Mapping[str, str], depth: int
) -> list[str]:
    indent = "    " * depth
    lines: list[str] = []
    for step in steps:
        if isinstance(step, CallStep):
            lines += _call(calls, step, variables, indent)
            continue
        name = variables[step.var]
        declared = "int " if calls.flavour.loop_declarations else ""
        lines += comment(step.comments, indent)
        lines.append(f"{indent}for ({declared}{name} = 0; {name} < {step.count}; ++{name}) {{")
        lines += _steps(calls, step.body, variables, depth + 1)
        lines.append(f"{indent}}}")
    return lines


def _fetches(calls: _Calls, steps: Sequence[ProgramStep]) -> list[str]:
    """Fetches the inputs of the first call: few loads of a kernel wait for memory at once.

    Most kernels walk over their input in rows that are too short for processors to foresee;
    what was written long before the call, or by another core, would be waited for in each.
    """
    if not calls.flavour.prefetches or not steps or not isinstance(steps[0], CallStep):
        return []
    function = steps[0].function
    formals = calls.formals[function]
    pairs = zip(steps[0].arguments, formals, strict=True)
    kernels = (each for each in calls.program.functions if isinstance(each, Kernel))
    kernel = next((each for each in kernels if each.name == function), None)
    spans = {
        argument(address, formal, calls.base(address), {}, calls.used, calls.flavour): formal.span
        for address, formal in pairs
        if address.region is Region.INPUT and not address.advances
        if not (kernel and streams(kernel, formal.name))
    }
    if not LEAST_FETCHED <= sum(spans.values()) <= MOST_FETCHED:
        return []
    return wrap_all([f"    weft_fetch({text}, {span});" for text, span in spans.items()])


def _call(calls: _Calls, step: CallStep, variables: Mapping[str, str], indent: str) -> list[str]:
    parameters = calls.formals[step.function]
    if len(parameters) != len(step.arguments):
        raise InternalError(
            f"{step.function} has {len(parameters)} parameters, a call has {len(step.arguments)}"
        )
    pairs = list(zip(step.arguments, parameters, strict=True))
    places = "; ".join(describe(address, formal) for address, formal in pairs)
    direct = calls.direct.get(step.function)
    if direct is not None:
        told = dict(calls.program.function_comments).get(step.function, ())[:1]
        lines = comment([*told, *step.comments, places], indent)
        return [*lines, *_direct(calls, step, direct, variables, indent)]
    lines = comment([*step.comments, places], indent)
    texts = [
        argument(address, formal, calls.base(address), variables, calls.used, calls.flavour)
        for address, formal in pairs
    ]
    if max(step.parts) > 1:
        task = calls.tasks[task_key(step)]
        block = task.call(calls.arguments, calls.interface.threads, step.parts, texts)
        return [*lines, *wrap_all(f"{indent}{line}" for line in block)]
    callee = calls.functions[step.function]
    texts += callee.arguments
    for (function, _), task in calls.tasks.items():
        if function == step.function:
            texts += task.whole
            break
    arguments = ", ".join(texts)
    call = calls.flavour.text("launch", name=callee.name, arguments=arguments)
    return [*lines, *wrap_all([indent + call])]


def _direct(
    calls: _Calls,
    step: CallStep,
    made: DirectCalls,
    variables: Mapping[str, str],
    indent: str,
) -> list[str]:
    """The calls that a kernel without a function consists of."""
    lines: list[str] = []
    for call in made:
        texts: list[str] = []
        for window in call.windows:
            formal = calls.formals[step.function][window.parameter]
            address = step.arguments[window.parameter].moved(window.offset)
            base = calls.base(address)
            texts.append(argument(address, formal, base, variables, calls.used, calls.flavour))
        calls.helpers[call.helper] = None
        text = calls.flavour.text("launch", name=call.helper, arguments=", ".join(texts))
        lines += wrap_all([indent + text])
    return lines
