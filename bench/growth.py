"""How Weft's time and memory grow with batch, resolution, width and depth.

    python -m bench.growth                        all four, some minutes
    python -m bench.growth --axes width depth     these only
    python -m bench.growth --clock cpu            processor time, for a busy machine

The network is a chain of residual 3x3 convolutions.  One size at a time is doubled, and a power
law is fitted to what is measured; beside its exponent stands the ideal one, which is fitted in
the same way to the operations (for time), to the largest set of values that must live at once
(for the arena) or to the weights.  What depends on the number of kernels, not on their sizes,
should not grow at all: C, compiled code and the time to get ready, except with depth.

Written: growth.md and growth.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import weft
from bench.figures import markdown, median, megabytes, number, slope
from bench.worker import CLOCKS
from weft.plan.stats import GraphStats
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.limits import processor_name
from weft.targets.find import target


@dataclass(frozen=True)
class Size:
    """A network's sizes.

    Attributes:
        batch: images at once.
        resolution: pixels along a side.
        width: channels.
        depth: convolutions.
    """

    batch: int = 1
    resolution: int = 56
    width: int = 64
    depth: int = 8


AXES: Mapping[str, tuple[int, ...]] = {
    "batch": (1, 2, 4, 8),
    "resolution": (28, 56, 112, 224),
    "width": (32, 64, 128, 256),
    "depth": (4, 8, 16, 32),
}


@dataclass(frozen=True)
class Point:
    """What was found for one network.

    Attributes:
        axis, value: what was changed.
        milliseconds: of a run.
        arena_bytes: scratch memory; weight_bytes: as they are packed.
        code_bytes: of the library; source_bytes: of the C.
        ready: seconds from the file to the first result, with empty caches.
        operations: that the network asks for, two for a multiply-add.
        live_bytes: of the largest set of values that must live at once, without fusion.
        parameter_bytes: of its weights.
    """

    axis: str
    value: int
    milliseconds: float
    arena_bytes: int
    weight_bytes: int
    code_bytes: int
    source_bytes: int
    ready: float
    operations: int
    live_bytes: int
    parameter_bytes: int


def model(size: Size) -> onnx.ModelProto:
    """A stem, residual 3x3 convolutions, a mean and a linear layer, with random weights."""
    random = np.random.default_rng(0)
    weights: list[TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        scale = (2.0 / max(1, int(np.prod(shape[1:])))) ** 0.5
        array = (random.standard_normal(shape) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(array, name))
        return name

    def nodes() -> Iterator[onnx.NodeProto]:
        inputs = ["x", weight("stem", size.width, 3, 3, 3)]
        yield helper.make_node("Conv", inputs, ["s"], pads=[1] * 4)
        yield helper.make_node("Relu", ["s"], ["v0"])
        for layer in range(size.depth):
            inputs = [f"v{layer}", weight(f"w{layer}", size.width, size.width, 3, 3)]
            inputs.append(weight(f"b{layer}", size.width))
            yield helper.make_node("Conv", inputs, [f"c{layer}"], pads=[1] * 4)
            yield helper.make_node("Add", [f"c{layer}", f"v{layer}"], [f"a{layer}"])
            yield helper.make_node("Relu", [f"a{layer}"], [f"v{layer + 1}"])
        yield helper.make_node("GlobalAveragePool", [f"v{size.depth}"], ["mean"])
        yield helper.make_node("Flatten", ["mean"], ["flat"])
        yield helper.make_node("Gemm", ["flat", weight("head", size.width, 10)], ["y"])

    side = size.resolution
    body = list(nodes())
    graph = helper.make_graph(
        body,
        "growth",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size.batch, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size.batch, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def point(axis: str, size: Size, seconds: float, clock: Callable[[], int]) -> Point:
    """Measures one network."""
    machine = target("host")
    x = np.random.default_rng(1).standard_normal((size.batch, 3, size.resolution, size.resolution))
    image = x.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "growth.onnx"
        onnx.save(model(size), path)
        start = time.perf_counter()
        net = weft.load(path)
        library = build(net.program(machine), machine.flavour, cache=Cache(Path(folder)))
        outputs = library(image)
        ready = time.perf_counter() - start
        figures: GraphStats = net.simplified().stats()
        files, blob = library.files, library.files.blob
        return Point(
            axis,
            getattr(size, axis),
            measured(lambda: library(image, out=outputs), seconds, clock),
            library.program.arena_bytes,
            0 if blob is None else blob.size,
            library.path.stat().st_size,
            sum(len(text) for _, text in files.sources),
            ready,
            2 * figures.macs + figures.operations,
            figures.peak_bytes,
            figures.weight_bytes,
        )


def measured(run: Callable[[], object], seconds: float, clock: Callable[[], int]) -> float:
    """Milliseconds of one run in the median."""
    run()
    times: list[int] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        run()
        times.append(clock() - start)
    return median(times) / 1e6


IDEALS: Mapping[str, str] = {
    "milliseconds": "operations",
    "arena_bytes": "live_bytes",
    "weight_bytes": "parameter_bytes",
}
"""What is measured, and what it should grow like."""
FLAT = ("code_bytes", "source_bytes", "ready")


def fits(points: Sequence[Point]) -> dict[str, tuple[float, float]]:
    """For each quantity of one axis the exponent found, and the ideal one."""
    sizes = [float(each.value) for each in points]

    def exponent(name: str) -> float:
        return slope(sizes, [max(float(getattr(each, name)), 1e-9) for each in points])

    found = {name: (exponent(name), exponent(ideal)) for name, ideal in IDEALS.items()}
    return {**found, **{name: (exponent(name), 0.0) for name in FLAT}}


def report(machine: str, points: Sequence[Point]) -> list[str]:
    """Both tables as Markdown."""
    heads = ["", "value", "ms", "arena MB", "weights MB", "code kB", "C kB", "ready s"]
    rows = [
        [
            each.axis,
            str(each.value),
            number(each.milliseconds),
            megabytes(each.arena_bytes),
            megabytes(each.weight_bytes),
            number(each.code_bytes / 1e3),
            number(each.source_bytes / 1e3),
            number(each.ready),
        ]
        for each in points
    ]
    text = ["# Growth", "", machine, "", *markdown(heads, rows), "", "## Exponents", ""]
    text += ["Found, and ideal in brackets.", ""]
    axes = list(dict.fromkeys(each.axis for each in points))
    by = {axis: fits([each for each in points if each.axis == axis]) for axis in axes}
    heads = ["with", "time", "arena", "weights", "code", "C", "ready"]
    lines = [
        [axis, *(f"{found:.2f} ({ideal:.2f})" for found, ideal in by[axis].values())]
        for axis in axes
    ]
    return [*text, *markdown(heads, lines)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", nargs="*", choices=[*AXES], default=[*AXES])
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring each network")
    parser.add_argument("--clock", choices=[*CLOCKS], default="wall")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    given = parser.parse_args()
    points: list[Point] = []
    for axis in given.axes:
        for value in AXES[axis]:
            print(f"{axis} {value} ...", file=sys.stderr, flush=True)
            size = replace(Size(), **{axis: value})
            points.append(point(axis, size, given.seconds, CLOCKS[given.clock]))
    base = ", ".join(f"{name} {value}" for name, value in asdict(Size()).items())
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{now}; {processor_name()}; one thread, {given.clock} time; otherwise {base}."
    text = "\n".join(report(machine, points)) + "\n"
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "growth.md").write_text(text)
    record = {"machine": machine, "points": [asdict(each) for each in points]}
    (given.out / "growth.json").write_text(json.dumps(record, indent=1) + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
