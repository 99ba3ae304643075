"""Orders of sums: equal ones give equal bits, and threads do not choose between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.attention.test_attention import attending
from tests.kernels.tasks import all_tasks_of, computed, memory_of
from tests.plan.nets import Net
from tests.turns import a_few, in_turn
from weft.codegen.flavours import flavour_named
from weft.errors import InternalError
from weft.kernels import nest, selection
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.selection import alternatives, generate, implementer, usual
from weft.kernels.task import Task
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.to_program import lower
from weft.plugins import Kind, Table
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.targets.find import target

Made = tuple[Net, str]
SEVERAL = (2, 3, 4, 6, 8, 16)
"""Numbers of threads."""


def convolution(channels: int, filters: int, size: int, kernel: int = 3, stride: int = 1) -> Made:
    net = Net()
    x = net.op("Relu", net.input(1, channels, size, size))
    y = net.conv(x, filters, kernel, pad=kernel // 2, stride=stride)
    return net, net.op("Relu", y)


def one_filter() -> Made:
    net = Net()
    return net, net.conv(net.input(1, 32, 4, 5), 1, 1)


def dense() -> Made:
    net = Net()
    return net, net.dense(net.input(9, 40), 21)


def pooled() -> Made:
    net = Net()
    return net, net.op("MaxPool", net.input(1, 5, 9, 8), kernel=(3, 3), strides=(2, 2))


def softmax() -> Made:
    net = Net()
    return net, net.op("Softmax", net.input(3, 37))


def wide_padding() -> Made:
    net = Net()
    return net, net.op(
        "MaxPool", net.input(1, 8, 6000), kernel=(3,), dilations=(2000,), pads=(2000, 2000)
    )


NETS: dict[str, Callable[[], Made]] = {
    "winograd": lambda: convolution(5, 21, 6),
    "few channels": lambda: convolution(16, 3, 5, 1),
    "strided": lambda: convolution(16, 19, 7, stride=2),
    "one filter": one_filter,
    "dense": dense,
    "pooled": pooled,
    "softmax": softmax,
    "attention": lambda: attending(2, 5, 530, 4, 3, scale=0.5),
}


def tasks(made: Made, machine: str = "x86-avx512") -> list[Task]:
    net, value = made
    return all_tasks_of(net, value, machine=machine)


# --- what they promise ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "machine"), in_turn([(name,) for name in NETS], ["x86-avx512", "x86-sse2"])
)
def test_equal_sums_are_equal_bits(name: str, machine: str) -> None:
    for task in tasks(NETS[name](), machine):
        memory = memory_of(task)
        found: dict[Sums, set[bytes]] = {}
        for each in alternatives(task):
            made = each.make()
            if made is not None:
                found.setdefault(each.sums, set()).add(computed(task, made, memory).tobytes())
        assert all(len(bits) == 1 for bits in found.values())


@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("winograd", {("winograd", (4,)), ("winograd", (2,)), ("tiled", (1,))}),
        ("few channels", {("tiled", (1,)), ("tiled", (2,)), ("tiled", (16,))}),
        ("attention", {("attention", ()), ("attention", (4, 2)), ("attention", (8, 2))}),
    ],
)
def test_families_that_round_otherwise_have_other_sums(name: str, sums: set[tuple]) -> None:
    (task,) = [each for each in tasks(NETS[name]()) if len(alternatives(each)) > 3]
    memory = memory_of(task)
    bits: dict[tuple[str, tuple[int, ...]], bytes] = {}
    for each in alternatives(task):
        made = each.make()
        if made is not None:
            bits[each.sums.loops, each.sums.sizes] = computed(task, made, memory).tobytes()
    assert sums <= bits.keys()
    assert len({bits[each] for each in sums}) == len(sums)


@pytest.mark.parametrize(
    ("name", "machine"),
    in_turn([(name,) for name in [*NETS, "wide padding"]], ["generic", "x86-sse2", "x86-avx512"]),
)
def test_whether_an_alternative_applies_is_known_before_it_is_written(
    name: str, machine: str
) -> None:
    made = wide_padding() if name == "wide padding" else NETS[name]()
    for task in tasks(made, machine):
        for each in alternatives(task):
            assert each.applies() == (each.make() is not None)


def test_very_wide_padding_is_not_tiled() -> None:
    offered = [each for task in tasks(wide_padding()) for each in alternatives(task)]
    assert not all(each.applies() for each in offered if each.sums.loops == "tiled")


# --- what threads choose --------------------------------------------------------------------


def convolved(made: Made) -> Task:
    """The one task that has Winograd kernels."""
    (found,) = [
        task
        for task in tasks(made)
        if any(each.sums.loops == "winograd" for each in alternatives(task))
    ]
    return found


def chosen(task: Task) -> Sums:
    """The sums of the alternative that is generated."""
    scheme = generate(task).scheme
    (found,) = [each for each in alternatives(task) if each.name == scheme]
    assert usual(task).name == scheme
    return found.sums


SHAPES = [
    (128, 32, 14),
    (128, 32, 7),
    (64, 128, 56, 3, 2),
    (128, 128, 28),
    (256, 256, 14),
    (160, 320, 7),
    (32, 64, 14),
    (48, 192, 13),
]


@pytest.mark.parametrize(
    ("shape", "machine"),
    in_turn([(shape,) for shape in SHAPES], ["x86-avx2", "x86-avx512", "aarch64-neon"], every=2),
)
def test_any_number_of_threads_adds_up_as_one(shape: tuple[int, ...], machine: str) -> None:
    for task in tasks(convolution(*shape), machine):
        wanted = chosen(task)
        assert {chosen(replace(task, threads=count)) for count in SEVERAL} == {wanted}


def test_threads_still_choose_among_equal_sums() -> None:
    """Tiles of a Winograd kernel are cut for threads; its family is that of one thread."""
    task = convolved(convolution(128, 32, 14))
    names = [generate(replace(task, threads=count)).scheme for count in (1, 2)]
    assert names[0] != names[1]
    assert all(name.startswith("winograd-f4-") for name in names)
    # By estimate another family would be better for two.
    assert alternatives(replace(task, threads=2))[0].name.startswith("winograd-f2-")


def test_a_named_alternative_is_taken_whatever_its_sums() -> None:
    task = replace(convolved(convolution(128, 32, 14)), threads=2)
    assert generate(task, "winograd-f2-13").scheme == "winograd-f2-13"


def only_generator(monkeypatch: pytest.MonkeyPatch, generator: Generator) -> None:
    """Leaves one generator in the table."""
    known = Table(Kind.GENERATORS, {generator.name: generator}, lambda _, part: generator)
    monkeypatch.setattr(selection, "GENERATORS", known)
    monkeypatch.setenv("WEFT_PLUGINS", "off")


def test_what_does_not_apply_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first alternative that applies to one thread decides, not the first of all."""

    def propose(task: Task) -> tuple[Alternative, ...]:
        cheap = 1.0 if task.threads == 1 else 3.0
        kernel = nest_of(task)
        return (
            Alternative("none", 0.0, Sums("none"), lambda: None),
            Alternative("left", cheap, Sums("left"), lambda: kernel, always),
            Alternative("right", 2.0, Sums("right"), lambda: kernel, always),
        )

    nest_of = nest.generate
    only_generator(monkeypatch, Generator("made up", "", (), propose))
    task = tasks(dense())[0]
    for count in (1, 2):
        assert generate(replace(task, threads=count)).scheme == "left"
        assert usual(replace(task, threads=count)).name == "left"


def test_where_nothing_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(_: Task) -> tuple[Alternative, ...]:
        return (Alternative("none", 0.0, Sums("none"), lambda: None),)

    only_generator(monkeypatch, Generator("none", "", (), propose))
    with pytest.raises(InternalError, match="no generator accepts mat_mul"):
        generate(tasks(dense())[0])
    only_generator(monkeypatch, Generator("none", "", (), lambda _: Refusal("no")))
    with pytest.raises(InternalError, match="no generator accepts mat_mul"):
        usual(tasks(dense())[0])


# --- compiled -------------------------------------------------------------------------------


def bits(made: Made, threads: int, cache: Cache) -> bytes:
    """The output of a network built for so many threads."""
    net, value = made
    implement = implementer(target("x86-avx512"), threads=threads)
    plan = make(expand(net.graph(value), OPS), OPS, implement, threads, spread=True)
    library = build(lower(plan), flavour_named("gnu"), cache=cache)
    (found,) = library(*net.arrays.values())
    assert np.isfinite(found).all()
    return found.tobytes()


@pytest.mark.parametrize(
    "shape",
    a_few(
        [(shape,) for shape in [(128, 32, 14), (16, 24, 9), (3, 16, 40, 3, 2), (32, 48, 14, 1)]], 1
    ),
)
def test_two_threads_give_the_bits_of_one(
    shape: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    alone, both = (bits(convolution(*shape), threads, cache) for threads in (1, 2))
    assert alone == both


def test_products_are_contracted_alike_however_strips_are_cut(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Branches of the transforms share products, which gcc may not move in front of them."""
    net, cache = Net(), Cache(tmp_path_factory.mktemp("cache"))
    made = net, net.conv(net.input(1, 16, 19, 12), 24, 5, pad=2)
    alone, both = (bits(made, threads, cache) for threads in (1, 2))
    assert alone == both
