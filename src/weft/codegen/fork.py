"""Calls that threads share: the helpers, and how their arguments reach every thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from weft.codegen.calls import Callee, Formal, walk_calls
from weft.codegen.layout import wrap_all
from weft.codegen.naming import STORAGE, CNames
from weft.plan.program import CallStep, Program
from weft.records import dataclass

_FIRST = """\
/* The first of the things that are a part's share; the last parts get those left over. */
static int weft_first(int things, int part, int parts)
{
    const int before = part - (parts - things % parts);
    return things / parts * part + (before > 0 ? before : 0);
}
"""

_FORK = """\
/* Runs a task in as many parts as it is worth and there are threads for. */
static void weft_fork(const weft_threads *threads, int parts,
                      void (*task)(void *context, int part, int parts), void *context)
{
    const int most = threads == NULL ? 1 : threads->threads;
    parts = parts < most ? parts : most;
    if (parts > 1) {
        threads->run(threads->pool, parts, task, context);
    } else {
        task(context, 0, 1);
    }
}
"""

FORK_HELPERS = {"first": _FIRST, "fork": _FORK}

THREADS_TYPE = """\
#ifndef WEFT_THREADS_TYPE
#define WEFT_THREADS_TYPE
/* Threads that the caller lends to a network; a network is as happy with a pool of yours.
 *   threads: how many may be used at once, the caller's own among them
 *   run: calls task(context, part, n) once for each part from 0 to n - 1, for an n of its
 *     choice from 1 to parts, in any order and on any threads; returns when all are done
 *   pool: what run gets as its first argument
 */
typedef struct weft_threads {
    int threads;
    void (*run)(void *pool, int parts, void (*task)(void *context, int part, int parts),
                void *context);
    void *pool;
} weft_threads;
#endif
"""
"""One type for all networks of a process, whoever generated them; so is the pool's header."""


_STAGES = "stages"

TaskKey: TypeAlias = tuple[str, tuple[int, ...]]
"""A function of the program, and what each part adds to its arguments."""


@dataclass(frozen=True, slots=True)
class ForkTask:
    """What threads call to run their parts of a function.

    Attributes:
        name: its own C name; function: what it calls.
        struct: the C tag of the arguments; fields: their C names.
        formals: the parameters of the function.
        part_bytes: what each part adds to an argument.
        stages: of the function; with several, a field says which to run.
    """

    name: str
    function: Callee
    struct: str
    fields: tuple[str, ...]
    formals: tuple[Formal, ...]
    part_bytes: tuple[int, ...]
    stages: int

    @property
    def stack_bytes(self) -> int:
        """Of the arguments."""
        return 8 * (len(self.fields) + 1)

    @property
    def whole(self) -> list[str]:
        """The last arguments of the function where it is run as a whole."""
        return ["0", "1", *([str((1 << self.stages) - 1)] if self.stages > 1 else [])]

    def definition(self) -> list[str]:
        """The struct and the function."""
        pairs = zip(self.formals, self.fields, strict=True)
        members = [f"    {_pointer(formal)}{field};" for formal, field in pairs]
        numbers = ["part", "parts"]
        if self.stages > 1:
            members.append(f"    int {_STAGES};")
            numbers.append(f"to->{_STAGES}")
        fields = map(self._argument, range(len(self.fields)))
        given = ", ".join([*fields, *self.function.arguments, *numbers])
        struct = f"struct {self.struct}"
        lines = [
            f"{struct} {{",
            *members,
            "};",
            "",
            f"static void {self.name}(void *context, int part, int parts)",
            "{",
            f"    const {struct} *const to = (const {struct} *)context;",
            f"    {self.function.name}({given});",
            "}",
            "",
        ]
        return wrap_all(lines)

    def _argument(self, place: int) -> str:
        text, step = f"to->{self.fields[place]}", self.part_bytes[place]
        if not step:
            return text
        formal = self.formals[place]
        count, odd = divmod(step, formal.dtype.bytes)
        if not odd:
            return f"{text} + (ptrdiff_t)part * {count}"
        return f"({_pointer(formal)})((unsigned char *){text} + (ptrdiff_t)part * {step})"

    def call(
        self, variable: str, threads: str, parts: Sequence[int], arguments: Sequence[str]
    ) -> list[str]:
        """A block that runs its stages on arguments."""
        pairs = zip(self.fields, arguments, strict=True)
        lines = [
            f"    struct {self.struct} {variable};",
            *(f"    {variable}.{field} = {text};" for field, text in pairs),
        ]
        for number, count in enumerate(parts):
            if self.stages > 1:
                lines.append(f"    {variable}.{_STAGES} = {1 << number};")
            lines.append(f"    weft_fork({threads}, {count}, {self.name}, &{variable});")
        return ["{", *lines, "}"]


def _pointer(formal: Formal) -> str:
    return f"{'' if formal.writes else 'const '}{STORAGE[formal.dtype]} *"


def task_key(call: CallStep) -> TaskKey:
    """The task that a call needs."""
    return call.function, tuple(address.part_bytes for address in call.arguments)


def tasks_of(
    program: Program,
    functions: Mapping[str, Callee],
    formals: Mapping[str, tuple[Formal, ...]],
    names: CNames,
) -> dict[TaskKey, ForkTask]:
    """The tasks of the calls that are cut.

    Args:
        program: whose calls.
        functions: what serves its functions.
        formals: their parameters.
        names: hands out the names of tasks.
    """
    found: dict[TaskKey, ForkTask] = {}
    for call, _ in walk_calls(program.all_steps):
        key = task_key(call)
        if max(call.parts) < 2 or key in found:
            continue
        function, own = functions[call.function], CNames([_STAGES])
        found[key] = ForkTask(
            names.fresh(f"{function.name}_task"),
            function,
            names.fresh(f"{function.name}_arguments"),
            tuple(own.fresh(each.name) for each in formals[call.function]),
            formals[call.function],
            key[1],
            len(call.parts),
        )
    return found
