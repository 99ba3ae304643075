"""Weights of a product with one vector, in streams that are read at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.products.test_tiled_groups import product
from tests.kernels.tasks import assert_as_nest
from weft.dtypes import DType
from weft.kernels.products.tile_form import TileForm, usual_form
from weft.kernels.products.tiled import write
from weft.kernels.products.tiled_choice import propose


@pytest.mark.parametrize("machine", ["generic", "x86-sse2", "x86-avx512", "aarch64-neon"])
@pytest.mark.parametrize("streams", [2, 4, 8])
def test_streams_are_as_the_plain_loops(streams: int, machine: str) -> None:
    # Two and more whole blocks, and a rest whose vectors the streams do not share.
    parts = product(1, 5, 2 * 8 * 16 + 40, machine)
    made = write(parts, TileForm(1, 8, streams=streams))
    assert made is not None
    assert made.scheme == f"tiled-1x8-in{streams}"
    (_, packed, *_) = [each.packing for each in made.operands]
    assert packed is not None
    width = 8 * parts.task.target.lanes(DType.F32)
    assert packed.blocks == parts.lane_extent // width * streams
    assert packed.width == width // streams
    assert_as_nest(parts.task, made)


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "machine", "streams"),
    [
        (1, 4096, 256, "golden-cove", 8),
        (1, 4096, 64, "golden-cove", 1),  # a core's own cache holds it
        (1, 1024, 1024, "golden-cove", 1),  # the next block is fetched ahead
        (7, 4096, 256, "golden-cove", 1),
        (1, 4096, 256, "x86-avx2", 4),
        (1, 1024, 1024, "x86-avx2", 4),  # faster than fetching ahead
        (1, 1024, 64, "x86-avx2", 1),
        (1, 4096, 256, "zen4", 1),
    ],
)
def test_streams_of_weights_that_come_from_memory(
    rows: int, terms: int, columns: int, machine: str, streams: int
) -> None:
    parts = product(rows, terms, columns, machine)
    form = usual_form(parts)
    assert form.streams == streams
    offered = propose(parts.task)
    assert isinstance(offered, tuple)
    names = [each.name for each in offered]
    assert names[0] == form.name
    assert replace(form, streams=1).name in names
    assert any("-in" in name for name in names) == (streams > 1)
