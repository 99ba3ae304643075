"""Times matrix-vector products with 4-bit and 8-bit weights beside onnxruntime, on one thread.

    python -m bench.low_bits                             2048-5632-2048-2048, three forms
    python -m bench.low_bits --sizes 4096 11008 4096     other layers

The model has `MatMulNBits` nodes, as onnxruntime's quantizer writes them, each followed by `Tanh`.
Contestants alternate and are called from Python; the table shows medians:

    Weft                default options: weights stay packed
    Weft, float32       with `exact`: weights are dequantized at compile time
    onnxruntime         `accuracy_level` 0: float32 accumulation
    onnxruntime, int8   `accuracy_level` 4: inputs are quantized to int8
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import weft
from bench.figures import markdown, median, number
from weft.runtime.limits import processor_name

DOMAIN = "com.microsoft"
HEADS = ("weights", "Weft", "Weft, float32", "onnxruntime", "onnxruntime, int8")


@dataclass(frozen=True)
class Form:
    """A weight format: bits of a code, codes per scale, whether there are zero points."""

    bits: int
    size: int
    shifted: bool

    def __str__(self) -> str:
        zeros = ", zero points" if self.shifted else ""
        return f"{self.bits} bits, a scale for {self.size}{zeros}"


FORMS = (Form(4, 32, False), Form(4, 128, True), Form(8, 64, False))


def model(sizes: Sequence[int], form: Form, level: int) -> onnx.ModelProto:
    """Layers with random codes; ``level`` is onnxruntime's ``accuracy_level``."""
    random, value = np.random.default_rng(0), "x"
    nodes: list[onnx.NodeProto] = []
    held: dict[str, np.ndarray] = {}
    for place, (rows, columns) in enumerate(pairwise(sizes)):
        blocks = rows // form.size
        width = form.size * form.bits // 8
        own = [f"codes{place}", f"scales{place}"]
        held[own[0]] = random.integers(0, 256, (columns, blocks, width)).astype(np.uint8)
        held[own[1]] = random.uniform(0.01, 0.02, (columns, blocks)).astype(np.float32)
        if form.shifted:
            own.append(f"zeros{place}")
            width = -(-blocks * form.bits // 8)
            held[own[2]] = random.integers(0, 256, (columns, width)).astype(np.uint8)
        given: dict[str, Any] = {"K": rows, "N": columns, "bits": form.bits}
        given |= {"block_size": form.size, "accuracy_level": level}
        product, following = f"product{place}", f"value{place}"
        nodes.append(
            helper.make_node("MatMulNBits", [value, *own], [product], domain=DOMAIN, **given)
        )
        nodes.append(helper.make_node("Tanh", [product], [following]))
        value = following
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])
        for name, size in (("x", sizes[0]), (value, sizes[-1]))
    ]
    constants = [numpy_helper.from_array(each, name) for name, each in held.items()]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def session(proto: onnx.ModelProto) -> Any:
    """onnxruntime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=providers)


def row(sizes: Sequence[int], form: Form, rounds: int) -> list[str]:
    """Milliseconds of all contestants, and how far outputs are from onnxruntime's."""
    x = np.random.default_rng(1).standard_normal((1, sizes[0]), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layers.onnx")
        onnx.save(model(sizes, form, 0), path)
        small, exact = (weft.load(path).compile(threads=1, exact=each) for each in (False, True))
    peers = [session(model(sizes, form, level)) for level in (0, 4)]
    calls: list[Callable[[], Any]] = [lambda: small(x), lambda: exact(x)]
    calls += [lambda peer=peer: peer.run(None, {"x": x})[0] for peer in peers]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for found, call in zip(times, calls, strict=True):
            call()
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    wanted = np.asarray(calls[2]())
    cells = [str(form)]
    for found, call in zip(times, calls, strict=True):
        off = np.abs(np.asarray(call()) - wanted).max()
        cells.append(f"{number(1e3 * median(found))} ({off:.0e} off)")
    return cells


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[2048, 5632, 2048, 2048])
    parser.add_argument("--rounds", type=int, default=41)
    given = parser.parse_args(arguments)
    print(f"{processor_name()}; onnxruntime {onnxruntime.__version__}; ms.\n")
    rows = [row(given.sizes, form, given.rounds) for form in FORMS]
    print("\n".join(markdown(HEADS, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
