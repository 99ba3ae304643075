"""Kernels as C functions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen import tree as c
from weft.codegen.block import BlockWriter
from weft.codegen.cut import PartWriter
from weft.codegen.flavours import Dialect
from weft.codegen.naming import identifier
from weft.codegen.printer import Printer
from weft.codegen.slots import Slot
from weft.codegen.uses import Uses, together
from weft.codegen.writer import StatementWriter
from weft.loops.alike import Shared
from weft.loops.nodes import Access, For, If, Kernel, Local, Stmt
from weft.loops.simplify import simplify_kernel
from weft.plan.work import stages_of
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A C function.

    Attributes:
        signature: without the semicolon or body.
        body: lines with the braces around them.
        stack_bytes: of its locals that are needed at one time.
        declared_bytes: of all of them, each with a place of its own.
        uses: what it uses, its stages included.
        stages: names and lines of the functions that it calls: one for each of its stages, if
            there are several.
    """

    signature: str
    body: tuple[str, ...]
    stack_bytes: int
    declared_bytes: int
    uses: Uses
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()


def kernel_function(
    kernel: Kernel,
    flavour: Dialect,
    *,
    name: str = "",
    aliased: frozenset[str] = frozenset(),
    linkage: str = "static ",
    cut: bool = False,
    shared: Shared | None = None,
) -> FunctionText:
    """A kernel as a C function.

    Args:
        kernel: what it computes.
        flavour: the dialect.
        name: of the function, if not the kernel's.
        aliased: parameters whose memory may overlap another's.
        linkage: what stands before the return type.
        cut: whether it is told which part of how many to run, and which stages if it has
            several.
        shared: what it is told, if it stands for several kernels.
    """
    simple = simplify_kernel(kernel)
    name = name or identifier(kernel.name)
    if cut:
        return _cut_function(simple, flavour, name, aliased, linkage, shared)
    writer, block = StatementWriter(simple, flavour, shared), BlockWriter()
    writer.block(simple.body, block)
    return _function(simple, flavour, writer, block, linkage, name, aliased)


def _function(
    kernel: Kernel,
    flavour: Dialect,
    writer: StatementWriter,
    block: BlockWriter,
    linkage: str,
    name: str,
    aliased: frozenset[str],
) -> FunctionText:
    """The function around a block that was written."""
    printer = Printer(flavour)
    lines = printer.lines(writer.finish(block))
    given = [*(slot.name for slot in writer.params), *writer.numbers]
    lines += printer.lines([c.Unused(name) for name in given if name not in printer.names])
    body = [*printer.lines(writer.loop_declarations(printer.loops)), *lines]
    printer.names.update(slot.ctype for slot in writer.params)
    parameters = _parameters(writer, flavour, aliased, writer.numbers)
    signature = flavour.text("function", linkage=linkage, name=name, parameters=parameters)
    sizes = stack_of(kernel.body), writer.declared
    return FunctionText(signature, ("{", *body, "}"), *sizes, printer.uses)


def _cut_function(
    kernel: Kernel,
    flavour: Dialect,
    name: str,
    aliased: frozenset[str],
    linkage: str,
    shared: Shared | None,
) -> FunctionText:
    """A function of which a thread runs its part; one for each stage, and one that calls them."""
    stages = stages_of(kernel)
    alone = len(stages) == 1
    written: list[FunctionText] = []
    for number, stage in enumerate(stages):
        writer, block = PartWriter(kernel, flavour, shared), BlockWriter()
        writer.cut(stage, block)
        # Apart, since compilers run out of registers for tiles in functions of many loops.
        head = (linkage, name) if alone else (f"static {flavour.apart}", _stage(name, number))
        written.append(_function(kernel, flavour, writer, block, *head, aliased))
    if alone:
        return written[0]
    writer = PartWriter(kernel, flavour, shared)
    given = tuple(map(c.Name, [*(slot.name for slot in writer.params), *writer.numbers]))
    chosen: list[c.Statement] = []
    for number in range(len(stages)):
        bit = c.CBinary("&", c.Name(writer.stages), c.CNumber(str(1 << number)))
        run = c.Evaluate(c.CCall(_stage(name, number), given))
        chosen.append(c.CIf(c.CBinary("!=", c.CGroup(bit), c.CNumber("0")), [run]))
    body = Printer(flavour).lines(chosen)
    parameters = _parameters(writer, flavour, aliased, [*writer.numbers, writer.stages])
    return FunctionText(
        flavour.text("function", linkage=linkage, name=name, parameters=parameters),
        ("{", *body, "}"),
        stack_of(kernel.body) + 8 * (len(writer.params) + len(writer.numbers) + 1),
        max(each.declared_bytes for each in written),
        together(each.uses for each in written),
        tuple(
            (_stage(name, number), (each.signature, *each.body, ""))
            for number, each in enumerate(written)
        ),
    )


def _stage(name: str, number: int) -> str:
    return f"{name}_stage{number + 1}"


def _parameters(
    writer: StatementWriter, flavour: Dialect, aliased: frozenset[str], numbers: Sequence[str]
) -> str:
    found = [_parameter(slot, flavour, aliased) for slot in writer.params]
    return ", ".join([*found, *(f"int {number}" for number in numbers)]) or "void"


def stack_of(body: Sequence[Stmt]) -> int:
    """The most bytes that locals need at one time."""
    most = 0
    for stmt in body:
        match stmt:
            case For(body=inner):
                need = stack_of(inner) + 8
            case If(_, then, otherwise):
                need = max(stack_of(then), stack_of(otherwise))
            case Local(buffer, inner):
                size = max(4, buffer.dtype.bytes)
                for extent in buffer.shape:
                    size *= extent
                need = -(-size // 64) * 64 + stack_of(inner)
            case _:
                need = 0
        most = max(most, need)
    return most


def _parameter(slot: Slot, flavour: Dialect, aliased: frozenset[str]) -> str:
    restrict = "" if slot.buffer.name in aliased else flavour.restrict
    pointer = flavour.pointer(slot.ctype, const=slot.buffer.access is Access.READ)
    return f"{pointer}{restrict}{slot.name}"
