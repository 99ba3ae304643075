"""Applies every recipe to exported networks and compares what the compiled networks give.

    python -m bench.check_recipes                           the four usual networks
    python -m bench.check_recipes --names lstm              these only
    python -m bench.check_recipes --recipes tile-conv prune these recipes only
    python -m bench.check_recipes --folder recipes          go on where an earlier run ended
    python -m bench.check_recipes --table recipes.md        write the whole as a table, too

One line for each network, recipe and choice of parameters: how many nodes there were and are, the
largest difference from the network as it was over the range of its output, both as compiled C, and
what the recipe promises.  `-` stands for a recipe that has nothing to do there, or that says why
it does not apply.

What is bit-exact or reassociating must differ by less than 1e-4.  What is bit-exact must also be
equal in plain loops (`compile(plain=True)`), which add up in the order of the definitions.  What is
approximate must give finite numbers, and those that the references of the ops give for the graph
that the recipe made.  The exit code is 1 if a line fails.

The networks are those of `bench.zoo`, with batch norms left in where there is such a file.  Most of
the time goes into generating and compiling C, up to a minute for each line; lines that an earlier
run left in the folder of `--folder` are not run again, unless they failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.folders import zoo_folder
from bench.litter import LITTER
from weft.api import Net, load
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.recipes import RECIPES, apply, recipe_named
from weft.rewrite.recipe import Recipe, apply_recipe, parameters_of
from weft.rewrite.rule import Exactness
from weft.runtime.cache import Cache, digest
from weft.runtime.compare import compare

NETWORKS = ("lstm", "mobilenet_v2", "resnet18", "vit_b_16")
ERROR = 1e-4
ERROR_OF_JUMPS = 3e-2
"""The largest difference, over the range; and where rounding decides between values far apart."""
LONGEST_CHAIN = 12
LINES = "lines.jsonl"
FRACTION = "20,21,22"
"""The highest bits of the fraction of a float: faults there show, and leave it finite."""

Values = Mapping[str, object]


@dataclass(frozen=True)
class Case:
    """One way to try a recipe.

    Attributes:
        values: its parameters.
        after: a recipe that is applied before it, and that recipe's parameters.
    """

    values: Values = field(default_factory=dict[str, object])
    after: tuple[Recipe, Values] | None = None

    def shown(self, recipe: Recipe) -> str:
        """The recipe and its parameters, as they are typed."""
        text = _typed(recipe.name, self.values)
        if self.after is None:
            return text
        first, values = self.after
        return f"{_typed(first.name, values)}, {text}"


def _typed(name: str, values: Values) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in values.items())])


CLEANING = (
    "remove-dropout",
    "remove-identity",
    "remove-no-ops",
    "fold-constants",
    "share-constants",
    "share-nodes",
    "remove-unused",
)
HALF: Values = {"dtypes": "f16,i64", "lossy": "yes"}
CASES: Mapping[str, tuple[Case, ...]] = {
    **dict.fromkeys(CLEANING, (Case(), Case(after=(LITTER, {})))),
    "form-composites": (Case(), Case(after=(recipe_named("expand-composites"), {}))),
    "tile-conv": (
        Case({"axis": "2", "parts": 2}),
        Case({"axis": "3", "size": 10}),
        Case({"axis": "out", "parts": 3}),
        Case({"axis": "in", "parts": 2}),
    ),
    "tile-matmul": (
        Case({"axis": "rows", "parts": 3}),
        Case({"axis": "columns", "parts": 4}),
        Case({"axis": "inner", "parts": 2}),
    ),
    "explicit-casts": (Case(), Case(after=(recipe_named("adapt-types"), HALF))),
    "channels-first": (Case(), Case(after=(recipe_named("channels-last"), {}))),
    "adapt-types": (Case({"dtypes": "f64,i64"}), Case(HALF)),
    "prune": (Case({"ratio": 0.3, "multiple": 8}), Case({"ratio": 0.3, "masked": True})),
    "low-rank": (Case({"macs": 0.5}), Case({"macs": 0.5, "convolution": "spatial"})),
    "palette": (Case({"k": 16}), Case({"k": 16, "keep": True})),
    "fault-weights": (Case({"rate": 1e-4, "bits": FRACTION}),),
    "fault-activations": (Case({"rate": 1e-3, "bits": FRACTION}),),
}
"""How recipes are tried; with their defaults where they are not named."""


@dataclass(frozen=True)
class Line:
    """What came of one recipe on one network.

    Attributes:
        network: its name.
        recipe: its name and parameters.
        promise: its exactness with these parameters.
        before: nodes before.
        after: nodes after.
        error: the largest difference over the range; ``None`` if it was not run.
        equal: whether the bits of plain loops are equal; ``None`` if that was not looked at.
        own: the largest difference from the references on the graph that the recipe made;
            ``None`` if that was not looked at.
        jumps: whether rounding decides between values far apart: in half precision, and
            where bits of what is computed are damaged.
        note: why it does not apply.
        seconds: that it all took.
    """

    network: str
    recipe: str
    promise: str
    before: int
    after: int
    error: float | None = None
    equal: bool | None = None
    own: float | None = None
    jumps: bool = False
    note: str = ""
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """What it does not keep."""
        if self.error is None:
            return []
        most = ERROR_OF_JUMPS if self.jumps else ERROR
        found: list[str] = []
        if not np.isfinite(self.error):
            found.append("not finite")
        if self.promise != Exactness.APPROXIMATE.value and not self.error < most:
            found.append(f"difference {self.error:.1e}")
        if self.promise == Exactness.BIT_EXACT.value and self.equal is False:
            found.append("other bits")
        if self.own is not None and not self.own < most:
            found.append(f"{self.own:.1e} from its own reference")
        return found


def path_of(name: str) -> Path:
    """The file of a network, with batch norms if there is one."""
    folder = zoo_folder()
    with_norms = folder / f"{name}.ts-bn.onnx"
    return with_norms if with_norms.exists() else folder / f"{name}.ts.onnx"


# --- what is tried ----------------------------------------------------------------------------


def cases(recipe: Recipe, graph: Graph) -> Iterator[Case]:
    """The ways to try a recipe on a graph."""
    if recipe.name == "tile-chain":
        yield from (Case(chain(graph, axis)) for axis in (2, 1))
    else:
        yield from CASES.get(recipe.name, (Case(),))


def chain(graph: Graph, axis: int) -> Values:
    """Parameters for the longest chain from the first node on that can be cut so.

    Layers with weights must be among its nodes.  Where there is no such chain, the parameters
    name the whole network, and the recipe says why not.
    """
    for place, start in enumerate(graph.nodes):
        found = _chain_from(graph, place, axis)
        if found is not None:
            return _of_chain(start.name, found, axis)
    return _of_chain(graph.nodes[0].name, graph.nodes[-1].name, axis)


def _of_chain(first: str, last: str, axis: int) -> Values:
    return {"first": first, "last": last, "axes": axis, "parts": 3}


def _chain_from(graph: Graph, place: int, axis: int) -> str | None:
    """The last node of the longest chain that starts with a node."""
    nodes = graph.nodes[place : place + LONGEST_CHAIN + 1]
    weighted = [node.op in ("Conv", "Gemm", "MatMul") for node in nodes]
    for count in range(len(nodes), 1, -1):
        if not any(weighted[:count]):
            return None
        last = nodes[count - 1].name
        try:
            apply(graph, "tile-chain", _of_chain(nodes[0].name, last, axis))
        except UserError:
            continue
        return last
    return None


# --- trying it --------------------------------------------------------------------------------


class Checked:
    """A network that recipes are applied to.

    Args:
        name: of the network.
        plain: whether the bits of plain loops are compared, too.
        folder: where what networks give is kept for later runs.
    """

    def __init__(self, name: str, plain: bool, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.net = load(path_of(name)).bound()
        with np.load(zoo_folder() / f"{name}.npz") as arrays:
            self.x = arrays["x"]
        self.compares_bits = plain
        # What is compiled here is run once, and large.
        os.environ["WEFT_CACHE"] = str(folder / f"cache-{name}")
        self.built: set[Path] = set()

    @cached_property
    def expected(self) -> list[np.ndarray]:
        """What the network gives as it is."""
        return self.kept(plain=False)

    @cached_property
    def plain(self) -> list[np.ndarray]:
        """What it gives in plain loops."""
        return self.kept(plain=True)

    def kept(self, *, plain: bool) -> list[np.ndarray]:
        """What the network gives, whose C stays for those that come out as it is."""
        start = time.time()
        made = self.outputs(self.net, plain=plain)
        self.built |= {entry.path for entry in Cache().entries() if entry.used >= start}
        return made

    def clear(self) -> None:
        """Remove what was compiled of networks that recipes made, which is large."""
        for entry in Cache().entries():
            if entry.path not in self.built:
                entry.path.unlink()

    def outputs(self, net: Net, *, plain: bool = False) -> list[np.ndarray]:
        """What a network gives as compiled C, which the same machine code may have given before.

        It is compiled for one thread, for half of the C is about cutting work for several.
        """
        compiled = net.compile(plain=plain, threads=1)
        built = compiled.library.built
        weights = "" if built.weights is None else built.weights.name
        code = digest([built.library.read_bytes(), weights, self.x.tobytes()])
        file = self.folder / f"{self.name}-{code}.npz"
        if not file.exists():
            made = compiled(self.x)
            np.savez(file, *(made if isinstance(made, tuple) else (made,)))
        with np.load(file) as arrays:
            return list(arrays.values())

    def line(self, recipe: Recipe, case: Case) -> Line:
        """Apply a recipe and run what it makes."""
        start = time.perf_counter()
        shown = case.shown(recipe)
        promise = _promise(recipe, case)
        before = before_recipe = self.net
        try:
            if case.after is not None:
                before_recipe = Net(apply_recipe(before.graph, *case.after))
            done = before_recipe.apply(recipe.name, **case.values)
        except UserError as error:
            return self._without(shown, promise, str(error))
        if done is before_recipe:
            return self._without(shown, promise, "nothing to do")
        made = self.outputs(done)
        equal = own = None
        if promise is Exactness.APPROXIMATE:
            own = difference(made, done.reference(self.x))
        if promise is Exactness.BIT_EXACT and self.compares_bits:
            equal = all(map(np.array_equal, self.outputs(done, plain=True), self.plain))
        return Line(
            self.name,
            shown,
            promise.value,
            len(before_recipe.graph.nodes),
            len(done.graph.nodes),
            difference(made, self.expected),
            equal,
            own,
            _jumps(done.graph),
            seconds=time.perf_counter() - start,
        )

    def _without(self, shown: str, promise: Exactness, note: str) -> Line:
        count = len(self.net.graph.nodes)
        return Line(self.name, shown, promise.value, count, count, note=note)


def _promise(recipe: Recipe, case: Case) -> Exactness:
    """What is promised of a recipe and of the one before it."""
    own = recipe.exactness_with(parameters_of(recipe, case.values))
    if case.after is None:
        return own
    first, values = case.after
    other = first.exactness_with(parameters_of(first, values))
    return other if own <= other else own


def _jumps(graph: Graph) -> bool:
    return any(node.op == "BitCast" for node in graph.nodes) or any(
        type.dtype is DType.F16 for type in graph.types.values()
    )


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference over the range of any output."""
    pairs = zip(found, expected, strict=True)
    return max(compare("y", left, right).relative for left, right in pairs)


# --- showing it -------------------------------------------------------------------------------


def printed(line: Line) -> str:
    """A line as it is printed."""
    text = f"{line.network:14} {line.recipe:42} {line.promise:14}"
    if line.error is None:
        return f"{text} -  {line.note.split('. ')[0][:90]}"
    bits = "" if line.equal is None else (", bits equal" if line.equal else ", other bits")
    own = "" if line.own is None else f", {line.own:.1e} from its reference"
    nodes = f"{line.before} -> {line.after} nodes"
    failed = "".join(f"  FAILED: {each}" for each in line.failures())
    return f"{text} {line.error:.1e}{bits}{own}, {nodes}, {line.seconds:.0f} s{failed}"


def table(lines: Sequence[Line]) -> str:
    """All lines as a table in Markdown: a row for each recipe, a column for each network."""
    names = list(dict.fromkeys(line.network for line in lines))
    rows = [["recipe", "promise", *names], ["---"] * (2 + len(names))]
    by_cell = {(_row(line), line.network): line for line in lines}
    for recipe, promise in dict.fromkeys((_row(line), line.promise) for line in lines):
        cells = [by_cell.get((recipe, name)) for name in names]
        rows.append([recipe, promise, *("" if each is None else _cell(each) for each in cells)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(line: Line) -> str:
    """What a row is called: chains are of other nodes in each network."""
    words = line.recipe.split()
    return " ".join(each for each in words if not each.startswith(("first=", "last=")))


def _cell(line: Line) -> str:
    if line.error is None:
        return f"- {line.note.split('. ')[0]}"
    bits = ", bits equal" if line.equal else ""
    own = "" if line.own is None else f", {line.own:.0e} from its reference"
    failed = "".join(f", FAILED: {each}" for each in line.failures())
    nodes = f"{line.before} to {line.after} nodes"
    return f"{line.error:.0e}{bits}{own}; {nodes}; {line.seconds:.0f} s{failed}"


# --- the command ------------------------------------------------------------------------------


def kept_lines(path: Path) -> dict[tuple[str, str], Line]:
    """The lines that an earlier run wrote, without those that failed."""
    if not path.exists():
        return {}
    found = [Line(**json.loads(text)) for text in path.read_text().splitlines()]
    return {(line.network, line.recipe): line for line in found if not line.failures()}


def keep_line(path: Path, line: Line) -> None:
    """Add a line to those for later runs."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def check(
    checked: Checked, recipes: Sequence[str], kept: Mapping[tuple[str, str], Line]
) -> Iterator[Line]:
    """The lines of a network, those that are kept from an earlier run among them."""
    for recipe in RECIPES:
        for case in cases(recipe, checked.net.graph) if recipe.name in recipes else ():
            line = kept.get((checked.name, case.shown(recipe)))
            yield line or checked.line(recipe, case)


def main() -> int:
    """Check networks and recipes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", nargs="+", default=NETWORKS)
    parser.add_argument("--recipes", nargs="+", default=[each.name for each in RECIPES])
    parser.add_argument("--fast", action="store_true", help="leave out the bits of plain loops")
    parser.add_argument("--folder", type=Path, help="keep lines here, and go on with those there")
    parser.add_argument("--table", type=Path, help="write the whole as a table in Markdown")
    given = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="weft-recipes-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kept = kept_lines(folder / LINES)
        for name in given.names:
            checked = Checked(name, not given.fast, folder)
            for line in check(checked, given.recipes, kept):
                lines.append(line)
                print(printed(line), flush=True)
                if line not in kept.values():
                    keep_line(folder / LINES, line)
                    checked.clear()
    if given.table:
        given.table.write_text(table(lines))
    failed = sum(bool(line.failures()) for line in lines)
    print(f"{len(lines)} lines, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
