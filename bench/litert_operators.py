"""Times quantized LiteRT operators and MLPerf Tiny's networks beside LiteRT, on one thread.

    python -m bench.litert_operators                     all, some minutes
    python -m bench.litert_operators --names CONV ADD    those whose names have one of these in them
    python -m bench.litert_operators --simd avx2         Weft without AVX-512

Weft computes in LiteRT's rounding, bit for bit as its reference kernels do; LiteRT runs as its
interpreter does by default, with XNNPACK where that has the operator.  Both are called from Python
with their inputs in place.  Rounds alternate, and the least time of a call of each counts: both
are held against what the machine can do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import weft
from bench.figures import geometric_mean, markdown, markdown_row, number
from tests.frontends.litert.against import imported
from tests.frontends.litert.builder import Case, T, const, inputs_of
from tests.frontends.litert.cases import UNARY, bias, fixed, weights, x
from tests.models import tiny
from weft.runtime.limits import processor_name
from weft.targets.find import SIMD

SIZE = 32
"""Rows, columns and channels of most images."""
PATIENCE = 5
"""Calls in a turn, of which the first warms up."""
HEADS = ("operator", "Weft, µs", "LiteRT, µs", "LiteRT / Weft", "build, s")


def cases(dtype: str) -> Iterator[Case]:
    """Operators with activations of ``int8`` or ``int16``, in sizes of small networks."""

    def out(*shape: int, most: float = 6) -> T:
        return x(*shape, dtype=dtype, low=-most, high=most)

    image = x(1, SIZE, SIZE, SIZE, dtype=dtype)
    for kernel, stride, depth, filters in (
        (3, 1, 16, 32),
        (1, 1, 32, 32),
        (3, 2, 3, 16),
        (1, 1, 10, 12),
    ):
        given = x(1, SIZE, SIZE, depth, dtype=dtype)
        weight = weights((filters, kernel, kernel, depth), dtype, 0)
        inputs = (given, weight, bias(filters, given, weight))
        label = f"{kernel}x{kernel} {depth}-{filters}"
        yield Case("CONV_2D", inputs, (out(1),), "Conv2DOptions", _strides(stride), label)
    for stride, depth in ((1, 32), (2, 32), (1, 20)):
        given = x(1, SIZE, SIZE, depth, dtype=dtype)
        weight = weights((1, 3, 3, depth), dtype, 3)
        inputs = (given, weight, bias(depth, given, weight))
        values = {**_strides(stride), "depthMultiplier": 1}
        label = f"stride {stride} {depth}"
        yield Case("DEPTHWISE_CONV_2D", inputs, (out(1),), "DepthwiseConv2DOptions", values, label)
    for rows, depth, columns in ((1, 512, 256), (32, 128, 64)):
        given, weight = x(rows, depth, dtype=dtype), weights((columns, depth), dtype, None)
        inputs = (given, weight, bias(columns, given, weight))
        result = out(rows, columns, most=30)
        label = f"{rows}x{depth}-{columns}"
        yield Case("FULLY_CONNECTED", inputs, (result,), "FullyConnectedOptions", {}, label)
    pair = x(2, 64, 48, dtype=dtype), x(2, 48, 64, dtype=dtype)
    plain = {"adjX": False, "adjY": False}
    yield Case("BATCH_MATMUL", pair, (out(2, 64, 64, most=60),), "BatchMatMulOptions", plain)
    window = {"padding": 1, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        yield Case(name, (image,), (replace(image),), "Pool2DOptions", window)
    yield from _of_two(dtype)
    for name, (options, values, (low, high), dtypes) in UNARY.items():
        if dtype in dtypes:
            given = x(*image.shape, dtype=dtype, low=low, high=high)
            result = x(*image.shape, dtype=dtype, low=-4, high=8)
            same = name in ("ABS", "RELU", "RELU6") and dtype == "int16"
            result = fixed(name, replace(given) if same else result)
            yield Case(name, (given,), (result,), options, values)
    given = x(32, 100, dtype=dtype, low=-8, high=8)
    scale, zero = (1 / 256, -128) if dtype == "int8" else (1 / 32768, 0)
    result = T((32, 100), dtype, scale=scale, zero=zero)
    yield Case("SOFTMAX", (given,), (result,), "SoftmaxOptions", {"beta": 1.0})
    yield Case("MEAN", (image, const([1, 2])), (out(1, SIZE),), "ReducerOptions")


def _of_two(dtype: str) -> Iterator[Case]:
    """Sums and products of two images."""

    def image(low: float, high: float) -> T:
        return x(1, SIZE, SIZE, SIZE, dtype=dtype, low=low, high=high)

    ranges = {
        "scales as 3 to 2": [(-3, 3), (-2, 2), (-6, 6)],
        "calibrated": [(-2.87, 3.14), (-2.03, 1.87), (-4.7, 4.1)],
    }
    for name, label in product(("ADD", "SUB", "MUL"), ranges):
        values: dict[str, Any] = {"fusedActivationFunction": 0}
        if dtype == "int16" and name != "MUL":
            values["potScaleInt16"] = False
        first, second, found = [image(*each) for each in ranges[label]]
        options = f"{name.capitalize()}Options"
        yield Case(name, (first, second), (found,), options, values, label)


def _strides(stride: int) -> dict[str, int]:
    steps = {"strideH": stride, "strideW": stride}
    return {"padding": 0, **steps, "dilationHFactor": 1, "dilationWFactor": 1}


Entry = tuple[str, Callable[[], tuple[bytes, list[np.ndarray]]]]
"""A name, and what makes a file's bytes and inputs."""


def entries() -> Iterator[Entry]:
    """All operators, then the networks, where they are."""
    for dtype in ("int8", "int16"):
        for case in cases(dtype):
            name = " ".join(filter(None, (case.name, dtype, case.label)))
            yield name, lambda case=case: (case.content(), inputs_of(case))
    if tiny.FOLDER.is_dir():
        for name in tiny.NAMES:
            yield f"MLPerf Tiny {name} int8", lambda name=name: _network(name)


def _network(name: str) -> tuple[bytes, list[np.ndarray]]:
    inputs, _ = tiny.golden(name, "int8")
    return tiny.model(name, "int8").with_suffix(".tflite").read_bytes(), [inputs[0]]


def least(content: bytes, inputs: list[np.ndarray], simd: str, seconds: float) -> tuple[float, ...]:
    """The least seconds of a call of Weft and of LiteRT, and those of Weft's build."""
    net = weft.Net(imported(content).graph).apply("integers", rounding="litert")
    start = time.perf_counter()
    library = net.compile(simd=simd, threads=1).library
    built = time.perf_counter() - start
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    calls = (lambda: library(*inputs), interpreter.invoke)
    found = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place, call in enumerate(calls):
            call()
            for _ in range(PATIENCE - 1):
                start = time.perf_counter()
                call()
                found[place] = min(found[place], time.perf_counter() - start)
    return *found, built


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each operator")
    parser.add_argument("--simd", choices=sorted(SIMD), default="", help="no wider vectors")
    given = parser.parse_args(arguments)
    print(f"{processor_name()}; Weft with {given.simd or 'all'} vectors.\n")
    print("\n".join(markdown(HEADS, [])), flush=True)
    ratios: list[float] = []
    for name, make in entries():
        if not any(part in name for part in given.names):
            continue
        ours, theirs, built = least(*make(), given.simd, given.seconds)
        ratios.append(theirs / ours)
        row = (name, number(1e6 * ours), number(1e6 * theirs), f"{ratios[-1]:.2f}", f"{built:.1f}")
        print(markdown_row(row), flush=True)
    if ratios:
        print(f"\nGeometric mean of LiteRT / Weft: {geometric_mean(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
