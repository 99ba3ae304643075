"""A program that also says when each of its steps was done, for profiles.

The steps stay as they are: between them, calls read the processor's counter of time into
an output of their own.
"""

from __future__ import annotations

from dataclasses import replace

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.naming import fresh
from weft.plan.instrument import step_runs
from weft.plan.plan import Plan
from weft.plan.program import (
    Address,
    CallStep,
    ExternFunction,
    FormalParameter,
    Port,
    Program,
    ProgramStep,
    Region,
)

TICKS = "weft_ticks"
"""The output that holds the counter: before the first step, and after every step."""

# Counters that run at one rate whatever the clock of the cores; each read waits until what
# comes before it is done.
_COUNTERS = {
    "x86": """\
unsigned int low, high;
__asm__ volatile("lfence\\n\\trdtsc\\n\\tlfence" : "=a"(low), "=d"(high) : : "memory");
*ticks = (int64_t)((uint64_t)high << 32 | (uint64_t)low);""",
    "aarch64": """\
uint64_t now;
__asm__ volatile("isb\\n\\tmrs %0, cntvct_el0" : "=r"(now) : : "memory");
*ticks = (int64_t)now;""",
}
_MACHINES = {"x86_64": "x86", "amd64": "x86", "i686": "x86", "aarch64": "aarch64"}
_MACHINES["arm64"] = "aarch64"


def clocked(plan: Plan, program: Program, machine: str) -> Program:
    """The program with a further, last output: the counter after every step of the plan.

    Args:
        plan: what the program was lowered from.
        program: all its steps.
        machine: what it runs on, as ``platform.machine()`` says.

    Raises:
        UserError: the machine's counter of time is not known.
    """
    counter = _COUNTERS.get(_MACHINES.get(machine.lower(), ""))
    if counter is None:
        raise UserError("profiling is supported on x86 and aarch64", got=machine)
    taken = {function.name for function in program.functions}
    name = fresh("read_counter", taken)
    port = fresh(TICKS, {each.name for each in (*program.inputs, *program.outputs)})
    count = 0

    def read() -> CallStep:
        nonlocal count
        address = Address(Region.OUTPUT, port, count * DType.I64.bytes)
        count += 1
        return CallStep(name, (address,), ("reads the counter of time",))

    steps: list[ProgramStep] = [read()]
    for _, run in step_runs(plan, program):
        steps += [*run, read()]
    function = ExternFunction(name, (FormalParameter("ticks", DType.I64, True),), counter)
    return replace(
        program,
        functions=(*program.functions, function),
        steps=tuple(steps),
        outputs=(*program.outputs, Port(port, DType.I64, (count,))),
    )
