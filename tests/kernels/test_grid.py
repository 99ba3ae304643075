"""Every alternative for every kind of kernel, as C under sanitizers, on shapes at the edges.

What a kernel writes is compared with its definition, evaluated by NumPy in double
precision, to ``TOLERANCE`` of the largest sum in it; what it must not write stays as it was.
That definitions mean what the ops' references compute is tested in ``tests/ops``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from numpy.lib.stride_tricks import as_strided

from tests.kernels.batch import Trial, poison, run
from tests.kernels.definitions import evaluate
from tests.kernels.shapes import FAMILIES, Shapes, nets
from tests.kernels.tasks import all_tasks_of, arrays_of, found_by, memory_of
from tests.plan.nets import Net
from tests.turns import in_turn, thorough
from weft.dtypes import DType
from weft.errors import UserError
from weft.kernels import nest, selection
from weft.kernels.task import Task
from weft.kernels.winograd import choice as winograd_choice
from weft.kernels.winograd.convolution import square_convolution
from weft.loops.nodes import Buffer
from weft.plan.implementation import Implementation
from weft.targets.find import SIMD, host

TOLERANCE = {"winograd-f4": 1e-4, "winograd-f2": 3e-5}
"""Of the largest sum; ``1e-5`` for what sums as the definition does."""


def machines() -> list[str]:
    """Plain C, and the vector instructions that this machine has, the widest last."""
    found: list[str] = []
    for simd, name in SIMD.items():
        try:
            host(simd)
        except UserError:
            continue
        found.append(name)
    return found


def alternatives(task: Task, turn: int, of: int) -> Iterator[tuple[str, Implementation]]:
    """Everything that could be the kernel of a task, or its ``turn``-th part of so many."""
    found = selection.alternatives(task)
    for place, each in enumerate(found):
        made = each.make() if place % of == turn % of or place == 0 else None
        if made is not None:
            yield each.name, made
    if found_by(square_convolution, task) is None:
        return
    for outputs, tiles in product(winograd_choice.OUTPUTS, (1, 5)):
        made = winograd_choice.generate_as(task, outputs, tiles)
        if made is not None:
            yield made.scheme, made
    for outputs in winograd_choice.OUTPUTS:
        made = winograd_choice.generate_by_rows(task, outputs)
        if made is not None:
            yield made.scheme, made


@dataclass(frozen=True)
class Expected:
    """What a kernel writes, seen through its output's strides.

    Attributes:
        scheme: of the kernel.
        output: its last parameter.
        wanted: the elements.
        largest: of all sums on the way: an epilogue may make them small.
    """

    scheme: str
    output: Buffer
    wanted: np.ndarray
    largest: float

    def problem(self, memory: np.ndarray) -> str:
        """What is wrong with a kernel's output, or nothing."""
        steps = [step * memory.itemsize for step in self.output.steps]
        got = as_strided(memory, self.output.shape, steps)
        gaps = memory.copy()
        as_strided(gaps, self.output.shape, steps)[...] = poison(self.output)
        if (gaps != poison(self.output)).any():
            return "writes between its elements"
        wanted = self.wanted.reshape(got.shape)
        if not self.output.dtype.is_float:
            return "" if (got == wanted).all() else "integers differ"
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, self.largest, finite.max(initial=0.0))
        most = TOLERANCE.get(self.scheme[:11], 1e-5) * scale
        with np.errstate(invalid="ignore"):
            good = (np.abs(got - wanted) <= most) | (got == wanted)
        bad = ~(good | (np.isnan(got) & np.isnan(wanted)))
        if not bad.any():
            return ""
        first = tuple(int(place[0]) for place in np.nonzero(bad))
        return f"{bad.sum()} of {bad.size} differ, at {first} {got[first]} for {wanted[first]}"


def trials_of(
    net: Net, value: str, machine: str, turn: int, of: int
) -> Iterator[tuple[Trial, Expected]]:
    """The alternatives for all kernels of a network, or one part of so many."""
    for task in all_tasks_of(net, value, machine=machine):
        memory = memory_of(task)
        named = {
            buffer.name: memory[value]
            for value, buffer in zip(task.values, task.inputs, strict=True)
        }
        wanted, largest = evaluate(task.compute, task.inputs, named)
        for name, made in alternatives(task, turn, of):
            label = f"{name} for {machine}: {task.compute} on {task.inputs}, {task.output}"
            arrays = arrays_of(made, memory)
            output = made.kernel.params[-1]
            yield (
                Trial(label, made.kernel, tuple(arrays)),
                Expected(made.scheme, output, wanted, largest),
            )


def compiler() -> tuple[str, ...]:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return ("gcc", "-march=native", "-w")


def check(cases: list[tuple[Net, str]], machine: str, folder: Path, of: int = 1) -> int:
    """Asserts that all kernels of some networks are right; their number.

    With ``of`` each network takes its turn at one of so many parts of the alternatives.
    """
    found = [
        each
        for turn, (net, value) in enumerate(cases)
        for each in trials_of(net, value, machine, turn, of)
    ]
    results = run([trial for trial, _ in found], folder, compiler())
    problems = [
        f"{problem}\n  {trial.label}\n{trial.kernel}"
        for (trial, expected), memory in zip(found, results, strict=True)
        if (problem := expected.problem(memory))
    ]
    assert not problems, f"{len(problems)} of {len(found)}:\n" + "\n".join(problems[:3])
    return len(found)


def drawn(family: Callable[[Shapes], str], count: int, repeatable: bool) -> list[tuple[Net, str]]:
    """Networks that hypothesis draws: collected, for all are compiled as one program."""
    found: list[tuple[Net, str]] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        derandomize=repeatable,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(nets(family))
    def collect(case: tuple[Net, str]) -> None:
        found.append(case)

    collect()
    return found


COUNT = 8
"""Cases of a family; a third of them in `make test`; ten times as many in `make grid`."""
FEWER = {"square": 2, "sound": 2, "volume": 2, "attention": 4, "recurrent": 4}
"""Cases where kernels are long."""
EACH = in_turn(
    [(family,) for family in FAMILIES],
    machines(),
    [family.__name__ for family in FAMILIES],
    every=2,
)


@pytest.mark.parametrize(("family", "machine"), EACH)
def test_alternatives(family: Callable[[Shapes], str], machine: str, tmp_path: Path) -> None:
    count = FEWER.get(family.__name__, COUNT)
    cases = drawn(family, count if thorough(family.__name__) else -(-count // 3), repeatable=True)
    assert check(cases, machine, tmp_path, of=6) >= len(cases) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("family", "machine"), EACH)
def test_more_alternatives(family: Callable[[Shapes], str], machine: str, tmp_path: Path) -> None:
    """Other cases every time; a failure prints the kernel."""
    count = 10 * FEWER.get(family.__name__, COUNT)
    check(drawn(family, count, repeatable=False), machine, tmp_path)


# --- the tests above could fail ---------------------------------------------------------------


def one_task() -> Task:
    net = Net()
    made = net.op("Relu", net.conv(net.input(1, 3, 9, 9), 24))
    return all_tasks_of(net, made, machine="x86-sse2")[0]


def test_a_store_past_the_end_is_seen(tmp_path: Path) -> None:
    task = one_task()
    made = nest.generate(task)
    *inputs, output = made.kernel.params
    short = replace(output, shape=(*output.shape[:-1], output.shape[-1] - 1))
    lying = replace(made.kernel, params=(*inputs, replace(short, strides=output.steps)))
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run([Trial("", lying, tuple(arrays_of(made, memory_of(task))))], tmp_path, compiler())


def test_a_wrong_number_and_a_store_between_elements_are_seen() -> None:
    output = Buffer("out", DType.F32, (3, 2), strides=(4, 1))
    wanted = np.arange(6.0).reshape(3, 2)
    memory = np.full(10, poison(output), np.float32)
    expected = Expected("tiled", output, wanted, 0.0)
    as_strided(memory, (3, 2), (16, 4))[...] = wanted
    assert not expected.problem(memory)
    memory[4] += 1e-3
    assert expected.problem(memory).startswith("1 of 6 differ, at (1, 0)")
    memory[4] -= 1e-3
    memory[3] = 0
    assert expected.problem(memory) == "writes between its elements"
