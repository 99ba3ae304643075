"""Times Weft's C beside onnxruntime on five small networks, called from C on one thread.

    python -m bench.small_nets                          all of them, every kind of C
    python -m bench.small_nets --nets ball --kinds sse2 c89
    python -m bench.small_nets --instructions --march x86-64-v3 --kinds sse2 avx2 c89
                                                        counts by valgrind, exact on a busy machine
    python -m bench.small_nets --keep build             leaves sources and the program there

The nets are those that NNCG's authors measured (a ball classifier and two pedestrian
classifiers) and two robot detectors, with channels last as Keras has them and drawn weights.
The C of each kind is compiled with `-O3 -march=native`; `sse2-base` is the C of `sse2` compiled
for any x86-64.  onnxruntime runs the same network with channels first, its own layout.

LiteRT with XNNPACK takes the network as a LiteRT file, where it is installed
(``bench.small_litert``).

A program calls all of them in turn, thousands of times a turn; medians over the rounds count.
NNCG's figures are ratios to onnxruntime, from its authors' processor.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.ops.convolution import ConvAttributes
from weft.ops.pooling import MaxPoolAttributes
from weft.ops.table import OPS
from weft.ops.values import Value, apply
from weft.runtime.compiler import find_compiler
from weft.runtime.limits import Meter, processor_name
from weft.targets.find import runs_here
from weft.targets.find import target as find_target

_RACE = Path(__file__).with_name("small_race.c")
_FLAGS = ("-O3", "-fPIC")
_LITERT = ("ai_edge_litert", "flatbuffers", "pytest")
"""What LiteRT's files are written with, and run."""


@dataclass(frozen=True)
class Conv:
    """A convolution; ``pads`` before and after each axis, ``same`` by default."""

    channels: int
    kernel: int = 3
    stride: int = 1
    pads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Pool:
    """Max pooling without overlap."""

    kernel: tuple[int, int] = (2, 2)


@dataclass(frozen=True)
class Dense:
    """A product with all that came before, channels last."""

    channels: int


@dataclass(frozen=True)
class Plain:
    """An op without weights: ``Relu``, ``LeakyRelu`` (of 0.1), ``Softmax`` (over the channels)."""

    op: str


Layer = Conv | Pool | Dense | Plain
RELU, LEAKY, SOFTMAX = Plain("Relu"), Plain("LeakyRelu"), Plain("Softmax")
VALID = (0, 0, 0, 0)


@dataclass(frozen=True)
class Net:
    """A network.

    Attributes:
        shape: of the image: height, width, channels.
        layers: in order.
        bar: onnxruntime's time over Weft's that is to be reached with SSE2, and with plain C.
        peers: what its authors, or others, measured elsewhere: microseconds.
    """

    shape: tuple[int, int, int]
    layers: tuple[Layer, ...]
    bar: tuple[float, float]
    peers: str


NETS: Mapping[str, Net] = {
    "ball": Net(
        (16, 16, 1),
        (
            Conv(8, 5, 2, (1, 1, 2, 2)),
            RELU,
            Pool(),
            Conv(12, 3, 1, VALID),
            RELU,
            Conv(2, 2, 1, VALID),
            SOFTMAX,
        ),
        (8.5, 6.5 / 4.08),
        "NNCG general 4.08, NNCG SSE3 0.76, onnxruntime 6.5",
    ),
    "pedestrian": Net(
        (36, 18, 1),
        (
            Conv(4),
            RELU,
            Pool(),
            Conv(8),
            RELU,
            Pool(),
            Conv(16),
            RELU,
            Pool((4, 2)),
            Conv(2, 2, 1, VALID),
            SOFTMAX,
        ),
        (2.8, 16.2 / 39.0),
        "NNCG general 39.0, NNCG SSE3 5.8, onnxruntime 16.2",
    ),
    "pedestrian-dense": Net(
        (36, 18, 1),
        (Conv(4), RELU, Pool(), Conv(16), RELU, Pool(), Conv(32), RELU, Pool(), Dense(2), SOFTMAX),
        (1.34, 14.9 / 40.3),
        "NNCG general 40.3, NNCG SSE3 11.1, onnxruntime 14.9",
    ),
    "robot-30x40": Net(
        (30, 40, 3),
        (
            Conv(8),
            Pool(),
            LEAKY,
            Conv(12),
            LEAKY,
            Conv(8),
            Pool(),
            LEAKY,
            Conv(16),
            LEAKY,
            Conv(20),
            LEAKY,
            Conv(7, 1),
        ),
        (4.0, 0.0),
        "onnxruntime 43.2",
    ),
    "robot-60x80": Net(
        (60, 80, 3),
        (
            Conv(16),
            Pool(),
            LEAKY,
            Conv(24),
            Pool(),
            LEAKY,
            Conv(16),
            Pool(),
            LEAKY,
            Conv(32),
            LEAKY,
            Conv(40),
            LEAKY,
            Conv(7, 1),
        ),
        (4.0, 0.0),
        "onnxruntime 147",
    ),
}


@dataclass(frozen=True)
class Kind:
    """C of one kind: options of ``Net.source``, flags, and bytes of the vectors it can use.

    ``bytes`` is an upper limit: a kind can use no wider vectors than the processor has.
    """

    options: Mapping[str, str]
    flags: tuple[str, ...] = ()
    bytes: int = 16
    scalar: bool = False


KINDS: Mapping[str, Kind] = {
    "sse2": Kind({"target": "x86-sse2"}),
    "sse2-base": Kind({"target": "x86-sse2"}, ("-march=x86-64",)),
    "avx2": Kind({"target": "x86-avx2"}, (), 32),
    "avx512": Kind({"target": "x86-avx512"}, ("-mprefer-vector-width=512",), 64),
    "zen4": Kind({"target": "zen4"}, ("-mprefer-vector-width=512",), 64),
    "host": Kind({"target": "host"}, ("-mprefer-vector-width=512",), 64),
    "c89": Kind({"target": "generic", "flavour": "c89"}, ("-std=c89",), 64, True),
    "c99": Kind({"target": "generic", "flavour": "c99"}, ("-std=c99",), 64, True),
}


def build(net: Net, last: bool, seed: int = 0) -> weft.Net:
    """A network with drawn weights, with channels last or first; both compute the same."""
    draw = np.random.default_rng(seed)
    height, width, channels = net.shape
    shape = (1, height, width, channels) if last else (1, channels, height, width)
    x = weft.input("x", f"f32[{','.join(map(str, shape))}]")
    y = x
    for layer in net.layers:
        y = _applied(layer, y, last, draw)
    return weft.net([x], [y.named("y")], name="net")


def _applied(layer: Layer, x: Value, last: bool, draw: np.random.Generator) -> Value:
    suffix = "ChannelsLast" if last else ""
    match layer:
        case Conv(channels, kernel, stride, pads):
            inputs = x.type.shape[-1 if last else 1]
            assert isinstance(inputs, int)
            w, b = _weights(draw, (channels, inputs, kernel, kernel))
            around = (kernel // 2,) * 4 if pads is None else pads
            attributes = ConvAttributes((kernel,) * 2, (stride,) * 2, (1, 1), around)
            return apply(OPS[f"Conv{suffix}"], (x, w, b), attributes)[0]
        case Pool(kernel):
            return apply(OPS[f"MaxPool{suffix}"], (x,), MaxPoolAttributes(kernel, kernel))[0]
        case Dense(channels):
            if not last:
                x = apply(OPS["Transpose"], (x,), OPS["Transpose"].attributes(perm=(0, 2, 3, 1)))[0]
            flat = apply(OPS["Flatten"], (x,), OPS["Flatten"].attributes(axis=1))[0]
            inputs = flat.type.shape[1]
            assert isinstance(inputs, int)
            w, b = _weights(draw, (channels, inputs))
            return apply(OPS["Gemm"], (flat, w, b), OPS["Gemm"].attributes(transB=1))[0]
        case Plain(op):
            attributes = {
                "Softmax": {"axis": -1 if last or len(x.type.shape) == 2 else 1},
                "LeakyRelu": {"alpha": 0.1},
            }.get(op, {})
            return apply(OPS[op], (x,), OPS[op].attributes(**attributes))[0]


def _weights(draw: np.random.Generator, shape: tuple[int, ...]) -> tuple[Value, Value]:
    """Of the spread that training starts from and about keeps; a small bias."""
    spread = np.sqrt(2 / np.prod(shape[1:]))
    w = draw.normal(0, spread, shape).astype(np.float32)
    b = draw.normal(0, 0.1, shape[:1]).astype(np.float32)
    return weft.constant(w), weft.constant(b)


# --- building and running ----------------------------------------------------------------------

_CONTESTANT = """\
int {name}_run(const float *x, float *y, void *arena);
static char {name}_arena[{bytes}] __attribute__((aligned(64)));
static void {name}(const float *x, float *y) {{ {name}_run(x, y, {name}_arena); }}
"""


def prepare(name: str, kinds: Sequence[str], folder: Path, march: str = "native") -> int:
    """Writes and builds the race of a network in a folder; gives its multiply-adds."""
    flags = (*_FLAGS, f"-march={march}")
    net = NETS[name]
    mine, theirs = build(net, last=True), build(net, last=False)
    folder.mkdir(parents=True, exist_ok=True)
    theirs.save(folder / "net.onnx")
    x = np.random.default_rng(1).normal(0, 1, _shape(mine, "x")).astype(np.float32)
    (y,) = mine.reference(x)
    first = np.ascontiguousarray(np.moveaxis(x, -1, 1))
    for file, array in (("x", x), ("x_first", first), ("y", y)):
        (folder / f"{file}.bin").write_bytes(array.astype(np.float32).tobytes())
    text: list[str] = []
    objects: list[str] = []
    for kind in kinds:
        called = f"weft_{kind.replace('-', '_')}"
        made = KINDS[kind]
        options: dict[str, Any] = {**made.options, "name": called}
        files = mine.source(**options)
        bytes = sum(each.arena.bytes for each in files.interface.arenas)
        (folder / files.header[0]).write_text(files.header[1])
        for path, source in files.sources:
            (folder / path).write_text(source)
            objects.append(path.replace(".c", ".o"))
            _compile(folder, [*flags, *made.flags, "-c", path, "-o", objects[-1]])
        text.append(_CONTESTANT.format(name=called, bytes=max(bytes, 1)))
    rows = [("onnxruntime", "onnxruntime")]
    rows += [(kind, f"weft_{kind.replace('-', '_')}") for kind in kinds]
    text.append(f"#define X_SIZE {x.size}\n#define Y_SIZE {y.size}")
    for macro, array in (("X_SHAPE", first), ("Y_SHAPE", np.moveaxis(y, -1, 1))):
        text.append(f"#define {macro} {{{', '.join(map(str, array.shape))}}}")
    # Where an element that is last in channels lies with channels first.
    channels, pixels = y.shape[-1], y.size // y.shape[-1]
    text.append(f"#define FIRST_AT(j) ((j) % {channels} * {pixels} + (j) / {channels})")
    table = ", ".join(f'{{"{row}", {function}}}' for row, function in rows)
    text.append(f"static const entry contestants[] = {{{table}}};")
    (folder / "contestants.h").write_text("\n".join(text) + "\n")
    race = [*flags, "-I.", str(_RACE), *objects, "-o", "race", "-ldl", "-lm"]
    _compile(folder, race)
    return mine.simplified().stats().macs


def _shape(net: weft.Net, name: str) -> tuple[int, ...]:
    return tuple(int(str(size)) for size in net.inputs[name].shape)


def _compile(folder: Path, arguments: Sequence[str]) -> None:
    subprocess.run([*find_compiler().command, *arguments], cwd=folder, check=True)


def times(folder: Path, rounds: int, slice: float) -> dict[str, tuple[float, float]]:
    """Seconds of a call by contestant: the median of the rounds, and the tenth part's."""
    library = onnxruntime_library()
    command = [str(folder / "race"), library, "net.onnx", str(rounds), str(slice)]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {name: (float(middle), float(low)) for name, middle, low in rows}


def onnxruntime_library() -> str:
    """The shared library in onnxruntime's Python package; empty if it is not installed."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        return ""
    libraries = sorted(Path(found.origin).parent.glob("capi/libonnxruntime.so*"))
    return str(libraries[0]) if libraries else ""


def instructions(folder: Path, name: str) -> int:
    """Of one call, counted by valgrind."""

    def counted(calls: int) -> int:
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = subprocess.run(
            [*tool, str(folder / "race"), name, str(calls)],
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or not found:
            raise SystemExit(f"valgrind cannot count {name}; it may with --march x86-64-v3")
        return int(found[1])

    return (counted(21) - counted(1)) // 20


def _vector_bytes(kind: Kind) -> int:
    return min(kind.bytes, find_target("host").vector_bytes)


def peak(vector_bytes: int) -> float:
    """Multiply-adds a microsecond that a core does with vectors of so many bytes."""
    machine = find_target("x86-avx512" if vector_bytes > 32 else "x86-avx2")
    vectors = dataclasses.replace(machine.vectors, bytes=vector_bytes)
    meter = Meter(dataclasses.replace(machine, vectors=vectors), 1)
    # A process that was stopped meanwhile calibrates badly.
    return max(max(meter.gflops()) for _ in range(3)) * 1e3 / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    here = [kind for kind, made in KINDS.items() if runs_here(find_target(made.options["target"]))]
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=here, help="default: what this processor runs"
    )
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--slice", type=float, default=0.001, help="seconds of a turn")
    parser.add_argument("--march", default="native", help="what the compiler may use")
    parser.add_argument("--instructions", action="store_true", help="count by valgrind, too")
    parser.add_argument("--keep", type=Path, help="a folder for sources and programs")
    parser.add_argument("--run", action="store_true", help="only run what --keep holds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(asked.keep or folder).resolve()
        macs = {name: _made(root, name, asked) for name in asked.nets}
        report(root, macs, asked)


def _made(root: Path, name: str, asked: argparse.Namespace) -> int:
    record = root / name / "macs"
    if not asked.run:
        found = prepare(name, asked.kinds, root / name, asked.march)
        record.write_text(str(found))
    return int(record.read_text())


def report(root: Path, macs: Mapping[str, int], asked: argparse.Namespace) -> None:
    """Prints the table."""
    widths = {kind: _vector_bytes(KINDS[kind]) for kind in asked.kinds}
    peaks = {size: peak(size) for size in sorted(set(widths.values()))}
    print(f"{processor_name()}; {find_compiler().version}")
    print("; ".join(f"{size}-byte vectors {each:,.0f} MAC/us" for size, each in peaks.items()))
    print("| net | MACs | C | us | onnxruntime us | ratio | bar | % of peak | instructions |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, count in macs.items():
        found = times(root / name, asked.rounds, asked.slice)
        base = found.pop("onnxruntime", (float("nan"),) * 2)[0] * 1e6
        for kind, (middle, _) in found.items():
            taken, made = middle * 1e6, KINDS[kind]
            bar = NETS[name].bar[made.scalar]
            used = instructions(root / name, kind) if asked.instructions else 0
            print(
                f"| {name} | {count:,} | {kind} | {taken:.3f} | {base:.2f} | {base / taken:.2f} "
                f"| {bar:.2f} | {100 * count / taken / peaks[widths[kind]]:.0f} | {used or ''} |"
            )
    if all(map(importlib.util.find_spec, _LITERT)):
        litert = importlib.import_module("bench.small_litert")
        nets = {name: build(NETS[name], last=True) for name in macs}
        taken, least = litert.times(nets, asked.rounds)
        each = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in taken.items())
        print(f"LiteRT with XNNPACK, called from Python, us: {each}")
        print(f"of which a network of one ReLU of one element takes {least * 1e6:.2f}")


if __name__ == "__main__":
    main()
