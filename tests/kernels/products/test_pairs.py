"""Layers of bfloat16 by pairs: the plain loops' sums, and when other loops are taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.batch import SANITIZERS, Trial, run
from tests.kernels.tasks import arrays_of, computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import a_few
from weft.api import Net as Compiled
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.products.pairs_choice import propose
from weft.kernels.refusal import Refusal
from weft.kernels.selection import alternatives, generate, usual
from weft.kernels.task import Task
from weft.kernels.winograd import choice as winograd_choice
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts
from weft.loops.walk import reduces
from weft.plan.choice import MAX_ROUNDING

_TYPE = DType.BF16


class Narrow(Net):
    """A net of small whole numbers: all sums of products are exact, in any order."""

    def numbers(self, shape, scale, dtype):
        return self.random.integers(-4, 5, shape).astype(dtype.numpy)

    def wide(self, value: str) -> str:
        return self.op("Cast", value, to=DType.F32)

    def stored(self, value: str) -> str:
        return self.op("Cast", value, to=_TYPE)

    def image(self, *shape: int) -> str:
        """A value of an inner layer, whose channels lie side by side."""
        return self.stored(self.op("Relu", self.wide(self.input(*shape, dtype=_TYPE))))

    def weights(self, *shape: int) -> str:
        return self.wide(self.constant(*shape, dtype=_TYPE))


def convolution(
    channels: int,
    filters: int,
    sides: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    residual: bool = False,
    images: int = 1,
    groups: int = 1,
    **attributes: object,
) -> Callable[[], tuple[Narrow, str]]:
    """A convolution, activated, and maybe added to something before."""

    def made() -> tuple[Narrow, str]:
        net = Narrow()
        x = net.wide(net.image(images, channels, *sides))
        w = net.weights(filters, channels // groups, *kernel)
        y = net.op("Conv", x, w, net.constant(filters), kernel=kernel, groups=groups, **attributes)
        if residual:
            y = net.op("Add", y, net.wide(net.input(*net.shape(y), dtype=_TYPE)))
        return net, net.op("Relu", y)

    return made


def product(rows: tuple[int, ...], depth: int, outputs: int) -> Callable[[], tuple[Narrow, str]]:
    """A matrix product with constant weights."""

    def made() -> tuple[Narrow, str]:
        net = Narrow()
        x = net.wide(net.input(*rows, depth, dtype=_TYPE))
        return net, net.op("MatMul", x, net.weights(depth, outputs))

    return made


CASES = {
    "pointwise": convolution(32, 64, (5, 6), (1, 1)),
    "3x3, stored": convolution(6, 32, (7, 9), (3, 3), pads=(1, 1, 1, 1)),
    "residual": convolution(8, 48, (5, 6), (1, 1), residual=True),
    "strided, half a vector": convolution(4, 24, (9, 8), (3, 3), strides=(2, 2), pads=(1,) * 4),
    "dilated, quarter": convolution(2, 20, (9, 8), (3, 3), dilations=(2, 2), pads=(2,) * 4),
    "transformed residual": convolution(6, 20, (7, 6), (3, 3), residual=True, pads=(1,) * 4),
    "images": convolution(4, 16, (4, 5), (2, 3), images=3),
    "groups": convolution(12, 64, (5, 5), (3, 3), groups=2, pads=(1,) * 4),
    "one side": convolution(10, 16, (17,), (5,), strides=(3,), pads=(2, 1)),
    "runs, strided": convolution(3, 24, (9, 11), (5, 5), strides=(2, 2), pads=(2,) * 4),
    "runs of one channel": convolution(1, 16, (7, 8), (3, 2), residual=True),
    "runs on one side": convolution(5, 16, (19,), (4,), pads=(1, 2), images=2),
    "runs, rows apart": convolution(3, 16, (9, 6), (3, 3), dilations=(2, 1), pads=(2, 1, 2, 1)),
    "vector": product((1,), 96, 200),
    "rows": product((11,), 30, 36),
    "many rows": product((2, 3), 64, 32),
}


def task_of(net: Net, made: str, machine: str = "zen4") -> Task:
    return next(t for t in tasks_of(net, made, machine=machine) if reduces(t.compute.value))


@pytest.mark.parametrize(
    ("case", "machine"),
    a_few(
        [
            *((case, "zen4") for case in CASES),
            *((case, "neoverse-v1") for case in CASES if case != "runs, strided"),
        ],
        10,
    ),
)
def test_same_sums_as_plain_loops(case: str, machine: str) -> None:
    task = task_of(*CASES[case](), machine)
    offered = offers(propose, task)
    assert offered, refusal(propose, task)
    if machine != "zen4":  # Rounding to odd, the meaning of these instructions is longer.
        offered = offered[:: max(1, len(offered) - 1)]
    memory = memory_of(task)
    random = np.random.default_rng(1)
    for name, buffer in zip(task.values, task.inputs, strict=True):
        if buffer.name not in task.arrays:
            whole = random.integers(-4, 5, memory[name].shape)
            memory[name] = whole.astype(buffer.dtype.numpy)
    wanted = computed(task, nest.generate(task), memory)
    for each in offered:
        made = each.make()
        assert made is not None
        assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize(
    ("case", "machine"),
    a_few(
        [
            *(
                (case, "zen4")
                for case in ("3x3, stored", "transformed residual", "dilated, quarter")
            ),
            *((case, "x86-avx2") for case in ("3x3, stored", "transformed residual")),
            ("transformed residual", "neoverse-v1"),
        ]
    ),
)
def test_winograd_in_half_precision(case: str, machine: str) -> None:
    task = replace(task_of(*CASES[case](), machine), max_rounding=0.012)
    offered = {each.sums: each for each in offers(winograd_choice.propose, task)}.values()
    assert {each.sums.sizes for each in offered} == {(4,), (3,), (2,)}
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    for each in offered:
        made = each.make()
        assert made is not None
        kinds = [type(stmt) for stmt in walk_stmts(made.kernel.body)]
        assert (Instruct in kinds) == (machine != "x86-avx2")
        wrong = computed(task, made, memory) - wanted
        # The estimate is of more channels than these, and of other numbers.
        assert np.sqrt((wrong**2).mean()) < 2 * each.error * wanted.std()


def of_random(machine: str, limit: float, kernel: int = 3) -> Task:
    """A layer of random numbers, which a limit is set for."""
    net = Net()
    image = net.op("Cast", net.input(1, 32, 10, 10, dtype=_TYPE), to=DType.F32)
    weight = net.op("Cast", net.constant(16, 32, kernel, kernel, dtype=_TYPE), to=DType.F32)
    made = net.op("Conv", image, weight, kernel=(kernel, kernel))
    return replace(task_of(net, made, machine), max_rounding=limit)


@pytest.mark.parametrize(
    ("machine", "limit", "sizes"),
    [
        ("zen4", MAX_ROUNDING, {2}),
        ("zen4", 0.007, {3, 2}),
        ("zen4", 0.012, {4, 3, 2}),
        ("x86-avx2", MAX_ROUNDING, {3, 2}),  # the filters alone are stored in it
    ],
)
def test_tiles_that_a_limit_of_rounding_allows(machine: str, limit: float, sizes: set[int]) -> None:
    task = of_random(machine, limit)
    offered = offers(winograd_choice.propose, task)
    assert {each.sums.sizes for each in offered} == {(4,), (3,), (2,)}
    assert {each.sums.sizes[0] for each in offered if each.allowed} == sizes
    assert all(each.allowed == (each.error <= limit) for each in offered)
    named = {each.name: each for each in alternatives(task)}
    assert all((each.name in named) == each.allowed for each in offered)
    refused = [each.name for each in offered if not each.allowed]
    assert all(generate(task, name).scheme != name for name in refused)


def test_no_tiles_where_all_round_too_much() -> None:
    why = refusal(winograd_choice.propose, of_random("zen4", MAX_ROUNDING, kernel=5))
    assert why == "transforms would add 1.26% of rounding error, and 0.50% are allowed"
    assert refusal(winograd_choice.propose, of_random("zen4", 0.0))


@pytest.mark.parametrize("machine", a_few(["zen4", "x86-avx2"], 1))
def test_the_expected_rounding_is_what_is_measured(machine: str) -> None:
    task = of_random(machine, 0.012)
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = {each.sums: each for each in offers(winograd_choice.propose, task)}.values()
    assert len(offered) == 3
    for each in offered:
        made = each.make()
        assert made is not None
        wrong = computed(task, made, memory) - wanted
        error = np.sqrt((wrong**2).mean()) / wanted.std()
        assert 0.85 * each.error < error < 1.15 * each.error


@pytest.mark.thorough
def test_larger_tiles_in_c_give_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    """The portable C of the instruction for pairs, under sanitizers."""
    task = replace(task_of(*CASES["transformed residual"]()), max_rounding=0.012)
    memory = memory_of(task)
    trials: list[Trial] = []
    wanted: list[np.ndarray] = []
    for each in {each.sums: each for each in offers(winograd_choice.propose, task)}.values():
        made = each.make()
        assert made is not None
        trials.append(Trial(each.name, made.kernel, tuple(arrays_of(made, memory))))
        wanted.append(computed(task, made, memory))
    found = run(trials, tmp_path, ("gcc",), (*SANITIZERS, "-ffp-contract=off"))
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got[: expected.size], expected)


@pytest.mark.thorough
def test_weights_at_run_time_are_packed_the_same() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.op("Relu", net.input(1, 4, 12, 12)), 32))
    y = net.conv(net.op("Relu", net.conv(x, 32)), 32, 1)
    api = Compiled(net.graph(net.op("MatMul", y, net.constant(12, 16))))
    x = next(iter(net.arrays.values()))
    given = api.compile(precision="bfloat16", parameters="runtime")(x)
    np.testing.assert_array_equal(given, api.compile(precision="bfloat16")(x))


@pytest.mark.parametrize(
    "case",
    [
        *(CASES[name] for name in ("pointwise", "strided, half a vector", "residual", "vector")),
        # Copies of rows are a small part of larger images.
        convolution(3, 24, (18, 22), (5, 5), strides=(2, 2), pads=(2,) * 4),
    ],
)
@pytest.mark.parametrize("machine", ["zen4", "neoverse-v1"])
def test_it_is_the_usual_choice(case: Callable[[], tuple[Narrow, str]], machine: str) -> None:
    task = task_of(*case(), machine)
    assert usual(task).name in {each.name for each in offers(propose, task)}


@pytest.mark.parametrize(
    ("channels", "row"), [(8, "bfmmla-"), (6, "bfdot-"), (3, "bfmmla-rows-"), (5, "bfmmla-rows-")]
)
def test_the_instruction_takes_as_many_neighbours_as_lie_side_by_side(
    channels: int, row: str
) -> None:
    task = task_of(*convolution(channels, 16, (9, 9), (3, 3), pads=(1,) * 4)(), "neoverse-v1")
    assert all(each.name.startswith(row) for each in offers(propose, task))


def test_a_slow_instruction_is_not_taken() -> None:
    task = task_of(*CASES["pointwise"](), machine="golden-cove")
    assert offers(propose, task)
    assert usual(task).name.startswith("tiled")


@pytest.mark.parametrize("case", ["3x3, stored", "residual", "runs, strided", "rows"])
def test_compiled(case: str) -> None:
    net, made = CASES[case]()
    graph = net.graph(net.stored(made) if "stored" in case else made)
    arrays = [net.arrays[name] for name in graph.inputs]
    api = Compiled(graph)
    (wanted,) = api.reference(*arrays)
    np.testing.assert_array_equal(api.compile()(*arrays), wanted)


def test_what_rounds_to_odd_is_not_exact() -> None:
    for machine, why in (
        ("zen4", ""),
        ("neoverse-v1", "the target has no instruction that rounds to nearest"),
    ):
        task = replace(task_of(*CASES["pointwise"](), machine), exact=True)
        found = propose(task)
        assert (found.reason if isinstance(found, Refusal) else "") == why


def test_refusals() -> None:
    def why(made: tuple[Net, str], machine: str = "zen4") -> str:
        return refusal(propose, task_of(*made, machine=machine))

    assert why(CASES["rows"](), "x86-avx512") == "the target has no instruction for pairs of bf16"
    assert why(convolution(3, 16, (9, 9), (3, 3), dilations=(2, 2))()) == (
        "no even number of input channels lies side by side"
    )
    assert why(convolution(4, 18, (5, 5), (3, 3))()) == ("the output channels are no multiple of 4")
    net = Net()
    plain = net, net.conv(net.op("Relu", net.input(1, 4, 5, 5)), 16)
    assert why(plain) == "what is multiplied is not bf16 on both sides"
    net = Narrow()
    both = [net.wide(net.input(*shape, dtype=_TYPE)) for shape in ((6, 8), (8, 16))]
    assert why((net, net.op("MatMul", *both))) == (
        "it is no sum of products with constant weights, output channels fastest"
    )
