"""Summaries of structural differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.dtypes import DType
from weft.explore.comparison import changes_of
from weft.ir.diff import diff
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


def summed(*constants: float) -> Graph:
    builder = GraphBuilder(OPS, "net")
    value = builder.input("x", TensorType(DType.F32, (2,)))
    for place, each in enumerate(constants):
        array = np.full(2, each, np.float32)
        # Names as exporters give them.
        value = builder.op("Add", value, builder.constant(array, f"onnx::Add_{place}"))
    return builder.graph([value])


def test_constants_are_counted_by_their_whole_names():
    found = changes_of(diff(summed(1, 2, 3), summed(4, 5, 3)))
    assert (found.constants, found.changed, found.interface) == (2, 0, ())
    assert str(found) == "2 constants differ"


def test_other_ends_are_no_constants():
    before = summed(1)
    after = replace(before, outputs=("x",))
    found = changes_of(diff(before, after))
    assert found.constants == 0
    assert str(found) == "other inputs or outputs"


def test_the_same_graph():
    assert str(changes_of(diff(summed(1), summed(1)))) == "the same graph"
