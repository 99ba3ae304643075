"""Times oneDNN's float32 convolutions beside Weft's, layer by layer.

    pip install ./plugins/onednn
    python -m bench.onednn resnet50              one thread
    python -m bench.onednn resnet50 --library /path/to/libdnnl.so.3

The library is called through `ctypes` by the declarations of its C interface, version 3.  It may
also be that of the wheel `onednn`, whose two gigabytes bring SYCL's run time: what it needs is
looked for beside it.  That one runs on Intel's OpenCL device for processors, which costs some
tens of microseconds for every call: layers that take little more say nothing.
Its convolutions choose their algorithm and layouts by
themselves (`auto`, `any`); packing weights and data is not timed.  Each runs on its own again
and again, by one core of this machine, with a bias and without what else Weft fuses; its input
and weights are shared by so many copies that the caches hold none of them when its turn comes.
Weft's layers are timed in place, within whole runs (`weft bench --layers`).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.figures import markdown
from bench.networks import ensure, path_of
from weft import api
from weft.codegen.flavours import flavour_named
from weft.export.golden import sample_inputs
from weft.ops.table import OPS
from weft.plan.fusion import Group
from weft.plan.to_program import lower
from weft.runtime.compiler import find_compiler, machine_flags
from weft.runtime.profile import profile
from weft.targets.find import host

_CPU, _DEFAULT_STREAM, _F32, _ANY = 1, 1, 3, 1
_INFERENCE, _AUTO = 96, 3
_QUERY_SOURCE, _QUERY_WEIGHTS, _QUERY_TARGET = 129, 131, 133
_SOURCE, _TARGET, _WEIGHTS, _BIAS = 1, 17, 33, 41
_QUERY_NAME = 8
_COLD_BYTES = 64 << 20
_RUNS = 30
_QUANTILE = 0.25
"""Of the runs, for what disturbs them only ever takes time."""


@dataclass(frozen=True)
class Shape:
    """A convolution of two axes, batch 1.

    Attributes:
        source: channels, height and width; target: of the result.
        kernel, strides, dilations: of the window; pads: before, then after.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int

    @property
    def flops(self) -> int:
        """Operations, taps on padding included."""
        taps = int(np.prod(self.kernel))
        return 2 * int(np.prod(self.target)) * taps * self.source[0] // self.groups


class _Execution(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_int), ("memory", ctypes.c_void_p))


def loaded(path: Path) -> ctypes.CDLL:
    """A library, with what it needs from its own folder."""
    while True:
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            lacking = re.match(r"(\S+\.so[\d.]*): cannot open", str(error))
            if lacking is None or not (path.parent / lacking[1]).exists():
                raise SystemExit(f"oneDNN cannot be loaded: {error}") from None
            loaded(path.parent / lacking[1])


class OneDnn:
    """The library."""

    def __init__(self, path: Path) -> None:
        device = path.parent / "libintelocl.so"
        if device.exists():
            os.environ.setdefault("OCL_ICD_FILENAMES", str(device))
        self.library = loaded(path)
        self.engine = self.made("engine_create", _CPU, ctypes.c_size_t(0))
        self.stream = self.made("stream_create", self.engine, _DEFAULT_STREAM)

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, f"dnnl_{name}")(*arguments)
        if status:
            raise SystemExit(f"dnnl_{name} returned {status}")

    def made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """What a function creates."""
        found = ctypes.c_void_p()
        self.call(name, ctypes.byref(found), *arguments)
        return found

    def packed(self, *dims: int) -> ctypes.c_void_p:
        """The description of a row-major array."""
        steps = [int(np.prod(dims[place + 1 :])) for place in range(len(dims))]
        count = ctypes.c_int64 * len(dims)
        create = "memory_desc_create_with_strides"
        return self.made(create, len(dims), count(*dims), _F32, count(*steps))

    def any(self, *dims: int) -> ctypes.c_void_p:
        """The description of an array whose layout oneDNN chooses."""
        count = ctypes.c_int64 * len(dims)
        return self.made("memory_desc_create_with_tag", len(dims), count(*dims), _F32, _ANY)

    def memory(self, description: object, array: np.ndarray) -> ctypes.c_void_p:
        return self.made("memory_create", description, self.engine, array.ctypes.data_as(_VOID))

    def execute(self, primitive: object, operands: dict[int, ctypes.c_void_p]) -> None:
        values = [_Execution(arg, memory.value) for arg, memory in operands.items()]
        block = (_Execution * len(values))(*values)
        self.call("primitive_execute", primitive, self.stream, len(values), block)
        self.call("stream_wait", self.stream)

    def reordered(self, array: np.ndarray, description: ctypes.c_void_p) -> np.ndarray:
        """A row-major array in another layout, as bytes that are aligned."""
        source = self.packed(*array.shape)
        self.library.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        size = self.library.dnnl_memory_desc_get_size(description)
        found = aligned(size)
        made = self.made(
            "reorder_primitive_desc_create", source, self.engine, description, self.engine, None
        )
        primitive = self.made("primitive_create", made)
        self.execute(
            primitive,
            {_SOURCE: self.memory(source, array), _TARGET: self.memory(description, found)},
        )
        return found

    def query(self, description: ctypes.c_void_p, what: int) -> ctypes.c_void_p:
        function = self.library.dnnl_primitive_desc_query_md
        function.restype = ctypes.c_void_p
        return ctypes.c_void_p(function(description, what, 0))

    def convolution(self, shape: Shape) -> tuple[float, str, float]:
        """Microseconds, the implementation's name, and the largest error."""
        description = self.described(shape)
        primitive = self.made("primitive_create", description)
        name = ctypes.c_char_p()
        self.call("primitive_desc_query", description, _QUERY_NAME, 0, ctypes.byref(name))
        layouts = [self.query(description, each) for each in
                   (_QUERY_SOURCE, _QUERY_WEIGHTS, _QUERY_TARGET)]  # fmt: skip
        random = np.random.default_rng(0)
        x = random.standard_normal((1, *shape.source), np.float32)
        w = random.standard_normal(weight_shape(shape), np.float32)
        bias = aligned(4 * shape.target[0]).view(np.float32)
        out = aligned(self.library.dnnl_memory_desc_get_size(layouts[2]))
        source, weights = self.reordered(x, layouts[0]), self.reordered(w, layouts[1])
        copies = max(1, -(-_COLD_BYTES // (source.nbytes + weights.nbytes)))
        kept = [source, weights]
        operands: list[dict[int, ctypes.c_void_p]] = []
        for _ in range(min(copies, 256)):
            pair = [aligned(each.nbytes) for each in (source, weights)]
            for copy, each in zip(pair, (source, weights), strict=True):
                copy[:] = each
            kept += pair
            operands.append({
                _SOURCE: self.memory(layouts[0], pair[0]),
                _WEIGHTS: self.memory(layouts[1], pair[1]),
                _BIAS: self.memory(self.packed(shape.target[0]), bias),
                _TARGET: self.memory(layouts[2], out),
            })  # fmt: skip
        times = [self.timed(primitive, each) for each in (operands * _RUNS)[: max(_RUNS, copies)]]
        result = np.empty((1, *shape.target), np.float32)
        self.unpacked(out, layouts[2], result)
        return (
            float(np.quantile(times, _QUANTILE)),
            (name.value or b"").decode(),
            error_of(shape, x, w, result),
        )

    def timed(self, primitive: ctypes.c_void_p, operands: dict[int, ctypes.c_void_p]) -> float:
        start = time.perf_counter_ns()
        self.execute(primitive, operands)
        return (time.perf_counter_ns() - start) / 1000

    def unpacked(self, source: np.ndarray, description: ctypes.c_void_p, out: np.ndarray) -> None:
        plain = self.packed(*out.shape)
        made = self.made(
            "reorder_primitive_desc_create", description, self.engine, plain, self.engine, None
        )
        primitive = self.made("primitive_create", made)
        self.execute(
            primitive, {_SOURCE: self.memory(description, source), _TARGET: self.memory(plain, out)}
        )

    def described(self, shape: Shape) -> ctypes.c_void_p:
        axes = ctypes.c_int64 * 2
        half = len(shape.pads) // 2
        return self.made(
            "convolution_forward_primitive_desc_create",
            self.engine,
            _INFERENCE,
            _AUTO,
            self.any(1, *shape.source),
            self.any(*weight_shape(shape)),
            self.packed(shape.target[0]),
            self.any(1, *shape.target),
            axes(*shape.strides),
            axes(*(each - 1 for each in shape.dilations)),
            axes(*shape.pads[:half]),
            axes(*shape.pads[half:]),
            None,
        )


_VOID = ctypes.c_void_p


def aligned(size: int) -> np.ndarray:
    """Zeros that begin where a page does."""
    memory = np.zeros(size + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    return memory[start : start + size]


def weight_shape(shape: Shape) -> tuple[int, ...]:
    channels, outputs, groups = shape.source[0], shape.target[0], shape.groups
    if groups == 1:
        return (outputs, channels, *shape.kernel)
    return (groups, outputs // groups, channels // groups, *shape.kernel)


def error_of(shape: Shape, x: np.ndarray, w: np.ndarray, found: np.ndarray) -> float:
    """How far the middle element of the first channel is off, of the sum of magnitudes."""
    row, column = (size // 2 for size in shape.target[1:])
    half = len(shape.pads) // 2
    first = w.reshape(shape.target[0], -1, *shape.kernel)[0]
    total, size = 0.0, 0.0
    for i in range(shape.kernel[0]):
        for j in range(shape.kernel[1]):
            at_row = row * shape.strides[0] + i * shape.dilations[0] - shape.pads[0]
            at_column = column * shape.strides[1] + j * shape.dilations[1] - shape.pads[half - 1]
            if 0 <= at_row < shape.source[1] and 0 <= at_column < shape.source[2]:
                terms = x[0, : first.shape[0], at_row, at_column].astype(float) * first[:, i, j]
                total, size = total + terms.sum(), size + np.abs(terms).sum()
    return abs(float(found[0, 0, row, column]) - total) / size


def shape_of(group: Group, types: dict[str, tuple[int, ...]]) -> Shape | None:
    """The convolution in a group, if it has two axes and batch 1."""
    # A change of layout behind a convolution has its name, but no filter.
    convolutions = [node for node in group.nodes if node.op == "Conv" and len(node.inputs) > 1]
    node = next(iter(convolutions), None)
    if node is None or len(types[node.inputs[0]]) != 4 or types[node.inputs[0]][0] != 1:
        return None
    attributes = node.attributes
    weight = types[node.inputs[1]]
    source, target = types[node.inputs[0]][1:], types[node.outputs[0]][1:]
    pads = tuple(attributes.pads) or (0, 0, 0, 0)
    strides, dilations = (tuple(each) or (1, 1) for each in
                          (attributes.strides, attributes.dilations))  # fmt: skip
    return Shape(source, target, weight[2:], strides, dilations, pads, source[0] // weight[1])


def rows_of(network: str, onednn: OneDnn, seconds: float) -> list[list[str]]:
    """A row for each distinct convolution."""
    machine = host()
    net = api.load(path_of(network)).bound()
    plan = net.plan(machine)
    flavour = flavour_named(machine.flavour)
    inputs = sample_inputs([(each.dtype, each.dims) for each in net.inputs.values()])
    found = profile(
        plan,
        lower(plan, net.graph.name),
        inputs,
        OPS,
        flavour=flavour,
        flags=machine_flags(find_compiler(), flavour, machine),
        seconds=seconds,
    )
    types = {name: each.dims for name, each in plan.types.items()}
    rows: dict[Shape, list[str]] = {}
    for layer in found.layers:
        work = plan.steps[layer.step].work
        shape = shape_of(work, types) if isinstance(work, Group) else None
        if shape is None or shape in rows:
            continue
        micros, name, error = onednn.convolution(shape)
        if not error < 1e-4:
            raise SystemExit(f"oneDNN's {name} is off by {error:.1e} for {shape}")
        rows[shape] = [
            f"{'x'.join(map(str, shape.source))} to {'x'.join(map(str, shape.target))}",
            f"{'x'.join(map(str, shape.kernel))} /{shape.strides[0]}",
            " + ".join(layer.ops),
            layer.scheme,
            f"{layer.median:,.0f}",
            f"{shape.flops / layer.median / 1000:,.0f}",
            name,
            f"{micros:,.0f}",
            f"{shape.flops / micros / 1000:,.0f}",
            f"{micros / layer.median:.2f}",
        ]
    return list(rows.values())


HEADINGS = (
    "convolution",
    "window",
    "Weft fuses",
    "weft",
    "µs",
    "GFLOP/s",
    "oneDNN",
    "µs",
    "GFLOP/s",
    "oneDNN / weft",
)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network")
    parser.add_argument("--seconds", type=float, default=2.0, help="of Weft's profile")
    usual = Path(sys.prefix) / "lib" / "libdnnl.so.3"
    parser.add_argument("--library", type=Path, default=usual)
    return parser.parse_args(given)


def main() -> int:
    given = arguments()
    if not given.library.exists():
        raise SystemExit(
            f"{given.library} does not exist: pip install ./plugins/onednn, or --library"
        )
    # Its threads take all the cores that they may.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ensure(given.network)
    print(
        "\n".join(markdown(HEADINGS, rows_of(given.network, OneDnn(given.library), given.seconds)))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
