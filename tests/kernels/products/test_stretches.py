"""Long sums, a stretch of their terms at a time: as the plain loops, when, and for threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.tasks import assert_as_nest, computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.products import stretches_choice
from weft.kernels.products.stretches import Stretches, terms_of, write
from weft.kernels.products.stretches_choice import cut_of, cuts
from weft.kernels.products.tile_form import TileForm
from weft.kernels.selection import usual
from weft.kernels.task import Task
from weft.kernels.writer import integer
from weft.loops.nodes import Binary, If, Prefetch, Var
from weft.loops.statements import walk_stmts
from weft.plan.work import stages_of


def product(rows: int, terms: int, columns: int, machine: str = "golden-cove") -> Task:
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(rows, terms), columns), machine=machine)
    return task


def taken_apart(task: Task) -> Contraction:
    parts = contraction_of(task)
    assert isinstance(parts, Contraction)
    return parts


@pytest.mark.parametrize(
    ("rows", "groups", "share", "ahead", "machine"),
    in_turn(
        [
            (33, 2, 1, True),
            (32, 1, 2, False),
            (9, 4, 100, True),
            (31, 3, 2, True),
            (33, 1, 3, False),
            (3, 1, 1, True),
        ],
        ["generic", "x86-avx2", "x86-avx512", "aarch64-neon"],
    ),
)
def test_cuts_are_as_the_plain_loops(
    rows: int, groups: int, share: int, ahead: bool, machine: str
) -> None:
    task = product(rows, 12, 70, machine)
    made = write(taken_apart(task), Stretches(TileForm(4, 1, ahead=ahead), 4, groups, share))
    assert_as_nest(task, made)


def test_what_follows_the_sums_is_done_once() -> None:
    """What is added may lie where the output does, so stretches before the last must not write."""
    net = Net()
    x = net.input(13, 24)
    other = net.op("Sigmoid", net.dense(x, 40))
    last = net.op("Tanh", net.op("Add", net.dense(x, 40), other))
    task = tasks_of(net, last, machine="x86-avx512")[-1]
    made = write(taken_apart(task), Stretches(TileForm(6, 2, ahead=True), 8, 2, 1))
    assert_as_nest(task, made)
    ends = [
        each
        for each in walk_stmts(made.kernel.body)
        if isinstance(each, If) and each.condition == Binary("ge", Var("stretch"), integer(2))
    ]
    assert len(ends) == 4  # whole tiles and what is left over, of whole blocks and of the rest
    stored = [
        stmt
        for each in ends
        for stmt in walk_stmts(each.then)
        if getattr(stmt, "buffer", "") == made.kernel.params[-1].name
    ]
    everywhere = [
        stmt
        for stmt in walk_stmts(made.kernel.body)
        if getattr(stmt, "buffer", "") == made.kernel.params[-1].name
    ]
    assert stored
    assert {*map(id, everywhere)} == {*map(id, stored)}


def test_the_usual_cut_is_as_the_plain_loops() -> None:
    task = product(35, 1024, 32, "haswell")
    made = usual(task).make()
    assert made is not None
    assert made.scheme == "stretches-6x2-by256-in1-ahead"
    assert_as_nest(task, made)


def test_threads_make_the_same_bits() -> None:
    alone = product(35, 1024, 40, "haswell")
    shared = replace(alone, threads=4)
    memory = memory_of(alone)
    one, four = usual(alone), usual(shared)
    assert one.sums == four.sums
    assert one.name.startswith("stretches-")
    made = one.make(), four.make()
    assert made[0]
    assert made[1]
    np.testing.assert_array_equal(
        computed(alone, made[0], memory), computed(shared, made[1], memory)
    )


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8, 16, 48])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(197, 3072, 768), (128, 4096, 1000)])
def test_threads_have_shares_of_like_size(
    rows: int, terms: int, columns: int, threads: int
) -> None:
    task = replace(product(rows, terms, columns), threads=threads)
    cut = next(cuts(taken_apart(task)))
    (stage,) = stages_of(write(taken_apart(task), cut).kernel)
    most, *_ = stage.ranges.values() or [None]
    total = most.total if most else 1
    tiles, blocks = -(-rows // cut.form.positions), columns // (16 * cut.form.vectors)
    each = -(-total // threads) * cut.share * -(-tiles // cut.groups)
    assert each <= 1.35 * tiles * blocks / threads


def test_positions_are_in_groups_where_a_cache_is_too_small_for_a_stretch_of_all() -> None:
    def groups(task: Task) -> int:
        return cut_of(taken_apart(task), TileForm(6, 4), 256).groups

    assert groups(product(197, 3072, 768)) == 1
    # A quarter of 2 MiB holds 512 rows of a stretch, but those a page apart share places.
    assert groups(product(1576, 1280, 768)) == 4
    assert groups(product(1576, 3072, 768)) == 7
    assert groups(product(197, 3072, 768, "zen4")) == 2


def test_hints_lead_to_the_next_block_of_the_same_stretch() -> None:
    task = product(16, 24, 96, "x86-avx512")
    made = write(taken_apart(task), Stretches(TileForm(8, 2, ahead=True), 8, 1, 2))
    hints = [each for each in walk_stmts(made.kernel.body) if isinstance(each, Prefetch)]
    assert hints
    assert all(hint.index[1] == Var("stretch") for hint in hints)
    plain = write(taken_apart(task), Stretches(TileForm(8, 2), 8, 1, 2))
    assert not [each for each in walk_stmts(plain.kernel.body) if isinstance(each, Prefetch)]


@pytest.mark.parametrize(
    ("rows", "terms", "machine", "why"),
    [
        (197, 3072, "generic", "no caches"),
        (197, 3072, "x86-sse2", "take longer"),
        (197, 768, "golden-cove", "caches hold"),
        (600, 768, "golden-cove", "short"),
        (600, 1031, "golden-cove", "no equal stretches"),
        (1, 4096, "golden-cove", "no product"),
    ],
)
def test_what_is_refused(rows: int, terms: int, machine: str, why: str) -> None:
    assert why in refusal(stretches_choice.propose, product(rows, terms, 768, machine))


def test_convolutions_with_windows_are_no_products() -> None:
    net = Net()
    task = tasks_of(net, net.conv(net.input(1, 512, 64, 64), 64, kernel=3), machine="zen4")[-1]
    assert "no product" in refusal(stretches_choice.propose, task)
    image = net.op("Relu", net.conv(net.input(1, 3, 40, 40), 1024, kernel=1))
    layer = net.op("Relu", net.conv(image, 64, kernel=1))
    tasks = tasks_of(net, net.conv(layer, 2, kernel=1), machine="zen4")
    assert [bool(offers(stretches_choice.propose, each)) for each in tasks].count(True) == 1


def test_names_tell_alternatives_apart() -> None:
    task = product(197, 3072, 768)
    found = offers(stretches_choice.propose, task)
    assert len({each.name for each in found}) == len(found) > 4
    assert found[0].cost == min(each.cost for each in found)
    assert usual(task).name == found[0].name == "stretches-6x4-by256-in1-ahead"


@given(st.integers(1, 20000))
def test_stretches_make_up_a_sum(extent: int) -> None:
    for terms in terms_of(extent):
        assert extent % terms == 0
        assert 128 <= terms <= 512
        assert extent // terms >= 2
