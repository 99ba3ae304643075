"""Lowering: shared functions and weights, addresses, comments and scans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.plan.nets import Net
from tests.plan.planned import plan_of, program_of
from weft.errors import InternalError
from weft.ir.graph import Origin
from weft.loops.nodes import Kernel
from weft.loops.text import parse, show
from weft.plan.called import in_place
from weft.plan.implementation import Packing
from weft.plan.interpret import run
from weft.plan.lowering import identifier
from weft.plan.program import Address, CallStep, ExternFunction, Program, Region, Repeat
from weft.plan.to_program import lower


def calls(program: Program) -> list[str]:
    return [step.function for step in program.steps if isinstance(step, CallStep)]


# --- functions ------------------------------------------------------------------------------


def test_steps_of_one_signature_share_a_function():
    net = Net()
    x = net.input(1, 4, 6, 6)
    for _ in range(4):
        x = net.op("Relu", net.conv(x, 4))
    program = program_of(net.graph(net.op("GlobalAveragePool", net.conv(x, 4))))
    # The first reads the caller's layout.
    assert calls(program) == ["conv_relu"] + ["conv_relu_2"] * 3 + ["conv", "global_average_pool"]
    assert [function.name for function in program.functions] == [*dict.fromkeys(calls(program))]


def test_functions_and_calls_say_what_they_stand_for():
    net = Net()
    made = net.op("Relu", net.conv(net.input(1, 3, 5, 5), 4))
    graph = net.graph(net.op("GlobalAveragePool", made))
    conv, relu, pool = graph.nodes
    conv = replace(conv, origin=Origin(("/stem/conv",), ("fold-batch-norm",)))
    relu = replace(relu, origin=Origin(("/stem/act",)))
    program = program_of(replace(graph, nodes=(conv, relu, pool)))
    assert program.function_comments[0] == (
        "conv_relu",
        (
            "Conv[kernel=(3, 3), strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1)] + Relu: "
            "image f32[1,3,5,5], filter f32[4,3,3,3], bias f32[4] -> f32[1,4,5,5]",
            "layer /stem/conv",
        ),
    )
    (first, _) = program.steps
    assert isinstance(first, CallStep)
    assert first.comments == ("from /stem/conv, /stem/act", "by fold-batch-norm")


def test_c_bodies_are_functions_with_scratch():
    net = Net()
    x = net.op("Tanh", net.input(6, 4))
    values, places = net.several("TopK", [x], 2, k=3, axis=0)
    program = lower(plan_of(net.graph(values, places)))
    (body,) = (each for each in program.functions if isinstance(each, ExternFunction))
    assert [(each.name, each.writes) for each in body.params][:2] == [
        ("in0", False),
        ("out0", True),
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [("conv1", "conv1"), ("/stem/conv.0", "stem_conv_0"), ("3x3", "n3x3"), ("::", "net")],
)
def test_identifiers(text, name):
    assert identifier(text) == name


# --- in place -------------------------------------------------------------------------------

ADD = """
kernel add(in0: f32[4, 6] strides(6, 1) read, in1: f32[6, 4] strides(1, 6) read,
           out: f32[4, 6] strides(6, 1) write) {
  for i in 0..4 {
    for j in 0..6 {
      out[i, j] = in0[i, j] + in1[j, i]
    }
  }
}
"""


def test_a_parameter_that_walks_alike_is_merged_into_the_output():
    kernel = parse(ADD)
    merged = in_place(kernel, "in1")
    assert [buffer.name for buffer in merged.params] == ["in0", "out"]
    assert "out[i, j] = in0[i, j] + out[i, j]" in show(merged)


def test_a_parameter_that_walks_otherwise_cannot_be():
    kernel = parse(ADD.replace("strides(1, 6)", "strides(4, 1)"))
    with pytest.raises(InternalError, match="add cannot run in place of in1"):
        in_place(kernel, "in1")


def test_a_step_in_place_passes_its_operand_once():
    net = Net()
    x = net.op("CumSum", net.input(4, 6), axis=0)
    program = lower(plan_of(net.graph(net.op("CumSum", net.op("Neg", x), axis=0))))
    step = program.steps[1]
    assert isinstance(step, CallStep)
    assert step.arguments == (Address(Region.ARENA, "", 0),)


# --- weights --------------------------------------------------------------------------------


def test_packing_cuts_an_axis_into_lanes():
    array = np.arange(2 * 10 * 3).reshape(2, 10, 3)
    packed = Packing((2, 10, 3), 1, (2, 0), 2, 2, 4).apply(array)
    assert packed.shape == (2, 3, 2, 4)
    for block in range(2):
        for lane in range(4):
            wanted = array[:, 2 + block * 4 + lane, :].T
            assert (packed[block, :, :, lane] == wanted).all()


def test_packing_puts_neighbours_side_by_side_in_every_lane():
    array = np.arange(5 * 7 * 9).reshape(5, 7, 9)
    packed = Packing((5, 7, 9), 0, (1, 2), 1, 1, 3, 4).apply(array)
    assert packed.shape == (1, 7, 2, 12)  # The ninth is left over.
    for lane in range(3):
        for part in range(4):
            wanted = array[1 + lane, :, part:8:4]
            assert (packed[0, :, :, 4 * lane + part] == wanted).all()


def test_a_weight_that_is_used_twice_is_stored_once():
    net = Net()
    x, weight = net.input(1, 16, 6, 6), net.constant(16, 16, 3, 3)
    for _ in range(2):
        x = net.op("Conv", x, weight, kernel=(3, 3), pads=(1, 1, 1, 1))
    program = program_of(net.graph(net.op("GlobalAveragePool", x)))
    assert list(program.weights) == ["w"]
    assert program.weights["w"].size == weight_size(program)


def weight_size(program: Program) -> int:
    (kernel, *_) = (each for each in program.functions if isinstance(each, Kernel))
    (buffer,) = (each for each in kernel.params if each.name == "filter")
    return int(np.prod(buffer.shape))


def test_constants_that_nothing_reads_are_not_stored():
    net = Net()
    net.constant(1000)
    program = program_of(net.graph(net.op("Mul", net.input(4), net.constant(1))))
    assert program.weights == {}


# --- ports ----------------------------------------------------------------------------------


def test_ports_are_in_the_order_of_the_graph():
    net = Net()
    x, y = net.input(2, 3), net.input(4)
    program = program_of(net.graph(net.op("Exp", y), y, net.op("Reshape", x, shape=(6,))))
    assert [(port.name, port.shape) for port in program.inputs] == [("x", (2, 3)), ("x_1", (4,))]
    assert [(port.name, port.shape) for port in program.outputs] == [
        ("exp_out", (4,)),
        ("x_1_out1", (4,)),
        ("reshape_out", (6,)),
    ]
    assert program.arena_bytes == 0


# --- scans ----------------------------------------------------------------------------------


def sums(count: int, backward: int) -> tuple[Net, str, str]:
    """Running sums of rows, and the last one."""
    inner = Net()
    total, row = inner.input(3), inner.input(3)
    added = inner.op("Add", total, row)
    net = Net()
    final, stacked = net.several(
        "Scan",
        [net.input(3), net.input(count, 3)],
        2,
        body=inner.graph(added, added),
        num_states=1,
        num_scan_inputs=1,
        scan_input_directions=(backward,),
        scan_output_directions=(0,),
    )
    return net, final, stacked


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_is_a_loop_over_pairs_of_iterations(backward):
    net, final, stacked = sums(6, backward)
    program = program_of(net.graph(final, stacked))
    copy, loop = program.steps
    assert isinstance(copy, CallStep)
    assert copy.arguments[1] == Address(Region.OUTPUT, final)
    assert isinstance(loop, Repeat)
    assert (loop.count, loop.comments) == (3, ("Scan scan: 6 iterations",))
    reads = [a for step in loop.body for a in step.arguments if a.region is Region.INPUT]
    step = -12 if backward else 12
    first = 5 * 12 if backward else 0
    assert [read.offset for read in reads] == [first, first + step]
    assert [[each.bytes for each in read.advances] for read in reads] == [[2 * step]] * 2


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("backward", [0, 1])
def test_the_last_iteration_of_a_scan_writes_the_final_state(count, backward):
    net, final, stacked = sums(count, backward)
    program = program_of(net.graph(final, stacked))
    found = run(program, net.arrays)
    rows = net.arrays["x_1"][::-1] if backward else net.arrays["x_1"]
    wanted = net.arrays["x"] + np.cumsum(rows, axis=0)
    np.testing.assert_allclose(found[stacked], wanted, rtol=1e-5)
    np.testing.assert_allclose(found[final], wanted[-1], rtol=1e-5)
    assert isinstance(program.steps[-1], Repeat)


def test_what_nobody_asks_a_scan_for_lies_in_scratch():
    net, final, _ = sums(5, 0)
    program = program_of(net.graph(final))
    *_, loop = program.steps
    assert isinstance(loop, Repeat)
    outputs = {a.name for step in loop.body for a in step.arguments if a.region is Region.OUTPUT}
    assert outputs == {final}
    assert program.arena_bytes >= 2 * 64
