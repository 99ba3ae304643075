"""Samples of control flow."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, tensor
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.control import ScanAttributes
from weft.ops.table import OPS


def typed(text: str) -> TensorType:
    found = tensor(text)
    assert found is not None
    return found


def running_sum(shape: str = "f32[2]", state: str = "") -> Graph:
    """One step of ``sum = scale * sum + x``, which is also the scan output."""
    builder = GraphBuilder(OPS, "running_sum")
    total = builder.input("total", typed(state or shape))
    x = builder.input("x", typed(shape))
    scale = builder.input("scale", typed("f32[]"))
    found = builder.op("Add", builder.op("Mul", scale, total), x)
    return builder.graph([found, found])


STEPS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
ZERO, TWO = np.zeros(2, np.float32), np.float32(2)[...]

SAMPLES = [
    Sample(
        "Scan",
        (ZERO, STEPS, TWO),
        ScanAttributes(running_sum(), num_states=1, num_scan_inputs=1),
        outputs=2,
        expected=([15, 22], [[1, 2], [5, 8], [15, 22]]),
    ),
    Sample(
        "Scan",
        (ZERO, STEPS, TWO),
        ScanAttributes(
            running_sum(),
            num_states=1,
            num_scan_inputs=1,
            scan_input_directions=(1,),
            scan_output_directions=(1,),
        ),
        outputs=2,
        expected=([27, 34], [[27, 34], [13, 16], [5, 6]]),
    ),
]
BAD: list[Bad] = [
    Bad(
        "Scan",
        ("f32[2]", "f32[3,3]", "f32[]"),
        "scan: body takes f32[2] as x; got f32[3] (node bad)",
        ScanAttributes(running_sum(), num_states=1, num_scan_inputs=1),
    ),
    Bad(
        "Scan",
        ("f32[2]", "f32[3,2]"),
        "scan: body takes 3 inputs; got 2 (node bad)",
        ScanAttributes(running_sum(), num_states=1, num_scan_inputs=1),
    ),
    Bad(
        "Scan",
        ("f32[1]", "f32[3,2]", "f32[]"),
        "scan: state 0 must keep its type; got f32[1] before and f32[2] after a step (node bad)",
        ScanAttributes(running_sum(state="f32[1]"), num_states=1, num_scan_inputs=1),
    ),
    Bad(
        "Scan",
        ("f32[2]", "f32[3,2]", "f32[]"),
        "scan: there must be one direction for each scan input and output; "
        "got [0, 1], [] (node bad)",
        ScanAttributes(
            running_sum(), num_states=1, num_scan_inputs=1, scan_input_directions=(0, 1)
        ),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "Scan",
        ("f32[N,2]", "f32[3,2]", "f32[]"),
        ("f32[N,2]",),
        ScanAttributes(
            Graph(
                "first",
                ("state", "x", "scale"),
                ("state",),
                (),
                {
                    "state": typed("f32[N,2]"),
                    "x": typed("f32[2]"),
                    "scale": typed("f32[]"),
                },
            ),
            num_states=1,
            num_scan_inputs=1,
        ),
    ),
]
