"""The public names of a generated library and its header."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from weft.codegen.blob import Blob
from weft.codegen.flavours import Dialect
from weft.codegen.foreign import preparations
from weft.codegen.fork import THREADS_TYPE
from weft.codegen.layout import comment, integer_types, wrap_all
from weft.codegen.naming import STORAGE, CNames, identifier
from weft.codegen.stack import Stack
from weft.codegen.state import reset_declaration, state_constants
from weft.plan.program import Arena, Port, Program
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class PortName:
    """A port and the C name of its parameter."""

    port: Port
    name: str


@dataclass(frozen=True, slots=True)
class ArenaName:
    """A region of the scratch memory, the C name of its parameter and that of its size.

    Where there is one region, it has no name: ``arena`` and ``PREFIX_ARENA_BYTES``.
    """

    arena: Arena
    name: str
    size: str


@dataclass(frozen=True)
class Interface:
    """Names that the generated library gives to things.

    Attributes:
        function: the run function.
        prefix: of the constants.
        inputs: parameters for the inputs; outputs: for the outputs.
        arenas: parameters for the scratch memory of a run, one for each region.
        arena: the parameter for that of a preparation.
        weights: the parameter for the weights, empty if they are in the source.
        threads: the parameter for the caller's threads, empty if one is all it runs on.
        open: the function that prepares libraries, empty if none is called.
        arrays: C names of the weight arrays by name.
        state: the parameter for the state, empty if there is none.
        reset: the function that clears the state, empty if there is none.
        prepare: the function that makes weights of parameters, empty if there are none.
        prepared: the parameter for those weights; parameters: that for the parameters.
    """

    function: str
    prefix: str
    inputs: tuple[PortName, ...]
    outputs: tuple[PortName, ...]
    arenas: tuple[ArenaName, ...]
    arena: str
    weights: str
    threads: str
    open: str
    arrays: dict[str, str]
    state: str = ""
    reset: str = ""
    prepare: str = ""
    prepared: str = ""
    parameters: str = ""

    @property
    def ports(self) -> tuple[PortName, ...]:
        """Inputs and outputs."""
        return (*self.inputs, *self.outputs)


def interface_of(
    program: Program,
    blob: Blob | None,
    functions: Collection[str],
    weights: Sequence[str],
    shared: str = "",
) -> Interface:
    """Picks the public names, each unlike all others.

    Args:
        program: whose names they are.
        blob: the weights if they are no arrays in the sources.
        functions: names of functions.
        weights: names of the weights.
        shared: what names begin with that several sources, and so the linker, share.
    """
    opened = f"{program.name}_open" if preparations(program) else ""
    reset = f"{program.name}_reset" if program.states else ""
    prepare = f"{program.name}_prepare" if program.preparation else ""
    names = CNames([*functions, f"{program.name}_run", opened, prepare, reset])
    arena = names.fresh("arena")
    arenas = tuple(_arena_names(program, arena, names))
    state = names.fresh("state") if program.states else ""
    data = names.fresh("weights") if blob is not None else ""
    prepared = names.fresh("prepared") if prepare else ""
    parameters = names.fresh("parameters") if prepare else ""
    threads = names.fresh("threads") if program.threads > 1 else ""
    prefix = program.name.upper()

    def named(port: Port) -> PortName:
        # The header's macros have names with this prefix.
        own = identifier(port.name).startswith(f"{prefix}_")
        return PortName(port, names.fresh(f"value_{port.name}" if own else port.name))

    inputs, outputs = tuple(map(named, program.inputs)), tuple(map(named, program.outputs))
    arrays = (
        {} if blob is not None else {each: names.fresh(f"{shared}w_{each}") for each in weights}
    )
    return Interface(
        f"{program.name}_run",
        prefix,
        inputs,
        outputs,
        arenas,
        arena,
        data,
        threads,
        opened,
        arrays,
        state,
        reset,
        prepare,
        prepared,
        parameters,
    )


def _arena_names(program: Program, arena: str, names: CNames) -> Iterator[ArenaName]:
    for each in program.regions:
        prefix = f"{program.name}_ARENA".upper()
        if each.name:
            name = names.fresh(f"{arena}_{each.name.lower()}")
            yield ArenaName(each, name, f"{prefix}_{each.name.upper()}_BYTES")
        else:
            yield ArenaName(each, arena, f"{prefix}_BYTES")


def run_parameters(interface: Interface) -> list[tuple[str, str]]:
    """Types and names of the run function's parameters."""
    found = [(f"const {STORAGE[each.port.dtype]} *", each.name) for each in interface.inputs]
    found += [(f"{STORAGE[each.port.dtype]} *", each.name) for each in interface.outputs]
    found += [("void *", each.name) for each in interface.arenas]
    if interface.state:
        found.append(("void *", interface.state))
    if interface.weights:
        found.append(("const void *", interface.weights))
    if interface.prepared:
        found.append(("const void *", interface.prepared))
    if interface.threads:
        found.append(("const weft_threads *", interface.threads))
    return found


def prepare_constants(program: Program) -> list[tuple[str, int, str]]:
    """Names, values and explanations of the constants of the preparation."""
    first, prefix = program.preparation, program.name.upper()
    if first is None:
        return []
    return [
        (f"{prefix}_PARAMETERS", len(first.parameters), "number of parameters"),
        (f"{prefix}_PREPARED_BYTES", first.bytes, "size of the prepared weights"),
        (f"{prefix}_PREPARE_ARENA_BYTES", first.arena_bytes, "scratch memory to prepare them"),
    ]


def prepare_signature(interface: Interface) -> str:
    """The declaration of the function that prepares weights, without a semicolon."""
    found = [f"const void *const *{interface.parameters}", f"void *{interface.arena}"]
    if interface.weights:
        found.append(f"const void *{interface.weights}")
    found.append(f"void *{interface.prepared}")
    if interface.threads:
        found.append(f"const weft_threads *{interface.threads}")
    return f"int {interface.prepare}({', '.join(found)})"


def prepare_declaration(program: Program, interface: Interface) -> list[str]:
    """The declaration of that function and the table of the parameters."""
    first, prefix = program.preparation, interface.prefix
    if first is None:
        return []
    lines = [
        "Makes of the parameters the weights that runs read: packed, transformed, and with what",
        "the network multiplies and adds to them. Runs with earlier weights may go on meanwhile.",
        f"  {interface.parameters}: {prefix}_PARAMETERS arrays, row-major, in this order:",
        *(f"    {place}: {_shown(port)}" for place, port in enumerate(first.parameters)),
        f"  {interface.arena}: {prefix}_PREPARE_ARENA_BYTES of scratch memory, aligned to "
        f"{prefix}_ARENA_ALIGNMENT" + (" (may be null)" if first.arena_bytes == 0 else ""),
        f"  {interface.prepared}: {prefix}_PREPARED_BYTES that are written, aligned likewise",
        f"Returns 0, {prefix}_NULL_POINTER or {prefix}_MISALIGNED.",
    ]
    return [*comment(lines), *wrap_all([f"{prepare_signature(interface)};"]), ""]


def run_signature(interface: Interface) -> str:
    """The declaration of the run function without a semicolon."""
    parameters = ", ".join(f"{type}{name}" for type, name in run_parameters(interface))
    return f"int {interface.function}({parameters})"


def header_text(
    program: Program, interface: Interface, flavour: Dialect, blob: Blob | None, stack: Stack
) -> str:
    """The public header."""
    signature = wrap_all([f"{run_signature(interface)};"])
    guard = f"{interface.prefix}_H"
    constants = _constants(program, interface, blob, stack)
    lines = [
        *comment([*program.title, "Generated by Weft. Do not edit."]),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *integer_types({STORAGE[each.port.dtype] for each in interface.ports}, flavour),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *(THREADS_TYPE.splitlines() if interface.threads else []),
        *([""] if interface.threads else []),
        *constants,
        "",
        *(_open_declaration(interface) if interface.open else []),
        *prepare_declaration(program, interface),
        *(reset_declaration(interface.reset, interface.prefix) if interface.reset else []),
        *comment(_documentation(program, interface)),
        *signature,
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _constants(
    program: Program, interface: Interface, blob: Blob | None, stack: Stack
) -> list[str]:
    prefix = interface.prefix
    rows = [
        (each.size, each.arena.bytes, f"size of the scratch memory {_where(each)}".rstrip())
        for each in interface.arenas
    ]
    rows.append((f"{prefix}_ARENA_ALIGNMENT", program.alignment, "of the scratch memory, in bytes"))
    rows += state_constants(program)
    rows += prepare_constants(program)
    if blob is not None:
        rows.append((f"{prefix}_WEIGHTS_BYTES", blob.size, "size of the weights"))
    if interface.threads:
        rows.append((f"{prefix}_THREADS", program.threads, "most threads that one run can use"))
    lines = [f"#define {name} {value} /* {what} */" for name, value, what in rows]
    lines += [
        f"#define {prefix}_NULL_POINTER (-1) /* an argument is a null pointer */",
        f"#define {prefix}_MISALIGNED (-2) /* an argument is not aligned as it must be */",
    ]
    if interface.open:
        lines.append(
            f"#define {prefix}_UNPREPARED (-3) /* a library refuses what is asked of it */"
        )
    return [*lines, *stack_lines(interface, stack)]


def stack_lines(interface: Interface, stack: Stack) -> list[str]:
    """The constant that says what a run takes of the stack, and who says so."""
    name = f"{interface.prefix}_STACK_BYTES"
    each = " in each thread" if interface.threads else ""
    said = (
        f"measured: {stack.compiler}; other compilers and flags need more or less."
        if stack.compiler
        else "an estimate for any compiler."
    )
    return [
        *comment(
            [
                f"Stack that one run takes{each}, in bytes; {said}",
                f"`make stack` measures it; -D{name}=N replaces it.",
            ]
        ),
        f"#ifndef {name}",
        f"#define {name} {stack.bytes}",
        "#endif",
    ]


def _open_declaration(interface: Interface) -> list[str]:
    return [
        *comment(
            [
                "Has libraries prepare what the network asks of them; the first run does so",
                f"otherwise. Returns 0 or {interface.prefix}_UNPREPARED.",
            ]
        ),
        f"int {interface.open}(void);",
        "",
    ]


def _documentation(program: Program, interface: Interface) -> list[str]:
    lines = ["Runs the network once.", *program.notes]
    for each in interface.inputs:
        lines.append(f"  {each.name}: input {_shown(each.port)}")
    for each in interface.outputs:
        lines.append(f"  {each.name}: output {_shown(each.port)}")
    prefix = interface.prefix
    for each in interface.arenas:
        what = f"scratch memory {_where(each)}".rstrip()
        lines.append(
            f"  {each.name}: {each.size} of {what}, aligned to "
            f"{prefix}_ARENA_ALIGNMENT; its content is not kept"
            + (" (may be null)" if each.arena.bytes == 0 else "")
        )
    if interface.state:
        lines.append(
            f"  {interface.state}: {prefix}_STATE_BYTES of memory, aligned to "
            f"{prefix}_ARENA_ALIGNMENT, cleared by {interface.reset} before the first run; "
            "each run reads and changes it"
        )
    if interface.weights:
        lines.append(
            f"  {interface.weights}: {prefix}_WEIGHTS_BYTES, the content of {program.name}.bin, "
            f"aligned to {prefix}_ARENA_ALIGNMENT"
        )
    if interface.prepared:
        lines.append(
            f"  {interface.prepared}: {prefix}_PREPARED_BYTES that {interface.prepare} wrote, "
            f"aligned to {prefix}_ARENA_ALIGNMENT"
        )
    if interface.threads:
        lines.append(
            f"  {interface.threads}: threads to run on, or null for the caller's alone; "
            "results are the same"
        )
    codes = [f"{prefix}_NULL_POINTER", f"{prefix}_MISALIGNED"]
    codes += [f"{prefix}_UNPREPARED"] if interface.open else []
    lines += [
        "Arrays are packed, row-major, and must not overlap. Calls with different arenas"
        + (" and states" if interface.state else "")
        + " may run",
        f"at the same time. Returns 0, {', '.join(codes[:-1])} or {codes[-1]}.",
    ]
    return lines


def _where(each: ArenaName) -> str:
    return f"in {each.arena.name}" if each.arena.name else ""


def _shown(port: Port) -> str:
    shape = ",".join(map(str, port.shape))
    return f"{port.name}, {port.dtype.value}[{shape}]"
