"""Max pooling in a convolution's kernel: the bits of both, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.batch import Trial, run
from tests.kernels.tasks import arrays_of, computed, memory_of
from tests.kernels.test_grid import compiler
from tests.plan.nets import Net
from tests.turns import in_turn
from weft import Net as Network
from weft.errors import UserError
from weft.kernels import nest
from weft.kernels.key import layer_key
from weft.kernels.prepare import prepare
from weft.kernels.selection import TaskChoice, alternatives
from weft.kernels.task import Task
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import Group, form
from weft.plan.implementation import Implementation
from weft.plan.storage import assign
from weft.plan.tensors import only_used, own_outputs, tensor_program
from weft.targets.find import target


def pooled_net(
    image: tuple[int, ...], outputs: int, window: tuple[int, int], *, last: bool
) -> tuple[Net, str]:
    """A convolution of an image, channels first or last, max pooling, and a leaky ReLU."""
    net = Net()
    batch, channels, height, width = image
    if last:
        x = net.input(batch, height, width, channels)
        x = net.op("Transpose", x, perm=(0, 3, 1, 2))
    else:
        x = net.input(*image)
    most = net.op("MaxPool", net.conv(x, outputs, 3), kernel=window, strides=window)
    return net, net.op("LeakyRelu", most, alpha=0.1)


def pair_of(net: Net, value: str, machine: str) -> tuple[Task, Task, str]:
    """The tasks of the convolution and of what reads it, and the value between them."""
    graph = own_outputs(only_used(expand(net.graph(value), OPS)))
    program = tensor_program(graph, OPS)
    storage = assign(program, form(program))
    groups = [step for step in storage.steps if isinstance(step, Group)]
    (place,) = (at for at, each in enumerate(groups) if each.nodes[0].op == "Conv")
    first, second = (
        prepare(
            *("k", each, storage.views, storage.types, graph.constants, target(machine)),
            merge=each is not groups[place + 1],
        )
        for each in groups[place : place + 2]
    )
    return first, second, groups[place].value


def kernels(
    first: Task, second: Task, link: str
) -> Iterator[tuple[Implementation, Implementation]]:
    """The kernels of both, each beside that of the convolution alone."""
    for each in {one.sums: one for one in alternatives(first)}.values():
        both = each.pooled(second, link) if each.pooled else None
        alone = each.make()
        if both is not None and alone is not None:
            yield alone, both


MACHINES = ["x86-avx512", "x86-sse2", "x86-avx2", "aarch64-neon"]
CASES = [
    ((1, 3, 5, 8), 16, (2, 2), True, 4),
    ((1, 3, 6, 5), 8, (2, 1), True, 4),
    ((1, 17, 5, 7), 20, (2, 2), False, 2),
    ((1, 2, 8, 5), 24, (4, 2), False, 2),
    ((2, 66, 3, 4), 5, (1, 2), False, 2),
]


@pytest.mark.parametrize(
    ("image", "outputs", "window", "last", "least", "machine"), in_turn(CASES, MACHINES, every=5)
)
def test_the_bits_of_both(
    image: tuple[int, ...],
    outputs: int,
    window: tuple[int, int],
    last: bool,
    least: int,
    machine: str,
    tmp_path: Path,
) -> None:
    first, second, link = pair_of(*pooled_net(image, outputs, window, last=last), machine)
    memory, found = memory_of(first), list(kernels(first, second, link))
    assert len(found) >= least
    wanted: list[np.ndarray] = []
    trials: list[Trial] = []
    for alone, both in found:
        between = {link: computed(first, alone, memory)}
        wanted.append(computed(second, nest.generate(second), between))
        np.testing.assert_array_equal(computed(second, both, memory), wanted[-1])
        trials.append(Trial(both.scheme, both.kernel, tuple(arrays_of(both, memory))))
    flags = ("-O0", "-ffp-contract=off", "-fsanitize=address,undefined")
    for bits, written in zip(wanted, run(trials, tmp_path, compiler(), flags), strict=True):
        np.testing.assert_array_equal(written[: bits.size], bits)


@pytest.mark.parametrize(
    ("op", "options"),
    [
        ("MaxPool", {"kernel": (3, 3), "strides": (2, 2)}),
        ("MaxPool", {"kernel": (2, 2), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("MaxPool", {"kernel": (3, 3), "strides": (3, 3)}),
        ("AveragePool", {"kernel": (2, 2), "strides": (2, 2)}),
    ],
)
def test_windows_that_overlap_tiles_or_are_averaged_stay_apart(
    op: str, options: dict[str, tuple[int, ...]]
) -> None:
    net = Net()
    value = net.op(op, net.conv(net.input(1, 16, 12, 12), 16, 3), **options)
    assert not list(kernels(*pair_of(net, value, "x86-avx512")))


def test_values_that_others_read_are_stored() -> None:
    net = Net()
    made = net.conv(net.input(1, 16, 12, 12), 16, 3)
    most = net.op("MaxPool", made, kernel=(2, 2), strides=(2, 2))
    found = Network(net.graph(most, made)).plan("x86-avx512")
    assert "pooled" not in [step.scheme for step in found.steps]


def test_plans_say_so_and_read_it_again() -> None:
    net, value = pooled_net((1, 16, 12, 12), 24, (2, 2), last=False)
    network = Network(net.graph(value))
    plan = network.plan("x86-avx512")
    (step,) = [step for step in plan.steps if step.scheme == "pooled"]
    conv, most = (made.scheme for _, made in step.stages)
    choices = [made.choice for _, made in step.stages]
    of_conv, of_most = (each.task for each in choices if isinstance(each, TaskChoice))
    assert conv.startswith("winograd-f4")
    assert most == alternatives(of_most)[0].name
    assert str(network.plan_from(str(plan))) == str(plan)
    offered = [each.name for each in alternatives(of_conv)]
    other = next(name for name in offered if name.startswith("winograd-f2-"))
    again = network.plan_from(str(plan).replace(f"kernel {conv},", f"kernel {other},"))
    assert [step.stages[0][1].scheme for step in again.steps if step.stages] == [other]
    tiled = next(name for name in offered if name.startswith("tiled-"))
    with pytest.raises(UserError) as refused:
        network.plan_from(str(plan).replace(f"kernel {conv},", f"kernel {tiled},"))
    said = str(refused.value)
    assert "the kernel of the first stage must do the pooling of the second" in said
    assert tiled in said


def test_exact_plans_sum_as_they_did() -> None:
    net, value = pooled_net((1, 16, 12, 12), 24, (2, 2), last=False)
    plan = Network(net.graph(value)).plan("x86-avx512", exact=True)
    assert "pooled" not in [step.scheme for step in plan.steps]


@pytest.mark.parametrize("stage", [0, 1])
def test_layers_that_choices_name_are_steps_of_their_own(stage: int) -> None:
    net, value = pooled_net((1, 16, 12, 12), 24, (2, 2), last=False)
    network = Network(net.graph(value))
    (pooled,) = [s for s in network.plan("x86-avx512").steps if s.scheme == "pooled"]
    choice = pooled.stages[stage][1].choice
    assert isinstance(choice, TaskChoice)
    name = [each.name for each in alternatives(choice.task)][1]
    plan = network.plan("x86-avx512", choices={layer_key(choice.task): name})
    assert "pooled" not in [step.scheme for step in plan.steps]
    assert name in [step.scheme for step in plan.steps]


def test_small_code_is_asked_of_pooled_layers_too() -> None:
    net, value = pooled_net((1, 16, 12, 12), 24, (2, 2), last=False)
    plan = Network(net.graph(value)).plan("x86-avx512", optimize="size")
    tasks = [
        made.choice.task
        for step in plan.steps
        for made in [step.implementation, *(each for _, each in step.stages)]
        if made is not None and isinstance(made.choice, TaskChoice)
    ]
    assert tasks
    assert {each.optimize for each in tasks} == {"size"}
