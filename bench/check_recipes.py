"""Applies every recipe to exported networks and compares what the compiled networks give.

    python -m bench.check_recipes                           the four usual networks
    python -m bench.check_recipes --names lstm              these only
    python -m bench.check_recipes --recipes tile-conv prune these recipes only
    python -m bench.check_recipes --plain                   bits of plain loops, too (slow)
    python -m bench.check_recipes --json recipes.json       and the figures as JSON

One line for each network, recipe and choice of parameters: how many nodes there were and are, the
largest difference from the network as it was over the range of its output, both as compiled C, and
what the recipe promises.  `-` stands for a recipe that has nothing to do there, or that says why
it does not apply.  What is bit-exact or reassociating must differ by less than 1e-4; with
`--plain`, what is bit-exact must be equal in plain loops (`compile(plain=True)`), which add up in
the order of the definitions.  What is approximate must give finite numbers.  The exit code is 1
if a line fails.

The networks are those of `bench.zoo`, with batch norms left in where there is such a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.folders import zoo_folder
from weft.api import Net, load
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.recipes import RECIPES, apply
from weft.rewrite.recipe import Recipe, parameters_of
from weft.rewrite.rule import Exactness
from weft.runtime.compare import compare

NETWORKS = ("lstm", "mobilenet_v2", "resnet18", "vit_b_16")
ERROR = 1e-4
LONGEST_CHAIN = 12

SETTINGS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "tile-conv": (
        {"axis": "2", "parts": 2},
        {"axis": "3", "size": 10},
        {"axis": "out", "parts": 3},
        {"axis": "in", "parts": 2},
    ),
    "tile-matmul": (
        {"axis": "rows", "parts": 3},
        {"axis": "columns", "parts": 4},
        {"axis": "inner", "parts": 2},
    ),
    "prune": ({"ratio": 0.3, "multiple": 8}, {"ratio": 0.3, "masked": True}),
    "low-rank": ({"macs": 0.5}, {"macs": 0.5, "convolution": "spatial"}),
    "palette": ({"k": 16}, {"k": 16, "keep": True}),
    "fault-weights": ({"rate": 1e-6},),
    "fault-activations": ({"rate": 1e-6},),
    "adapt-types": ({"dtypes": "f64,i64"}, {"dtypes": "f16,i64", "lossy": "yes"}),
}
"""Parameters to try; the defaults of recipes that are not named."""


@dataclass(frozen=True)
class Line:
    """What came of one recipe on one network.

    Attributes:
        network: its name.
        recipe: its name and parameters.
        promise: its exactness with these parameters.
        before: nodes before; after: nodes after.
        error: the largest difference over the range; ``None`` if it was not run.
        equal: whether the bits of plain loops are equal; ``None`` if that was not looked at.
        note: why it does not apply.
        seconds: that it all took.
    """

    network: str
    recipe: str
    promise: Exactness
    before: int
    after: int
    error: float | None = None
    equal: bool | None = None
    note: str = ""
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """What it does not keep."""
        if self.error is None:
            return []
        found: list[str] = []
        if not np.isfinite(self.error):
            found.append("not finite")
        if self.promise is not Exactness.APPROXIMATE and not self.error < ERROR:
            found.append(f"difference {self.error:.1e}")
        if self.promise is Exactness.BIT_EXACT and self.equal is False:
            found.append("other bits")
        return found


def path_of(name: str) -> Path:
    """The file of a network, with batch norms if there is one."""
    folder = zoo_folder()
    with_norms = folder / f"{name}.ts-bn.onnx"
    return with_norms if with_norms.exists() else folder / f"{name}.ts.onnx"


def chain(graph: Graph, axis: int) -> Mapping[str, object] | None:
    """Parameters for the longest chain from the first node on that can be cut so."""
    for start in graph.nodes:
        found: dict[str, object] | None = None
        for node in graph.nodes[graph.nodes.index(start) + 1 :][:LONGEST_CHAIN]:
            values = {"first": start.name, "last": node.name, "axes": axis, "parts": 3}
            try:
                apply(graph, "tile-chain", values)
            except UserError:
                continue
            found = values
        if found:
            return found
    return None


def settings(recipe: Recipe, graph: Graph) -> Iterator[Mapping[str, object]]:
    """The parameters that a recipe is tried with."""
    if recipe.name != "tile-chain":
        yield from SETTINGS.get(recipe.name, ({},))
        return
    for axis in (2, 1):
        found = chain(graph, axis)
        if found is not None:
            yield found


class Checked:
    """A network that recipes are applied to."""

    def __init__(self, name: str, plain: bool) -> None:
        self.name = name
        self.net = load(path_of(name)).bound()
        with np.load(zoo_folder() / f"{name}.npz") as arrays:
            self.x = arrays["x"]
        self.expected = outputs(self.net, self.x)
        self.plain = outputs(self.net, self.x, plain=True) if plain else None

    def line(self, recipe: Recipe, values: Mapping[str, object]) -> Line:
        """Apply a recipe and run what it makes."""
        start = time.perf_counter()
        promise = recipe.exactness_with(parameters_of(recipe, values))
        shown = " ".join([recipe.name, *(f"{key}={value}" for key, value in values.items())])
        before = len(self.net.graph.nodes)
        try:
            done = self.net.apply(recipe.name, **values)
        except UserError as error:
            return Line(self.name, shown, promise, before, before, note=str(error))
        if done is self.net:
            return Line(self.name, shown, promise, before, before, note="nothing to do")
        error = difference(outputs(done, self.x), self.expected)
        equal = None
        if self.plain is not None and promise is Exactness.BIT_EXACT:
            found = outputs(done, self.x, plain=True)
            equal = all(map(np.array_equal, found, self.plain))
        after, seconds = len(done.graph.nodes), time.perf_counter() - start
        return Line(self.name, shown, promise, before, after, error, equal, seconds=seconds)


def outputs(net: Net, x: np.ndarray, *, plain: bool = False) -> list[np.ndarray]:
    """What the compiled network gives."""
    made = net.compile(plain=plain)(x)
    return list(made) if isinstance(made, tuple) else [made]


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference over the range of any output."""
    pairs = zip(found, expected, strict=True)
    return max(compare("y", left, right).relative for left, right in pairs)


def shown(line: Line) -> str:
    """A line as it is printed."""
    text = f"{line.network:14} {line.recipe:42} {line.promise.value:14}"
    if line.error is None:
        return f"{text} -  {line.note.split('. ')[0][:90]}"
    bits = "" if line.equal is None else (", bits equal" if line.equal else ", other bits")
    nodes = f"{line.before} -> {line.after} nodes"
    failed = "".join(f"  FAILED: {each}" for each in line.failures())
    return f"{text} {line.error:.1e}{bits}, {nodes}, {line.seconds:.0f} s{failed}"


def main() -> int:
    """Check networks and recipes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", nargs="+", default=NETWORKS)
    parser.add_argument("--recipes", nargs="+", default=[each.name for each in RECIPES])
    parser.add_argument("--plain", action="store_true", help="bits of plain loops, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lines: list[Line] = []
    for name in given.names:
        checked = Checked(name, given.plain)
        for recipe in RECIPES:
            if recipe.name in given.recipes:
                for values in settings(recipe, checked.net.graph):
                    lines.append(checked.line(recipe, values))
                    print(shown(lines[-1]), flush=True)
    if given.json:
        records = [{**asdict(line), "promise": line.promise.value} for line in lines]
        given.json.write_text(json.dumps(records, indent=2))
    failed = sum(bool(line.failures()) for line in lines)
    print(f"{len(lines)} lines, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
