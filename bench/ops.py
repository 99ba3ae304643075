"""Times single operators beside onnxruntime's kernels, one thread, float32.

    python -m bench.ops                            all, some minutes
    python -m bench.ops --names conv pool          those whose names have one of these in them
    python -m bench.ops --channels-last            images lie channels last for both ends of Weft
    python -m bench.ops --clock cpu                processor time, for a busy machine
    python -m bench.ops --out build/bench            where ops.md goes

A net of one operator shows kernels and layouts without fusion around them.  Inputs and outputs
are the caller's and bound, rounds alternate, and the least time of each counts: both are held
against what the machine can do.  With `--channels-last` Weft's nets have a Transpose at each
image, so that what is timed is the kernel inside a network; onnxruntime still gets the plain net.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, shape_inference

import weft
from bench.figures import geometric_mean, markdown, number
from bench.worker import CLOCKS
from weft.runtime.limits import processor_name

OPSET = 21
LEAST = 2_000_000
"""Nanoseconds of one round: shorter runs are repeated."""


@dataclass(frozen=True)
class Case:
    """A net of one operator.

    Attributes:
        name: for the table.
        op: the operator.
        inputs: shapes.
        attributes: of the node.
        constants: further inputs; a shape stands for random float32 numbers.
        outputs: how many.
        gaps: places of inputs that are left out.
        positive: whether inputs must be.
    """

    name: str
    op: str
    inputs: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[np.ndarray | tuple[int, ...], ...] = ()
    outputs: int = 1
    gaps: tuple[int, ...] = ()
    positive: bool = False


def _windows(
    name: str,
    x: tuple[int, ...],
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    transposed: bool = False,
) -> Case:
    """A convolution that keeps the size of the image but for its stride."""
    rank = len(x) - 2
    taps = (kernel,) * rank
    weight = (x[1], channels, *taps) if transposed else (channels, x[1] // groups, *taps)
    attributes = {
        "kernel_shape": taps,
        "strides": (stride,) * rank,
        "dilations": (dilation,) * rank,
        "pads": ((kernel - 1) * dilation // 2,) * (2 * rank),
        "group": groups,
    }
    op = "ConvTranspose" if transposed else "Conv"
    return Case(name, op, (x,), attributes, (weight, (channels,)))


def _pool(name: str, op: str, x: tuple[int, ...], kernel: int, stride: int) -> Case:
    rank = len(x) - 2
    pads = ((kernel - 1) // 2,) * (2 * rank)
    shape = {"kernel_shape": (kernel,) * rank, "strides": (stride,) * rank, "pads": pads}
    return Case(name, op, (x,), shape)


def _integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE = (1, 64, 56, 56)
LARGE = (1, 64, 112, 112)
CUBE = (64, 128, 64)
HALVED = np.array([1, 1, 2, 2], np.float32)

CASES: tuple[Case, ...] = (
    _windows("conv 3x3", IMAGE, 64, 3),
    _windows("conv 5x5", (1, 64, 28, 28), 64, 5),
    _windows("conv 7x7", (1, 32, 56, 56), 32, 7),
    _windows("conv 11x11 stride 4", (1, 3, 224, 224), 64, 11, stride=4),
    _windows("conv 3x3 dilation 2", IMAGE, 64, 3, dilation=2),
    _windows("conv 3x3, 4 groups", IMAGE, 64, 3, groups=4),
    _windows("conv 3x3, 32 groups", (1, 256, 28, 28), 256, 3, groups=32),
    _windows("conv 3x3, batch 8", (8, 64, 28, 28), 64, 3),
    _windows("conv 1 to 1", (1, 1, 224, 224), 1, 3),
    _windows("conv 1 to 32", (1, 1, 112, 112), 32, 3),
    _windows("conv 32 to 1", (1, 32, 112, 112), 1, 3),
    _windows("conv 32 to 3", (1, 32, 256, 256), 3, 3),
    _windows("conv 17 to 19", (1, 17, 56, 56), 19, 3),
    _windows("conv1d 9", (1, 64, 1024), 64, 9),
    _windows("conv3d 3x3x3", (1, 32, 16, 28, 28), 32, 3),
    _windows("conv3d stem", (1, 3, 16, 56, 56), 32, 3, stride=2),
    _windows("transposed conv 4x4 stride 2", (1, 64, 32, 32), 64, 4, stride=2, transposed=True),
    _windows("transposed conv 2x2 stride 2", (1, 128, 28, 28), 64, 2, stride=2, transposed=True),
    _windows("transposed conv 3x3", (1, 64, 32, 32), 64, 3, transposed=True),
    _windows("transposed conv 32 to 3", (1, 32, 64, 64), 3, 3, stride=2, transposed=True),
    _windows("depthwise 3x3", (1, 128, 56, 56), 128, 3, groups=128),
    _windows("depthwise 5x5 stride 2", (1, 128, 56, 56), 128, 5, stride=2, groups=128),
    _windows("depthwise 3x3, 2 each", IMAGE, 128, 3, groups=64),
    _windows("depthwise conv1d 7", (1, 256, 1024), 256, 7, groups=256),
    _pool("max pool 3x3 stride 2", "MaxPool", LARGE, 3, 2),
    _pool("average pool 2x2", "AveragePool", LARGE, 2, 2),
    _pool("max pool 3x3x3 stride 2", "MaxPool", (1, 32, 16, 28, 28), 3, 2),
    Case("global average pool", "GlobalAveragePool", ((1, 512, 28, 28),)),
    Case("gemm 256", "Gemm", ((256, 256),), {}, ((256, 256), (256,))),
    Case("gemm, transposed", "Gemm", ((128, 512),), {"transB": 1}, ((512, 512), (512,))),
    Case("gemm 37x113x71", "MatMul", ((37, 113),), {}, ((113, 71),)),
    Case("gemv", "MatMul", ((1, 1024),), {}, ((1024, 1024),)),
    Case("matmul of two", "MatMul", ((512, 512), (512, 512))),
    Case("batched matmul of two", "MatMul", ((12, 128, 64), (12, 64, 128))),
    Case(
        "lstm",
        "LSTM",
        ((32, 1, 128),),
        {"hidden_size": 128},
        ((1, 512, 128), (1, 512, 128), (1, 1024)),
        outputs=3,
    ),
    Case(
        "gru",
        "GRU",
        ((32, 1, 128),),
        {"hidden_size": 128, "linear_before_reset": 1},
        ((1, 384, 128), (1, 384, 128), (1, 768)),
        outputs=2,
    ),
    *(
        Case(op.lower(), op, (IMAGE,))
        for op in "Relu Sigmoid Tanh Exp Erf Gelu HardSwish Softplus Mish Sin Cos".split()
    ),
    *(Case(op.lower(), op, (IMAGE,), positive=True) for op in ("Log", "Sqrt")),
    Case("softmax of rows", "Softmax", ((256, 1000),), {"axis": -1}),
    Case("softmax of channels", "Softmax", ((1, 21, 64, 64),), {"axis": 1}),
    Case("layer norm", "LayerNormalization", ((197, 768),), {}, ((768,), (768,))),
    Case("instance norm", "InstanceNormalization", (IMAGE,), {}, ((64,), (64,))),
    Case("group norm", "GroupNormalization", (IMAGE,), {"num_groups": 8}, ((64,), (64,))),
    Case("max over the middle", "ReduceMax", (CUBE,), {"keepdims": 0}, (_integers(1),)),
    Case("sum of all", "ReduceSum", (CUBE,), {"keepdims": 0}),
    Case("argmax", "ArgMax", (CUBE,), {"axis": 2}),
    Case("cumulative sum", "CumSum", (CUBE,), {}, (np.array(1),)),
    Case("top 5", "TopK", ((64, 1000),), {}, (_integers(5),), outputs=2),
    Case("transpose", "Transpose", (CUBE,), {"perm": (2, 1, 0)}),
    Case("transpose to channels last", "Transpose", (IMAGE,), {"perm": (0, 2, 3, 1)}),
    Case("concat", "Concat", (IMAGE, (1, 32, 56, 56)), {"axis": 1}),
    Case("gather rows", "Gather", ((1000, 256),), {}, (np.arange(512) * 7 % 1000,)),
    Case("add, broadcast", "Add", (IMAGE, (1, 64, 1, 1))),
    Case("resize, linear", "Resize", ((1, 32, 64, 64),), {"mode": "linear"}, (HALVED,), gaps=(1,)),
    Case(
        "resize, nearest", "Resize", ((1, 32, 64, 64),), {"mode": "nearest"}, (HALVED,), gaps=(1,)
    ),
    Case("depth to space", "DepthToSpace", ((1, 64, 64, 64),), {"blocksize": 2}),
    Case(
        "pad by reflection",
        "Pad",
        ((1, 32, 64, 64),),
        {"mode": "reflect"},
        (_integers(0, 0, 2, 2, 0, 0, 2, 2),),
    ),
)


def model(case: Case) -> onnx.ModelProto:
    """The net of a case."""
    random = np.random.default_rng(0)
    names = [f"x{place}" for place in range(len(case.inputs))]
    constants: list[onnx.TensorProto] = []
    for place, given in enumerate(case.constants):
        array = given
        if isinstance(given, tuple):
            array = (random.standard_normal(given) * 0.1).astype(np.float32)
        constants.append(numpy_helper.from_array(np.asarray(array), f"c{place}"))
    operands = [*names, *(each.name for each in constants)]
    for gap in case.gaps:
        operands.insert(gap, "")
    outputs = [f"y{place}" for place in range(case.outputs)]
    node = helper.make_node(case.op, operands, outputs, **case.attributes)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, case.inputs, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(outputs[0])]
    graph = helper.make_graph([node], "case", inputs, made, constants)
    opsets = [helper.make_opsetid("", OPSET)]
    whole = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return shape_inference.infer_shapes(whole, strict_mode=True, data_prop=True)


def is_image(case: Case) -> bool:
    """Whether an operator's inputs and output have a batch, channels and a space."""
    rank = len(case.inputs[0])
    return case.inputs[0][0] == 1 and rank >= 3 and all(len(each) == rank for each in case.inputs)


def channels_last(plain: onnx.ModelProto) -> onnx.ModelProto:
    """The net with its images channels last, between transposes."""
    whole = onnx.ModelProto()
    whole.CopyFrom(plain)
    graph = whole.graph
    nodes = list(graph.node)
    before: list[onnx.NodeProto] = []
    for value in graph.input:
        dims = _dims(value)
        rank = len(dims)
        inner = f"{value.name}_first"
        perm = (0, rank - 1, *range(1, rank - 1))
        before.append(helper.make_node("Transpose", [value.name], [inner], perm=perm))
        for node in nodes:
            renamed = [inner if name == value.name else name for name in node.input]
            del node.input[:]
            node.input.extend(renamed)
        turned = (dims[0], *dims[2:], dims[1])
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, turned))
    (output,) = graph.output
    # onnx does not know the shape that some operators give: it is then that of the input.
    dims = _dims(output) or _dims(plain.graph.input[0])
    nodes[0].output[0] = f"{output.name}_first"
    perm = (0, *range(2, len(dims)), 1)
    after = helper.make_node("Transpose", list(nodes[0].output), [output.name], perm=perm)
    turned = (dims[0], *dims[2:], dims[1])
    output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, turned))
    del graph.node[:]
    graph.node.extend([*before, *nodes, after])
    return whole


def _dims(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def arrays_of(case: Case) -> list[np.ndarray]:
    """Random inputs."""
    random = np.random.default_rng(1)
    found = [random.standard_normal(shape).astype(np.float32) for shape in case.inputs]
    return [np.abs(each) for each in found] if case.positive else found


@dataclass(frozen=True)
class Outcome:
    """Microseconds of Weft and of onnxruntime, and Weft's error over the result's range."""

    case: str
    ours: float
    theirs: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times faster Weft is."""
        return self.theirs / self.ours


def measured(case: Case, last: bool, clock: Callable[[], int], rounds: int) -> Outcome:
    """Runs a case on both sides."""
    plain, inputs = model(case), arrays_of(case)
    run, wanted = _session(plain, inputs)
    turned = last and is_image(case) and len(plain.graph.output) == 1
    given = [np.ascontiguousarray(np.moveaxis(x, 1, -1)) if turned else x for x in inputs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        onnx.save(channels_last(plain) if turned else plain, path)
        library = weft.load(path).compile(threads=1).library
    found = library(*given)
    first = np.moveaxis(found[0], -1, 1) if turned else found[0]
    error = float(np.abs(first - wanted).max() / max(np.abs(wanted).max(), 1e-9))
    outputs = [np.empty_like(each) for each in found]
    ours, theirs = _least((lambda: library(*given, out=outputs), run), clock, rounds)
    return Outcome(case.name, ours / 1000, theirs / 1000, error)


def _session(
    plain: onnx.ModelProto, inputs: Sequence[np.ndarray]
) -> tuple[Callable[[], object], np.ndarray]:
    """What runs a net in onnxruntime with its ports bound, and its first output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        plain.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for port, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(port.name, array)
    for port in session.get_outputs():
        binding.bind_output(port.name, "cpu")
    session.run_with_iobinding(binding)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu()[0]


def _least(
    runs: Sequence[Callable[[], object]], clock: Callable[[], int], rounds: int
) -> list[float]:
    """The least nanoseconds of one run of each, over alternating rounds."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            start = clock()
            run()
            count = max(1, LEAST // max(clock() - start, 1))
            start = clock()
            for _ in range(count):
                run()
            best[place] = min(best[place], (clock() - start) / count)
    return best


def report(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of the table, slowest beside onnxruntime first."""
    yield f"# {title}"
    yield ""
    ordered = sorted(outcomes, key=lambda each: each.ratio)
    rows = [
        (
            each.case,
            number(each.ours),
            number(each.theirs),
            number(each.ratio),
            f"{each.error:.0e}",
        )
        for each in ordered
    ]
    yield from markdown(("operator", "Weft µs", "onnxruntime µs", "times faster", "error"), rows)
    yield ""
    yield f"Geometric mean: {number(geometric_mean(each.ratio for each in outcomes))}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Times single operators beside onnxruntime.")
    parser.add_argument("--names", nargs="+", default=[""], help="parts of the names of cases")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args(arguments)
    chosen = [case for case in CASES if any(part in case.name for part in given.names)]
    outcomes: list[Outcome] = []
    for case in chosen:
        outcomes.append(measured(case, given.channels_last, CLOCKS[given.clock], given.rounds))
        print(f"{case.name}: {outcomes[-1].ratio:.2f}", file=sys.stderr, flush=True)
    version = f"onnxruntime {onnxruntime.__version__}"
    title = f"Operators beside {version}, {processor_name()}, {time.strftime('%Y-%m-%d')}"
    text = "\n".join(report(title, outcomes)) + "\n"
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "ops.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
