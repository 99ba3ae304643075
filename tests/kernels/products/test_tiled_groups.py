"""Many rows of a product, group by group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.tasks import assert_as_nest, tasks_of
from tests.plan.nets import Net
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.products.tile_form import TileForm, usual_form
from weft.kernels.products.tiled import write
from weft.plan.work import stages_of


def product(rows: int, inner: int, columns: int, machine: str) -> Contraction:
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(rows, inner), columns), machine=machine)
    parts = contraction_of(task)
    assert isinstance(parts, Contraction)
    return parts


@pytest.mark.parametrize("machine", ["generic", "x86-avx2", "x86-avx512", "aarch64-neon"])
@pytest.mark.parametrize(("rows", "group"), [(33, 8), (32, 8), (9, 4), (31, 100), (40, 1)])
def test_groups_are_as_the_plain_loops(rows: int, group: int, machine: str) -> None:
    parts = product(rows, 3, 70, machine)
    form = TileForm(4, 1, ahead=True, group=group)
    made = write(parts, form)
    assert made is not None
    assert made.scheme == f"tiled-4x1-by{group}-ahead"
    assert_as_nest(parts.task, made)


def test_threads_share_groups() -> None:
    made = write(product(35, 3, 64, "x86-avx512"), TileForm(4, 1, group=16))
    assert made is not None
    (stage,) = stages_of(made.kernel)
    # One group of four tiles, and the other with what is left over.
    assert [each.extents for each in stage.ranges.values()] == [(4, 4), (4,)]


def test_groups_where_caches_are_too_small_for_all_rows() -> None:
    large = product(1024, 1024, 64, "x86-avx512")
    form = usual_form(large)
    row, cache = 4 * 1024, large.task.target.caches[-1]
    assert form.group % form.positions == 0
    assert cache / 8 < form.group * row <= cache / 4
    fewer = product(1024, 1024, 64, "x86-avx2")
    cache = fewer.task.target.caches[-1]
    assert cache / 4 < usual_form(fewer).group * row <= cache / 2
    few = product(128, 1024, 64, "x86-avx512")
    assert usual_form(few) == replace(usual_form(few), group=0)
    # One block of lanes reads the rows once.
    assert not usual_form(product(1024, 1024, 16, "x86-avx512")).group


def test_groups_read_weights_from_memory_again() -> None:
    """Some groups of 18 rows would read less in all, but more of what no cache has."""
    assert not usual_form(product(197, 3072, 768, "x86-avx2")).group
    assert usual_form(product(784, 1536, 384, "x86-avx2")).group == 42
