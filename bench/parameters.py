"""What weights at run time cost: inference beside constants, preparation, a second checkpoint.

    python -m bench.parameters                        the networks of the zoo below
    python -m bench.parameters resnet18 mobilenet_v2  these only

Runs with constants and with parameters alternate in one process, on one thread, and the median
of the ratios of neighbours counts.  The last column names kernels that only constants have, such
as those for weights in 28 bits, which depend on values.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import weft
from bench.folders import zoo_folder
from weft.ir.graph import Graph
from weft.runtime.limits import limits
from weft.targets.find import host

NETWORKS = (
    "resnet50.ts",
    "resnet18.ts",
    "mobilenet_v2.ts",
    "squeezenet1_1.ts",
    "shufflenet_v2_x1_0.ts",
    "mnasnet1_0.ts",
    "densenet121.ts",
)


@dataclass(frozen=True)
class Cost:
    """What was measured of a network.

    Attributes:
        name: of the file.
        ratio: time of a run with parameters over one with constants.
        prepare: seconds of a preparation; bytes: that it reads and writes.
        second: seconds until a second checkpoint is ready.
        differing: kernels that only constants have.
    """

    name: str
    ratio: float
    prepare: float
    bytes: int
    second: float
    differing: str


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(constant: Callable[[], object], given: Callable[[], object], most: float) -> list[float]:
    """Times of the second over those of the first, measured in turn."""
    found: list[float] = []
    until = time.perf_counter() + most
    while time.perf_counter() < until or len(found) < 5:
        first, one, two, last = map(seconds, (constant, given, given, constant))
        found.append((one + two) / (first + last))
    return found


def other_checkpoint(graph: Graph) -> Graph:
    """The same network with other weights."""
    constants = {
        name: array * array.dtype.type(1.01) if array.dtype.kind == "f" else array
        for name, array in graph.constants.items()
    }
    return replace(graph, constants=constants)


def cost(name: str, most: float) -> Cost:
    """Measures a network.

    Args:
        name: of a file of the zoo.
        most: seconds for runs.
    """
    net = weft.load(zoo_folder() / f"{name}.onnx")
    constant, given = net.compile(threads=1), net.compile(threads=1, parameters="runtime")
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(type.dims).astype(np.float32) for type in net.inputs.values()]
    for _ in range(3):
        constant(*inputs)
        given(*inputs)
    found = ratios(lambda: constant(*inputs), lambda: given(*inputs), most)
    preparing = given.library.built.preparing
    if preparing is None:
        raise SystemExit(f"{name} has no parameters")
    arrays = [np.array(net.graph.constants[port.name]) for port in preparing.parameters]
    prepare = min(seconds(lambda: given.library.load(arrays)) for _ in range(7))
    moved = sum(array.nbytes for array in arrays) + preparing.bytes
    second = weft.Net(other_checkpoint(net.graph))
    ready = seconds(lambda: second.compile(threads=1, parameters="runtime")(*inputs))
    kernels = [
        {step.implementation.scheme for step in plan.steps if step.implementation}
        for plan in (net.plan(), net.plan(parameters="runtime"))
    ]
    differing = ", ".join(sorted(kernels[0] - kernels[1]))
    return Cost(name, statistics.median(found), prepare, moved, ready, differing)


def table(costs: Sequence[Cost], bandwidth: float) -> Iterator[str]:
    """The figures in Markdown."""
    heads = ("network", "parameters / constants", "prepare", "of DRAM", "second", "only constants")
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|"
    for each in costs:
        rate = each.bytes / each.prepare / 1e9
        yield (
            f"| {each.name} | {each.ratio:.3f} | {each.prepare * 1e3:.1f} ms, {rate:.1f} GB/s | "
            f"{rate / bandwidth:.2f} | {each.second:.2f} s | {each.differing} |"
        )
    mean = statistics.geometric_mean(each.ratio for each in costs)
    yield f"| geometric mean | {mean:.3f} | | | | |"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=2.0, help="of runs for each network")
    given = parser.parse_args()
    bandwidth = limits(host()).levels[-1].gbytes
    print(f"DRAM: {bandwidth:.1f} GB/s of reading on one thread", flush=True)
    print("\n".join(table([cost(name, given.seconds) for name in given.networks], bandwidth)))


if __name__ == "__main__":
    main()
