"""Alternatives: the same outputs by every one of them, names that tell them apart."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.kernels.tasks import assert_as_nest, tasks_of
from tests.plan.nets import Net
from tests.targets.made import cached
from weft.errors import InternalError
from weft.kernels import selection
from weft.kernels.key import layer_key
from weft.kernels.selection import alternatives, generate
from weft.kernels.task import Task
from weft.loops.nodes import For, Kernel, Prefetch
from weft.loops.statements import walk_stmts
from weft.loops.text import show
from weft.plugins import Kind, Table


def convolution(
    *sizes: int, channels: int = 16, filters: int = 24, taps: int = 3, machine: str = "x86-avx2"
) -> Task:
    """A convolution of an inner value, with a ReLU behind it."""
    net = Net()
    x = net.op("Relu", net.input(1, channels, *sizes))
    y = net.op("Relu", net.conv(x, filters, taps))
    z = net.op("Transpose", y, perm=(0, *range(2, len(sizes) + 2), 1))
    return tasks_of(net, z, machine=machine)[1]


def named(task: Task, *names: str) -> list[Kernel]:
    """Kernels of some alternatives, whether they fetch weights ahead or not."""
    found = {each.name: each for each in alternatives(task)}
    made = [(found.get(name) or found[f"{name}-ahead"]).make() for name in names]
    return [each.kernel for each in made if each is not None]


def outer_variables(kernel: Kernel) -> list[str]:
    """Variables of the loops from the first one on inwards, while they hold one loop."""
    found: list[str] = []
    body = kernel.body
    while body and isinstance(body[0], For):
        found.append(body[0].var)
        body = body[0].body
    return found


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx512"])
@pytest.mark.parametrize("sizes", [pytest.param((5, 4), marks=pytest.mark.thorough), (9,)])
def test_all_alternatives_agree(machine: str, sizes: tuple[int, ...]):
    task = convolution(*sizes, channels=3, filters=21, machine=machine)
    found = alternatives(task)
    assert len(found) >= 4
    for each in found:
        made = each.make()
        if made is not None:
            assert_as_nest(task, made)
            assert made.scheme == each.name


def test_names_tell_alternatives_apart():
    found = alternatives(convolution(28, 28))
    names = [each.name for each in found]
    assert len(set(names)) == len(names)
    texts = [show(made.kernel) for each in found if (made := each.make())]
    assert len(set(texts)) == len(texts) > 8
    assert [each.cost for each in found] == sorted(each.cost for each in found)
    assert math.isfinite(found[0].cost)


def test_the_usual_alternative_comes_first_and_any_can_be_named():
    task = convolution(28, 28)
    usual = generate(task)
    assert usual.scheme == alternatives(task)[0].name
    for name in ("tiled-6x2", "tiled-14x1-tiles", "winograd-f2-14", "nest"):
        assert generate(task, name).scheme == name
    assert generate(task, "unheard of") == usual


def test_exact_kernels_are_not_winograds():
    task = replace(convolution(28, 28), exact=True)
    assert not [each for each in alternatives(task) if each.name.startswith("winograd")]
    assert generate(task, "winograd-f2-14").scheme.startswith("tiled")


def test_a_table_without_a_generator_is_a_bug(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_PLUGINS", "off")
    monkeypatch.setattr(selection, "GENERATORS", Table(Kind.GENERATORS, {}, lambda _, part: part))
    with pytest.raises(InternalError, match="no generator accepts k"):
        generate(convolution(5))


def test_orders_of_loops():
    task = convolution(2, 21, channels=8, filters=96, taps=1)
    outermost, tiles = named(task, "tiled-6x2", "tiled-6x2-tiles")
    assert outer_variables(outermost)[:2] == ["block", "tile"]
    assert outer_variables(tiles)[:2] == ["tile", "block"]
    (rows,) = named(convolution(9, 40, channels=8, filters=96), "tiled-6x2-rows")
    assert outer_variables(rows)[1] == "block"


def test_prefetching_is_a_choice():
    task = convolution(9, 40, channels=8, filters=96)
    plain, ahead = named(task, "tiled-6x2", "tiled-6x2-ahead")
    fetches = [
        any(isinstance(each, Prefetch) for each in walk_stmts(kernel.body))
        for kernel in (plain, ahead)
    ]
    assert fetches == [False, True]


# --- keys -----------------------------------------------------------------------------------


def test_keys_know_no_names_of_values():
    task = convolution(9, 9)
    assert layer_key(task) == layer_key(convolution(9, 9))
    assert layer_key(replace(task, name="other", values=("a", "b", "c"))) == layer_key(task)


def test_keys_know_all_that_matters():
    task = convolution(9, 9)
    slower = cached(task.target, (1024,))
    output = replace(task.output, strides=tuple(2 * step for step in task.output.steps))
    keys = [
        layer_key(task),
        layer_key(convolution(9, 8)),
        layer_key(convolution(9, 9, channels=8)),
        layer_key(convolution(9, 9, filters=8)),
        layer_key(convolution(9, 9, taps=1)),
        layer_key(convolution(9, 9, machine="x86-sse2")),
        layer_key(replace(task, threads=2)),
        layer_key(replace(task, exact=True)),
        layer_key(replace(task, constants=frozenset())),
        layer_key(replace(task, target=slower)),
        layer_key(replace(task, output=output)),
    ]
    assert len(set(keys)) == len(keys)


def test_keys_of_much_sharing_are_short():
    net = Net()
    x = net.input(64)
    for _ in range(30):
        x = net.op("Add", x, x)
    assert all(len(layer_key(task)) < 2000 for task in tasks_of(net, x))
