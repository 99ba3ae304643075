"""How long queries take: on networks, on ever longer chains, and where they could take forever.

    python -m bench.queries             all three tables
    python -m bench.queries --quick     networks of the zoo's folder are not needed

Networks are exported with random weights into a temporary folder.  Times are the least of a few
runs of the processor time of one thread, without reading the query, which has a column of its own.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import weft
from bench.asked import DENSENET, RESNET, TRANSFORMER, Asked, Walk
from bench.figures import markdown, number, slope
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.match.query import Overlaps, Query
from weft.ops.table import OPS

Result = TypeVar("Result")

CHAIN = (
    "Conv -> Relu",
    "Conv -> Relu -> *",
    "Conv -> Relu*",
    "Conv -> Relu -> **",
    "(Conv -> Relu)+",
    "(Conv -> Relu?)* -> output",
    "Conv -> ** -> output",
)
LENGTHS = (100, 300, 1000, 3000, 10_000)
PATHOLOGICAL = (
    ("chain", "((* -> Relu)* -> (Conv?)*)* -> *[users=7]"),
    ("chain", "((* -> *){2,3} -> *){1,300} -> *[users=7]"),
    ("chain", "((Conv* | Relu*)* | (Conv -> Relu)* | **)* -> output"),
    ("chain", "a: * -> ** -> b: *"),
    ("chain", "a: * -> ** -> b: *; a -> ** -> c: *; c -> ** -> b"),
    ("chain", "a: *; b: *; c: *; a != b; b != c"),
    ("chain", "((?= ** -> Relu -> output) -> (?! Conv -> Conv) -> (!Add)+)* -> output"),
    ("chain", "(a: * -> b: *)* -> (?! a: Relu -> ** -> *[users=7]) -> output"),
    ("ladder", "input -> ** -> output"),
    ("ladder", "*?" + " -> *?" * 29 + " -> *[users=7]"),
    ("ladder", "(v: * -> Relu -> a: Add | v: * -> a: Add)+ -> *[users=7]"),
    ("ladder", "(Add{x, Relu(x)})* -> (Relu | Relu -> Add | Add -> Relu)* -> output"),
    (
        "ladder",
        "def a = * -> *?\ndef b = a -> a | a\ndef c = b -> b | b\ndef d = c -> c | c\n"
        "(d -> d | c)* -> *[users=7]",
    ),
    ("fan", "input x -> a: Relu -> t: *; x -> b: Relu -> t; x -> c: Relu -> t; a != b; b != c"),
    ("fan", "input -> (?! (* | * -> * -> *)* -> *[users=7]) -> Relu -> ** -> output"),
    ("fan", "Concat{a, b, c, d, e, f, g, Relu[users=7]}"),
)
"""Queries that could take forever: nested repetitions, joins of everything with everything, looks
and negation within repetitions, repetitions that must agree, alternatives that double and orders
without end, many of which look in vain for a node that seven others read."""


def least(job: Callable[[], Result], seconds: float = 0.3) -> tuple[float, Result]:
    """The least processor time of some runs, in milliseconds, and what came out.

    As in ``timeit``, the collector of cycles rests: it walks whatever else the process holds.
    """
    best, result, end = float("inf"), job(), time.perf_counter() + seconds
    while True:
        gc.collect()
        gc.disable()
        start = time.thread_time()
        result = job()
        best = min(best, time.thread_time() - start)
        gc.enable()
        if time.perf_counter() > end:
            return best * 1000, result


def chain(count: int) -> Graph:
    """Convolutions and Relus, in turns."""
    image = TensorType(DType.F32, (1, 1, 4, 4))
    types = {"v0": image, "w": TensorType(DType.F32, (1, 1, 3, 3))}
    nodes: list[Node] = []
    for place in range(count):
        types[f"v{place + 1}"] = image
        op, inputs = ("Relu", (f"v{place}",)) if place % 2 else ("Conv", (f"v{place}", "w"))
        nodes.append(Node(f"n{place}", op, inputs, (f"v{place + 1}",), OPS[op].attributes()))
    return Graph("chain", ("v0", "w"), (f"v{count}",), tuple(nodes), types)


def ladder(count: int) -> Graph:
    """Two ways at every step, so that there are more paths than can be listed."""
    type = TensorType(DType.F32, (4,))
    types = {"v0": type}
    nodes: list[Node] = []
    for place in range(count // 2):
        side, last, new = f"l{place}", f"v{place}", f"v{place + 1}"
        types[side] = types[new] = type
        nodes.append(Node(side, "Relu", (last,), (side,)))
        nodes.append(Node(new, "Add", (last, side), (new,)))
    return Graph("ladder", ("v0",), (f"v{count // 2}",), tuple(nodes), types)


def fan(count: int) -> Graph:
    """One value that nearly all others read, eight by eight joined."""
    type = TensorType(DType.F32, (4,))
    types = {"v": type}
    nodes: list[Node] = []
    for place in range(count // 9):
        made = [f"r{place}_{side}" for side in range(8)]
        types |= dict.fromkeys(made, type)
        types[f"c{place}"] = TensorType(DType.F32, (32,))
        nodes += [Node(each, "Relu", ("v",), (each,)) for each in made]
        joined = OPS["Concat"].attributes(axis=0)
        nodes.append(Node(f"c{place}", "Concat", tuple(made), (f"c{place}",), joined))
    outputs = tuple(node.name for node in nodes if node.op == "Concat")
    return Graph("fan", ("v",), outputs, tuple(nodes), types)


def networks() -> Iterator[tuple[str, Graph, Sequence[Asked]]]:
    """Deep networks, batch norms left in."""
    zoo = import_module("bench.zoo")  # which needs PyTorch
    residual, dense = zoo.entry("resnet152"), zoo.entry("densenet161")
    encoder = (lambda: zoo.Encoder(256, 4, 24), zoo.sequences(64, 256))
    made = (
        ("resnet152", (residual.build, residual.inputs), RESNET),
        ("densenet161", (dense.build, dense.inputs), DENSENET),
        ("transformer-24", encoder, TRANSFORMER),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, (build, inputs), asked in made:
            path = Path(folder) / f"{name}.onnx"
            norms = asked is not TRANSFORMER
            zoo.export_torchscript(build().eval(), inputs(1), path, norms=norms)
            yield name, weft.load(path).graph, asked


def network_rows() -> Iterator[list[str]]:
    """Realistic queries on deep networks."""
    for name, graph, asked in networks():
        for each in asked:
            reading, query = least(partial(Query.read, each.text, each.predicates), 0.1)
            all_time, found = least(partial(query.matches, graph))
            greedy_time, greedy = least(partial(query.matches, graph, overlaps="greedy"))
            yield [
                f"{name} ({len(graph.nodes)})",
                f"`{shown(each.text)}`",
                number(reading),
                number(all_time),
                str(len(found)),
                str(each.count(Walk(graph))),
                number(greedy_time),
                str(len(greedy)),
            ]


def shown(text: str) -> str:
    """A query on one line of a table."""
    return text.replace("\n", "; ").replace("|", "\\|")


def chain_rows(overlaps: Overlaps) -> Iterator[list[str]]:
    """Milliseconds on ever longer chains, and the power of the length that they grow with."""
    graphs = [chain(count) for count in LENGTHS]
    for text in CHAIN:
        query = Query.read(text)
        times = [least(partial(query.matches, g, overlaps=overlaps))[0] for g in graphs]
        growth = slope(LENGTHS[1:], times[1:])
        yield [f"`{shown(text)}`", *map(number, times), f"{growth:.2f}"]


def pathological_rows() -> Iterator[list[str]]:
    """Seconds until a result, or until the query is refused; garbage is collected meanwhile."""
    graphs = {"chain": chain(1000), "ladder": ladder(1000), "fan": fan(1000)}
    modes: tuple[Overlaps, ...] = ("all", "every", "greedy")
    for name, text in PATHOLOGICAL:
        cells: list[str] = []
        for overlaps in modes:
            start = time.thread_time()
            try:
                matches = Query.read(text).matches(graphs[name], overlaps=overlaps)
                said = f"{len(matches)} found"
            except UserError as error:
                said = f"refused ({error.got})"
            cells.append(f"{time.thread_time() - start:.2f} s, {said}")
        yield [name, f"`{shown(text)}`", *cells]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave the networks out")
    lengths = [str(each) for each in LENGTHS]
    tables: list[tuple[str, Sequence[str], Iterator[list[str]]]] = []
    if not parser.parse_args().quick:
        heads = ("network (nodes)", "query", "read ms", "all ms", "found", "counted")
        heads = (*heads, "greedy ms", "found")
        tables.append(("Realistic queries", heads, network_rows()))
    modes: tuple[Overlaps, ...] = ("all", "greedy")
    for overlaps in modes:
        heads = (f"{overlaps}, ms on a chain of", *lengths, "grows with the power")
        tables.append((f"Growth, overlaps {overlaps}", heads, chain_rows(overlaps)))
    heads = ("graph of 1000", "query", "all", "every", "greedy")
    tables.append(("Pathological queries", heads, pathological_rows()))
    for title, heads, rows in tables:
        sys.stdout.write(f"\n{title}\n\n" + "\n".join(markdown(heads, rows)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
