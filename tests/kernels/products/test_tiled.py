"""Register tiles: equal to the plain loops, whatever the shapes."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.kernels.tasks import assert_as_nest, tasks_of, tiled_kernel
from tests.plan.nets import Net
from tests.turns import a_few, examples
from weft.dtypes import DType
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.products import microkernel
from weft.kernels.products.tile_form import Order, usual_form
from weft.loops.nodes import For, Kernel, Local, LoopKind
from weft.loops.statements import stored, walk_stmts
from weft.loops.text import show, show_expr
from weft.loops.walk import index
from weft.plan.implementation import Implementation
from weft.plan.work import stages_of

MACHINES = ("x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon")


def tiled_ones(net: Net, *outputs: str, machine: str = "x86-avx2") -> list[Implementation]:
    """The kernels of a net; each is checked against the plain loops."""
    found: list[Implementation] = []
    for task in tasks_of(net, *outputs, machine=machine):
        made = tiled_kernel(task)
        assert made is not None, show_task(task)
        assert_as_nest(task, made)
        found.append(made)
    return found


def show_task(task) -> str:
    return f"{task.compute.axes} {task.inputs}"


def accumulators(kernel: Kernel) -> set[tuple[int, ...]]:
    """Shapes of the register tiles: positions by lanes."""
    return {each.buffer.shape for each in walk_stmts(kernel.body) if isinstance(each, Local)}


# --- convolutions ---------------------------------------------------------------------------


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Net, str]:
    """A convolution of any shape that takes few operations."""

    def pick(*choices: int) -> int:
        return draw(st.sampled_from(choices))

    image = [pick(1, 2, 3, 5, 7, 12, 17) for _ in range(pick(1, 2, 2, 2))]
    kernel = tuple(pick(1, 2, 3, 3, 5) for _ in image)
    dilations = tuple(pick(1, 1, 2, 3) for _ in image)
    strides = tuple(pick(1, 1, 2, 3, 4) for _ in image)
    pads = tuple(pick(0, 1, 1, 2, 3) for _ in (*image, *image))
    for size, k, d, before, after in zip(
        image, kernel, dilations, pads[: len(image)], pads[len(image) :], strict=True
    ):
        assume(size + before + after >= d * (k - 1) + 1)
    groups = pick(1, 1, 1, 2, 3)
    inputs, outputs = groups * pick(1, 2, 3, 5, 8), groups * pick(1, 2, 3, 7, 8, 17, 32)
    assume(prod(image) * prod(kernel) * inputs // groups * outputs < 20_000)
    net = Net(draw(st.integers(0, 9)))
    x = net.input(pick(1, 1, 2), inputs, *image)
    weight = net.constant(outputs, inputs // groups, *kernel)
    bias = [net.constant(outputs)] if pick(0, 1) else []
    made = net.op(
        "Conv",
        x,
        weight,
        *bias,
        kernel=kernel,
        dilations=dilations,
        strides=strides,
        pads=pads,
        groups=groups,
    )
    return net, net.op("Relu", made) if pick(0, 1) else made


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(convolutions(), st.sampled_from(MACHINES))
def test_convolutions(case, machine):
    net, made = case
    for task in tasks_of(net, made, machine=machine):
        found = tiled_kernel(task)
        if found is not None:
            assert_as_nest(task, found)


@pytest.mark.parametrize("machine", a_few(MACHINES))
@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "attributes"),
    [
        (3, 8, 9, {}),
        (3, 20, 9, {"stride": 2}),
        (2, 16, 12, {"dilation": 2}),
        (8, 16, 6, {"kernel": 1}),
        (4, 13, 7, {"kernel": (5, 3)}),
        (8, 24, 9, {"groups": 8}),
        (8, 32, 7, {"groups": 2}),
        (16, 16, 1, {}),
        (3, 5, 16, {"kernel": 7, "stride": 4}),
        (2, 9, 5, {"pad": 2}),
        (2, 7, 11, {"kernel": 2, "pad": 0, "stride": 5}),
    ],
)
def test_usual_convolutions_are_tiled(inputs, outputs, size, attributes, machine):
    net = Net()
    x = net.input(1, inputs, size, size)
    options = {"kernel": 3, **attributes}
    tiled_ones(net, net.op("Relu", net.conv(x, outputs, **options)), machine=machine)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_depthwise_convolutions_are_tiled(kernel, stride):
    net = Net()
    x = net.conv(net.input(1, 3, 9, 9), 20, 1)
    tiled_ones(net, net.op("Relu", net.conv(x, 20, kernel, stride=stride, groups=20)))


def test_residuals_are_read_in_the_epilogue():
    net = Net()
    x = net.conv(net.input(1, 8, 7, 7), 8)
    made = tiled_ones(net, net.op("Relu", net.op("Add", net.conv(net.conv(x, 8), 8), x)))
    assert [len(each.operands) for each in made] == [3, 3, 4, 1]


def test_transposed_convolutions_are_vectors_of_channels():
    net = Net()
    x, weight = net.input(1, 4, 5, 5), net.constant(4, 16, 4, 4)
    made = net.op("ConvTranspose", x, weight, kernel=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1))
    (first, _) = tiled_ones(net, made)
    assert first.operands[-1].packing is not None
    assert accumulators(first.kernel) == {(1, 8)}


# --- everything else ------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(1, 9, 5), (7, 8, 32), (13, 3, 50), (4, 1, 1)]
)
def test_matrix_products(rows, inner, columns, machine):
    net = Net()
    x = net.input(rows, inner)
    made = [net.dense(x, columns), net.op("MatMul", x, net.input(inner, columns))]
    tiled_ones(net, *made, machine=machine)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("channels", [2, 5, 16])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_pools(op, channels, kernel, stride, pad):
    net = Net()
    x = net.conv(net.input(1, 3, 9, 8), channels, 1)
    attributes = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
    tiled_ones(net, net.op(op, x, **attributes))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_reductions_along_vectors(axes):
    net = Net()
    tiled_ones(net, net.op("ReduceSum", net.input(4, 5, 19), axes=axes, keepdims=0))


@pytest.mark.parametrize("dims", [(1,), (7,), (16,), (3, 5), (4, 6, 33)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.I8])
def test_elementwise(dims, dtype):
    net = Net()
    x, row = net.input(*dims, dtype=dtype), net.input(dims[-1], dtype=dtype)
    tiled_ones(net, net.op("Mul", net.op("Add", x, row), x))


def test_axes_that_are_named_as_the_loops_of_a_generator():
    # The definition of a product has an axis ``p`` where an equation says so.
    net = Net()
    x, y = net.input(5, 6), net.input(6, 9)
    tiled_ones(net, net.op("Einsum", x, y, equation="pk,kl->pl"))


def test_what_is_declined():
    net = Net()
    declined = [net.op("Softmax", net.input(4, 5), axis=-1)]
    declined.append(net.op("ReduceSum", net.input(4, 5), axes=(1,), keepdims=0))
    assert [tiled_kernel(task) for task in tasks_of(net, *declined)] == [None, None]


# --- what is written ------------------------------------------------------------------------


KERNEL = """\
kernel k(in0: f32[4, 8] strides(1, 4) read, in2: f32[8] strides(1) read, \
in1: f32[1, 3, 4, 8] read, out: f32[8, 8] strides(8, 1) write) {
  local acc0: f32[8, 8] {
    for p in 0..8 unroll {
      for lane in 0..8 vector {
        acc0[p, lane] = 0.0
      }
    }
    for k in 0..4 {
      for p in 1..8 unroll {
        for lane in 0..8 vector {
          acc0[p, lane] = acc0[p, lane] + in0[k, p - 1] * in1[0, 0, k, lane]
        }
      }
    }
    for k in 0..4 {
      for p in 0..8 unroll {
        for lane in 0..8 vector {
          acc0[p, lane] = acc0[p, lane] + in0[k, p] * in1[0, 1, k, lane]
        }
      }
    }
    for k in 0..4 {
      for p in 0..7 unroll {
        for lane in 0..8 vector {
          acc0[p, lane] = acc0[p, lane] + in0[k, p + 1] * in1[0, 2, k, lane]
        }
      }
    }
    for p in 0..8 unroll {
      for lane in 0..8 vector {
        out[p, lane] = max(acc0[p, lane] + in2[lane], 0.0)
      }
    }
  }
}
"""


def test_the_kernel_of_a_convolution_without_padding_in_memory():
    net = Net()
    x = net.conv(net.input(1, 2, 1, 8), 4, 1)
    made = tiled_ones(net, net.op("Relu", net.conv(x, 8, (1, 3))))
    assert show(made[1].kernel) == KERNEL


def test_tiles_between_the_borders_are_a_loop():
    net = Net()
    x = net.conv(net.input(1, 2, 1, 43), 4, 1)
    kernel = tiled_ones(net, net.conv(x, 8, (1, 3)))[1].kernel
    left, loop, right = kernel.body
    assert isinstance(left, Local)
    assert isinstance(right, Local)
    assert isinstance(loop, For)
    assert (loop.var, loop.start, loop.stop) == ("tile", index(0), index(4))


@pytest.mark.parametrize(("blocks", "share"), [(5, 10), (4, 8)])
def test_threads_share_tiles_of_small_images_evenly(blocks, share):
    net = Net()
    x = net.conv(net.input(1, 8, 7, 7), 16, 1)
    task = tasks_of(net, net.conv(x, 32 * blocks, 1), machine="x86-avx512")[1]
    made = tiled_kernel(task)
    assert made is not None
    assert_as_nest(task, made)
    (stage,) = stages_of(made.kernel)
    (cut,) = stage.ranges.values()
    # Tiles of 13, 12, 12 and 12 of 49 positions for every block of 32 channels.
    assert cut.extents == (blocks, 4)
    assert cut.total == 2 * share


def test_tiles_fit_the_registers():
    net = Net()
    x = net.input(1, 8, 28, 28)
    for machine, registers, lanes in (("x86-avx2", 16, 8), ("x86-avx512", 32, 16)):
        (task, _) = tasks_of(net, net.conv(x, 64), machine=machine)
        made = tiled_kernel(task)
        assert made is not None
        shapes = accumulators(made.kernel)
        assert {lane for _, lane in shapes} == {lanes}
        vectors = sum(isinstance(each, Local) for each in walk_stmts(made.kernel.body)) // 3
        for positions, _ in shapes:
            assert registers // 2 <= positions * max(vectors, 2) < registers


@pytest.mark.parametrize(("channels", "kind"), [(16, LoopKind.UNROLL), (64, LoopKind.SERIAL)])
def test_tiles_are_unrolled_where_registers_hold_them(channels, kind):
    net = Net()
    x = net.input(1, 8, 12, 12)
    (made, _) = tiled_ones(net, net.conv(x, channels), machine="generic")
    loops = [each for each in walk_stmts(made.kernel.body) if isinstance(each, For)]
    kinds = {each.kind for each in loops if each.var == "p"}
    assert kinds == {kind}


def test_hints_stay_inside_an_image_that_the_window_is_taller_than():
    net = Net()
    x, weight = net.input(1, 2, 2, 2), net.constant(14, 1, 3, 2)
    window = {"kernel": (3, 2), "pads": (0, 0, 1, 3), "strides": (1, 1), "dilations": (1, 1)}
    tiled_ones(net, net.op("Conv", x, weight, groups=2, **window), machine="x86-sse2")


def test_vectors_have_constant_extents():
    net = Net()
    for made in tiled_ones(net, net.conv(net.input(1, 3, 7, 7), 13)):
        for stmt in walk_stmts(made.kernel.body):
            if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR:
                assert (stmt.start.value, stmt.stop.value) in {(0, n) for n in (8, 4, 2, 1)}


@pytest.mark.parametrize(("shape", "lines"), [((9, 11, 32), 1), ((8, 8, 32), 1), ((3, 40, 32), 0)])
def test_long_sums_are_taken_line_by_line(shape, lines):
    # Their rounding grows with the number of terms.
    net = Net()
    made = tiled_ones(net, net.op("ReduceSum", net.input(*shape), axes=(0, 1), keepdims=0))[0]
    locals = {each.buffer.name for each in walk_stmts(made.kernel.body) if isinstance(each, Local)}
    assert ("line0" in locals) == bool(lines)


@pytest.mark.parametrize(("terms", "blocks"), [(64, False), (127, False), (128, True), (523, True)])
@pytest.mark.parametrize("machine", ["x86-avx2", "cortex-m4"])
def test_long_sums_of_products_are_taken_in_blocks(terms, blocks, machine):
    net = Net()
    product = net.op("MatMul", net.input(5, terms), net.constant(terms, 8))
    (made,) = tiled_ones(net, product, machine=machine)
    locals = {each.buffer.name for each in walk_stmts(made.kernel.body) if isinstance(each, Local)}
    # Memory without caches is short for the sums of other blocks.
    assert ("total0" in locals) == (blocks and machine != "cortex-m4")


def blocks_kept(net: Net, *outputs: str, check: bool) -> list[tuple[str, str]]:
    """The positions whose sums are cleared or kept in memory, loop by loop."""
    (task,) = tasks_of(net, *outputs, machine="x86-avx2")
    made = tiled_kernel(task)
    assert made is not None
    if check:
        assert_as_nest(task, made)
    return [
        (show_expr(each.start), show_expr(each.stop))
        for each in walk_stmts(made.kernel.body)
        if isinstance(each, For) and each.var == "p" and "total0" in stored(each.body)
    ]


def test_blocks_of_a_tile_end_together():
    net = Net()
    product = net.op("MatMul", net.input(12, 256), net.constant(256, 8))
    # All are cleared first.
    assert blocks_kept(net, product, check=True) == [("0", "6"), ("0", "6")]


def test_blocks_of_half_of_a_tile_of_a_large_product_end_half_a_block_before_the_others(
    monkeypatch: pytest.MonkeyPatch,
):
    net = Net()
    large = net.op("MatMul", net.input(516, 256), net.constant(256, 512))
    assert blocks_kept(net, large, check=False)[:3] == [("0", "6"), ("0", "3"), ("3", "6")]
    # What is computed is checked of a small one.
    monkeypatch.setattr(microkernel, "STAGGERED", 1)
    net = Net()
    small = net.op("MatMul", net.input(12, 256), net.constant(256, 8))
    assert blocks_kept(net, small, check=True) == [("0", "6"), ("0", "3"), ("3", "6")]


@pytest.mark.parametrize(
    ("ending", "terms", "loop"),
    [("Sigmoid", 64, True), ("Relu", 64, False), ("Sigmoid", 9, False)],
)
def test_functions_of_sums_are_one_text_for_all_positions(ending, terms, loop):
    net = Net()
    product = net.op("MatMul", net.input(24, terms), net.constant(terms, 8))
    (made,) = tiled_ones(net, net.op(ending, product))
    ends = [
        each
        for each in walk_stmts(made.kernel.body)
        if isinstance(each, For) and made.kernel.params[-1].name in stored(each.body)
    ]
    positions = [each for each in ends if each.var == "p"]
    assert positions
    assert {each.kind is LoopKind.SERIAL for each in positions} == {loop}


def test_blocks_of_sums_end_at_borders():
    net = Net()
    made = tiled_ones(net, net.conv(net.input(1, 33, 5, 4), 8, kernel=3, pad=1))
    assert any(
        isinstance(stmt, Local) and stmt.buffer.name == "total0"
        for each in made
        for stmt in walk_stmts(each.kernel.body)
    )


def test_long_sounds_go_tile_by_tile_through_all_channels() -> None:
    """Of a channel block by block a line of every position would come from beyond the caches."""
    net = Net()
    window = {"kernel": (3,), "pads": (2, 2), "dilations": (2,), "groups": 512}
    found = [
        usual_form(contraction)
        for steps in (600, 60)
        for task in tasks_of(
            net,
            net.op("Conv", net.input(1, 512, steps), net.constant(512, 1, 3), **window),
            machine="x86-avx512",
        )
        if isinstance(contraction := contraction_of(task), Contraction) and contraction.reduce
    ]
    assert [form.order for form in found] == [Order.TILES, Order.OUTERMOST]
