"""Chains of kernels run by bands of rows: the same numbers, inside of their memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume

from tests.kernels.batch import Trial, run
from tests.kernels.definitions import evaluate
from tests.kernels.shapes import Shapes
from tests.kernels.tasks import arrays_of, memory_of
from tests.kernels.test_grid import Expected, compiler, drawn, machines
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.kernels.depth_first.chains import Bands, chained, goes_by_rows, strips_of
from weft.kernels.depth_first.fusion_depth import MOST_TRIED, fuser, heights_of
from weft.kernels.depth_first.links import ChainStage, RowWindow, Setting, Stages
from weft.kernels.selection import alternatives, implementer
from weft.loops.verify import verify
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.chain import chains
from weft.plan.fusion import Group, form
from weft.plan.implementation import Implementation
from weft.plan.make import make
from weft.plan.storage import assign
from weft.plan.tensors import only_used, own_outputs, tensor_program
from weft.targets.find import target
from weft.targets.target import Memory

MOST = 60_000
"""Multiplications of a stage."""
IMAGE = (1, 2, 3, 4, 5, 7, 8, 11, 13)
CHANNELS = (1, 2, 3, 5, 8, 16, 17, 24, 33)


def stage(shapes: Shapes, value: str) -> str:
    """One more op that moves a window, or none, over an image."""
    net = shapes.net
    batch, inputs, *image = net.shape(value)
    kind = shapes.one(("pointwise", "pointwise", "depthwise", "depthwise", "conv", "max", "mean"))
    if kind == "pointwise":
        outputs = shapes.one(CHANNELS)
        assume(batch * prod(image) * inputs * outputs <= MOST)
        return shapes.finished(net.conv(value, outputs, 1))
    window = shapes.window(image)
    taps = prod(window["kernel"])
    if kind == "depthwise":
        weight = net.constant(inputs, 1, *window["kernel"], scale=taps**-0.5)
        bias = net.constant(inputs)
        return shapes.finished(net.op("Conv", value, weight, bias, groups=inputs, **window))
    if kind == "conv":
        outputs = shapes.one(CHANNELS)
        assume(batch * prod(image) * taps * inputs * outputs <= MOST)
        weight = net.constant(outputs, inputs, *window["kernel"], scale=(taps * inputs) ** -0.5)
        return shapes.finished(net.op("Conv", value, weight, **window))
    window["pads"] = tuple(0 for _ in window["pads"])
    assume(
        all(
            size > d * (k - 1)
            for size, k, d in zip(image, window["kernel"], window["dilations"], strict=True)
        )
    )
    if kind == "max":
        return net.op("MaxPool", value, **window)
    window["dilations"] = tuple(1 for _ in image)
    return net.op("AveragePool", value, **window)


def chain(shapes: Shapes) -> str:
    net = shapes.net
    image = [shapes.one(IMAGE), shapes.one(IMAGE)]
    value = net.input(shapes.one((1, 1, 1, 2)), shapes.one(CHANNELS), *image)
    for _ in range(shapes.one((2, 2, 3, 4))):
        value = stage(shapes, value)
    return net.op("Relu", value)


def kernels(stages: tuple[ChainStage, ...], turn: int) -> list[Implementation] | None:
    """A kernel by rows for each stage, another one every time."""
    found: list[Implementation] = []
    for place, each in enumerate(stages):
        before = stages[place - 1] if place else None
        offers = alternatives(each.task)[:6]
        first = turn % len(offers)
        for offer in (*offers[first:], *offers[:first]):
            made = offer.make()
            if made is not None and goes_by_rows(each, before, made):
                found.append(made)
                break
        else:
            return None
    return found


def longest(
    net: Net, value: str, machine: str, turn: int = 0
) -> Iterator[tuple[tuple[ChainStage, ...], list[Implementation]]]:
    """The longest part of every chain of a net that can run by bands, and kernels for it."""
    graph = own_outputs(only_used(expand(net.graph(value), OPS)))
    program = tensor_program(graph, OPS)
    storage = assign(program, form(program))
    constants = graph.constants
    taken = Stages(Setting(storage.views, storage.types, constants, target(machine)))
    for places in chains(storage):
        steps = (storage.steps[place] for place in places)
        groups = [step for step in steps if isinstance(step, Group)]
        count = len(groups)
        parts = [(start, stop) for start in range(count) for stop in range(start + 2, count + 1)]
        for start, stop in sorted(parts, key=lambda part: part[0] - part[1]):
            found = taken.of(groups[start:stop])
            made = kernels(found, turn) if found else None
            if found and made:
                yield found, made
                break


def expected(
    stages: tuple[ChainStage, ...],
) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, float]]:
    """Random memory for what a chain reads, and what it writes: one stage after another."""
    memory: dict[str, np.ndarray] = {}
    largest, wanted = 0.0, np.zeros(0)
    for each in stages:
        memory = memory_of(each.task) | memory
        named = {
            buffer.name: memory[value]
            for value, buffer in zip(each.task.values, each.task.inputs, strict=True)
        }
        wanted, sums = evaluate(each.task.compute, each.task.inputs, named)
        memory[each.group.value] = wanted.astype(each.task.output.dtype.numpy).ravel()
        largest = max(largest, sums)
    return memory, (wanted, largest)


def trials(cases: list[tuple[Net, str]], machine: str) -> Iterator[tuple[Trial, Expected]]:
    for turn, (net, value) in enumerate(cases):
        for stages, made in longest(net, value, machine, turn):
            memory, (wanted, largest) = expected(stages)
            rows = stages[-1].rows
            kinds = [Bands(1), Bands(2, 2), Bands(-(-rows // 2)), Bands(rows), Bands(3, 3)]
            for bands in (kinds[turn % 5], kinds[(turn + 1) % 5]):
                whole = chained(stages, made, bands, target(machine))
                verify(whole.kernel)
                label = f"{bands} for {machine}: {[each.group.type for each in stages]}"
                trial = Trial(label, whole.kernel, tuple(arrays_of(whole, memory)))
                yield trial, Expected("tiled", whole.kernel.params[-1], wanted, largest)


@pytest.mark.parametrize(
    ("share", "machine"), in_turn([(share,) for share in range(4)], machines(), every=4)
)
def test_bands(share: int, machine: str, tmp_path: Path) -> None:
    cases = drawn(chain, 16, repeatable=True)[share::4]
    found = list(trials(cases, machine))
    results = run([trial for trial, _ in found], tmp_path, compiler())
    problems = [
        f"{problem}\n  {trial.label}\n{trial.kernel}"
        for (trial, wanted), memory in zip(found, results, strict=True)
        if (problem := wanted.problem(memory))
    ]
    assert not problems, f"{len(problems)} of {len(found)}:\n" + "\n".join(problems[:3])
    assert len(found) >= len(cases)
    assert any(len(trial.kernel.params) > 4 for trial, _ in found)


def inverted(size: int, stride: int) -> tuple[ChainStage, ...]:
    """Expand, depthwise, project."""
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 8, size, size), 24, 1))
    x = net.op("Relu", net.conv(x, 24, 3, stride=stride, groups=24))
    ((found, _),) = longest(net, net.op("Relu", net.conv(x, 8, 1)), "x86-avx2")
    return found


def test_windows_and_strips() -> None:
    stages = inverted(12, 2)
    assert [each.window for each in stages] == [None, RowWindow(2, -1, 1), RowWindow(1, 0, 0)]
    strips = strips_of(stages, 3)
    assert [(each.rows, each.advance, each.above, each.kept) for each in strips] == [
        (7, 6, 1, 1),
        (3, 3, 0, 0),
        (3, 3, 0, 0),
    ]


def test_a_kernel_of_merged_rows_does_not_go_by_rows() -> None:
    stages = inverted(7, 1)
    first = stages[0]
    made = kernels(stages, 0)
    assert made is not None
    assert goes_by_rows(first, None, made[0])
    # Loops over half of the rows are not the loops over rows.
    assert not goes_by_rows(replace(first, rows=first.rows - 1), None, made[0])


def test_bands_that_do_not_fill_the_image_are_not_written_past_it(tmp_path: Path) -> None:
    """The test above can fail: an image of fewer rows than the kernel thinks is overrun."""
    ((stages, made),) = longest(*simple(), "generic")
    whole = chained(stages, made, Bands(3), target("generic"))
    *inputs, output = whole.kernel.params
    short = replace(output, shape=(output.shape[0] - 1, *output.shape[1:]))
    lying = replace(whole.kernel, params=(*inputs, replace(short, strides=output.steps)))
    memory, _ = expected(stages)
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run([Trial("", lying, tuple(arrays_of(whole, memory)))], tmp_path, compiler())


def simple() -> tuple[Net, str]:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 7, 5), 8, 1))
    return net, net.op("Relu", net.conv(x, 8, 3, groups=8))


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 65, 224, 4096])
def test_all_even_heights_are_tried(rows: int) -> None:
    assert heights_of(rows) == sorted({-(-rows // count) for count in range(1, rows + 1)})


def test_heights_of_a_huge_image_are_few() -> None:
    found = heights_of(2**40)
    assert len(found) <= 2 * MOST_TRIED
    assert {found[0], found[-1]} == {1, 2**40}


@pytest.mark.parametrize("threads", [1, 2])
def test_links_larger_than_a_core_s_cache_are_fused_for_any_number_of_threads(threads):
    """Half of what a thread reads another has written: their caches do not add up."""
    machine = target("x86-avx512")
    net = Net()
    size = 56
    assert machine.caches[-1] < 144 * size * size * 4 < 2 * machine.caches[-1]
    wide = net.op("Relu", net.conv(net.input(1, 24, size, size), 144, 1))
    weight = net.constant(144, 1, 3, 3)
    near = net.op("Conv", wide, weight, groups=144, pads=(1, 1, 1, 1), strides=(2, 2))
    graph = expand(net.graph(near), OPS)
    implement, fuse = (each(machine, threads=threads) for each in (implementer, fuser))
    plan = make(graph, OPS, implement, threads, fuse=fuse)
    schemes = [step.implementation.scheme.split("-")[0] for step in plan.steps]
    assert schemes == ["bands", "map"]  # which puts the output in the caller's order


def test_links_that_a_cache_holds_only_without_what_passes_beside_them_are_fused():
    machine = target("x86-avx512")
    size = 56
    link = 144 * size * size * 4
    large = 1.1 * link
    memories = [
        replace(each, bytes=int(large)) if each.bytes == machine.caches[-1] else each
        for each in machine.memories
    ]
    roomy = replace(machine, memories=tuple(memories))
    assert roomy.caches[-1] > link
    net = Net()
    wide = net.op("Relu", net.conv(net.input(1, 24, size, size), 144, 1))
    weight = net.constant(144, 1, 3, 3)
    deep = net.op("Relu", net.op("Conv", wide, weight, groups=144, pads=(1, 1, 1, 1)))
    graph = expand(net.graph(net.conv(deep, 24, 1)), OPS)
    schemes: dict[float, list[str]] = {}
    for each in (roomy, replace(roomy, memories=tuple(_doubled(roomy.memories)))):
        plan = make(graph, OPS, implementer(each), 1, fuse=fuser(each))
        schemes[each.caches[-1]] = [step.implementation.scheme.split("-")[0] for step in plan.steps]
    fused, apart = schemes.values()
    assert fused[0] == "bands"
    assert "bands" not in apart


def _doubled(memories: Sequence[Memory]) -> Iterator[Memory]:
    """Caches twice and more as large as the links of the test above."""
    for each in memories:
        yield replace(each, bytes=4 * each.bytes) if each.bytes > 1 << 20 else each
