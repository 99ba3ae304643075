"""One C function of a program with the comment above it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from weft.codegen.calls import aliased_parameters, walk_calls
from weft.codegen.flavours import Dialect
from weft.codegen.function import kernel_function
from weft.codegen.helpers import is_helper
from weft.codegen.layout import comment, wrap_all
from weft.codegen.naming import STORAGE, CNames, identifier
from weft.codegen.uses import NOTHING_USED, Uses, words
from weft.errors import InternalError
from weft.loops.nodes import Access, Kernel
from weft.plan.program import ExternFunction, Function, Program


@dataclass(frozen=True)
class Unit:
    """A function's text.

    Attributes:
        key: its name in the program.
        name: its name in C.
        signature: the declaration without a semicolon.
        lines: the definition with its comment.
        stack_bytes: of its locals that are needed at one time.
        declared_bytes: of all of them, each with a place of its own.
        extern: whether its body was given as C.
        stages: names of the functions in its lines that it calls.
        foreign_bytes: of the stack, for functions that Weft did not write.
        declared_bytes: of all locals, each with a place of its own.
        uses: what its lines use.
    """

    key: str
    name: str
    signature: str
    lines: tuple[str, ...]
    stack_bytes: int
    extern: bool
    stages: tuple[str, ...] = ()
    foreign_bytes: int = 0
    declared_bytes: int = 0
    uses: Uses = NOTHING_USED


def units_of(
    program: Program,
    names: CNames,
    flavour: Dialect,
    prefix: str,
    linkage: str,
    without: Collection[str] = (),
) -> Iterator[Unit]:
    """The functions of a program that it calls, each written when it is asked for.

    Args:
        program: whose functions.
        names: hands out their names.
        flavour: the dialect.
        prefix: of the names.
        linkage: what stands before the return type.
        without: functions of the program that are not written.
    """
    functions = {function.name: function for function in program.functions}
    called = {call.function for call, _ in walk_calls(program.all_steps)}.difference(without)
    cut = {call.function for call, _ in walk_calls(program.all_steps) if max(call.parts) > 1}
    aliased = aliased_parameters(functions, program.all_steps)
    comments = dict(program.function_comments)
    for name, function in functions.items():
        if name in called:
            fresh, told = names.fresh(f"{prefix}{name}"), comments.get(name, ())
            yield unit_of(function, fresh, flavour, told, aliased[name], linkage, name in cut)


def unit_of(
    function: Function,
    name: str,
    flavour: Dialect,
    comments: Sequence[str],
    aliased: frozenset[str],
    linkage: str,
    cut: bool = False,
) -> Unit:
    """A function of a program as C; a kernel that is cut is told which part to run."""
    if isinstance(function, ExternFunction):
        if cut:
            raise InternalError(f"{function.name} is C that was given: it cannot be cut")
        return _extern_unit(function, name, comments, linkage)
    text = kernel_function(function, flavour, name=name, aliased=aliased, linkage=linkage, cut=cut)
    head = comment([*comments, _described(function)])
    stages = [line for _, stage in text.stages for line in stage]
    lines = wrap_all([*head, *stages, text.signature, *text.body])
    return Unit(
        function.name,
        name,
        text.signature,
        tuple(lines),
        text.stack_bytes,
        extern=False,
        declared_bytes=text.declared_bytes,
        stages=tuple(stage for stage, _ in text.stages),
        uses=text.uses,
    )


def _described(kernel: Kernel) -> str:
    """The signature in the terms of the loop grammar."""
    words = {Access.READ: "", Access.WRITE: "out ", Access.SCRATCH: "scratch ", Access.LOCAL: ""}
    parts: list[str] = []
    for each in kernel.params:
        shape = ",".join(map(str, each.shape))
        strides = "" if each.strides is None else f" strides {','.join(map(str, each.strides))}"
        parts.append(f"{words[each.access]}{each.name} {each.dtype.value}[{shape}]{strides}")
    return f"{kernel.name}({', '.join(parts)})"


def _extern_unit(
    function: ExternFunction, name: str, comments: Sequence[str], linkage: str
) -> Unit:
    params = ", ".join(
        f"{'' if each.writes else 'const '}{STORAGE[each.dtype]} *{identifier(each.name)}"
        for each in function.params
    )
    signature = f"{linkage}void {name}({params or 'void'})"
    body = [f"    {line}".rstrip() for line in function.body.strip("\n").splitlines()]
    names = words(function.body)
    unused = [each.name for each in function.params if each.name not in names]
    body += [f"    (void){identifier(each)};" for each in unused]
    uses = Uses(
        names.union(STORAGE[each.dtype] for each in function.params),
        tuple(sorted(name for name in names if is_helper(name))),
    )
    lines = [*comment(comments), *wrap_all([signature]), "{", *body, "}"]
    return Unit(
        function.name,
        name,
        signature,
        tuple(lines),
        function.stack_bytes,
        extern=True,
        foreign_bytes=function.stack_bytes if function.foreign.files else 0,
        uses=uses,
    )
