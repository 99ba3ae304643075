"""One C function of a program with the comment above it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field

from weft.codegen.calls import Callee, aliased_parameters, walk_calls
from weft.codegen.flavours import Dialect
from weft.codegen.function import kernel_function
from weft.codegen.helpers import is_helper
from weft.codegen.layout import comment, wrap_all
from weft.codegen.naming import STORAGE, CNames, identifier
from weft.codegen.uses import NOTHING_USED, Uses, words
from weft.errors import InternalError
from weft.loops.alike import Shared, shared_kernels
from weft.loops.nodes import Access, Kernel
from weft.loops.simplify import simplify_kernel
from weft.plan.program import ExternFunction, Function, Program
from weft.plan.work import stages_of
from weft.records import dataclass


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
        served: what calls of other functions of the program tell it, by their names in the
            program; with its own.
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
    served: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


def units_of(
    program: Program,
    names: CNames,
    flavour: Dialect,
    prefix: str,
    linkage: str,
    without: Collection[str] = (),
    share: bool = False,
) -> Iterator[Unit]:
    """The functions of a program that it calls, each written when it is asked for.

    Args:
        program: whose functions.
        names: hands out their names.
        flavour: the dialect.
        prefix: of the names.
        linkage: what stands before the return type.
        without: functions of the program that are not written.
        share: whether kernels that differ in numbers only become one function.
    """
    functions = {function.name: function for function in program.functions}
    called = {call.function for call, _ in walk_calls(program.all_steps)}.difference(without)
    cut = {call.function for call, _ in walk_calls(program.all_steps) if max(call.parts) > 1}
    aliased = aliased_parameters(functions, program.all_steps)
    comments = dict(program.function_comments)
    wanted = [each for name, each in functions.items() if name in called]
    for each in _merged(wanted, aliased, cut) if share else wanted:
        served = tuple(each.values) if isinstance(each, Shared) else (each.name,)
        told = [line for name in served for line in comments.get(name, ())]
        first = served[0]
        fresh = names.fresh(f"{prefix}{first}")
        yield unit_of(each, fresh, flavour, told, aliased[first], linkage, first in cut)


def callees(units: Iterable[Unit]) -> dict[str, Callee]:
    """What serves each function of a program."""
    return {
        name: Callee(unit.name, numbers)
        for unit in units
        for name, numbers in (unit.served or {unit.key: ()}).items()
    }


def _merged(
    functions: Sequence[Function], aliased: Mapping[str, frozenset[str]], cut: Set[str]
) -> Iterator[Function | Shared]:
    """Functions, with one for kernels that differ in numbers only.

    Those with the same parameters follow each other, so that the first can be written and
    compiled before others are compared.
    """
    similar: dict[Hashable, list[Function]] = {}
    for each in functions:
        similar.setdefault(_parameters(each), []).append(each)
    for members in similar.values():
        simple = [simplify_kernel(f) if isinstance(f, Kernel) else f for f in members]
        groups = _groups([each for each in simple if isinstance(each, Kernel)], aliased, cut)
        shared = {name: group for group in groups for name in group.values}
        done: set[str] = set()
        for each in simple:
            if each.name not in done:
                group = shared.get(each.name)
                done.update(group.values if group else ())
                yield group or each


def _parameters(function: Function) -> Hashable:
    """What kernels that differ in numbers only have in common at least; the name of others."""
    if isinstance(function, Kernel):
        return tuple((p.name, p.dtype, p.access, len(p.shape)) for p in function.params)
    return function.name


def _groups(
    kernels: Sequence[Kernel], aliased: Mapping[str, frozenset[str]], cut: Set[str]
) -> list[Shared]:
    """Simple kernels that one function can serve, threads and overlaps of memory included."""
    found = shared_kernels(
        ((each, (aliased[each.name], each.name in cut)) for each in kernels), frozenset(cut)
    )
    by_name = {each.name: each for each in kernels}
    return [
        group
        for group in found
        if cut.isdisjoint(group.values)
        or all(_cuts(by_name[name]) == _cuts(group.kernel) for name in group.values)
    ]


def _cuts(kernel: Kernel) -> list[list[tuple[int, tuple[int, ...], tuple[int, ...]]]]:
    """How threads share the loops of a simple kernel."""
    return [
        [(place, cut.extents, cut.starts) for place, cut in sorted(stage.ranges.items())]
        for stage in stages_of(kernel)
    ]


def unit_of(
    function: Function | Shared,
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
    shared = function if isinstance(function, Shared) else None
    kernel = function.kernel if isinstance(function, Shared) else function
    text = kernel_function(
        kernel, flavour, name=name, aliased=aliased, linkage=linkage, cut=cut, shared=shared
    )
    head = comment([*comments, *_described(kernel, shared)])
    stages = [line for _, stage in text.stages for line in stage]
    lines = wrap_all([*head, *stages, text.signature, *text.body])
    return Unit(
        kernel.name,
        name,
        text.signature,
        tuple(lines),
        text.stack_bytes,
        extern=False,
        declared_bytes=text.declared_bytes,
        stages=tuple(stage for stage, _ in text.stages),
        uses=text.uses,
        served=shared.values if shared else {},
    )


def _described(kernel: Kernel, shared: Shared | None) -> list[str]:
    """The signature in the terms of the loop grammar, and what each kernel that it serves tells."""
    if shared is None:
        return [_signature(kernel)]
    names = ", ".join(shared.numbers)
    told = "; ".join(", ".join(map(str, values)) for values in shared.values.values())
    return [_signature(kernel), f"with {names}: {told}"]


def _signature(kernel: Kernel) -> str:
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
