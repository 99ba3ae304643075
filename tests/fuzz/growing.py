"""Random models, grown node by node on live values.

Every node is run by onnxruntime alone, on the values that it would read, before it joins the
model.  So nobody has to say which uses of an op are valid, what shapes come out, or where a
function is defined: what onnxruntime refuses, what is not finite, and what a small change of
its inputs changes much (comparisons of equal numbers, rounding at a half) is drawn anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import checker, helper, numpy_helper

OLDEST, NEWEST = 9, 22
IR_VERSION = 8
LARGEST = 1e5
"""Of any number; differences between large numbers tell nothing."""
MOST_ELEMENTS = 20_000
NUDGE = 1e-5
"""By how much of the largest number inputs are changed to see whether an op magnifies rounding."""
MAGNIFIED = 100
"""How many times more its outputs may change."""
_ERRORS = (
    onnxruntime.capi.onnxruntime_pybind11_state.Fail,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph,
    onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented,
    onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException,
)


class Unfit(Exception):
    """A proposal that is not to be had; another one is drawn."""


@dataclass(frozen=True)
class Proposal:
    """A node that a template proposes; names as ``Garden`` gave them.

    Attributes:
        op: its op.
        inputs: of the node.
        attributes: of the node, bodies of control flow among them.
        outputs: how many.
        seen: what bodies read from outside.
    """

    op: str
    inputs: Sequence[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    seen: Sequence[str] = ()

    @property
    def reads(self) -> list[str]:
        """Everything that it needs."""
        return [name for name in (*self.inputs, *self.seen) if name]


Template = Callable[["Garden"], Proposal]


@dataclass(frozen=True)
class Grown:
    """A model, what it is fed, and every value in it.

    Attributes:
        model: outputs are the values that no node reads, and some more.
        feeds: of its inputs.
        values: of all names, by onnxruntime.
    """

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    values: dict[str, np.ndarray]

    @property
    def ops(self) -> list[str]:
        """Its nodes' ops in order."""
        return [node.op_type for node in self.model.graph.node]


class Garden:
    """A model in the making, and what templates ask it for.

    Attributes:
        chance: all that is random comes from here.
        opset: the operator set.
        values: every value by its name.
        constants: names of those that the file holds.
        inputs: names of those that the caller gives.
        exact: names of those that no rounding has touched.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.chance.randint(OLDEST, NEWEST)
        self.values: dict[str, np.ndarray] = {}
        self.constants: list[str] = []
        self.inputs: list[str] = []
        self.exact: set[str] = set()
        self.nodes: list[onnx.NodeProto] = []
        self._fresh: dict[str, np.ndarray] = {}
        self._count = 0
        self._context = checker.C.CheckerContext()
        self._context.ir_version = IR_VERSION
        self._context.opset_imports = {"": self.opset}

    # --- what templates ask for -----------------------------------------------------------

    def draw(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Random numbers."""
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return self.numbers.integers(0, 2, shape).astype(kind)
        if kind.kind in "iu":
            return self.numbers.integers(0 if kind.kind == "u" else -8, 9, shape).astype(kind)
        return self.numbers.uniform(-2, 2, shape).astype(kind)

    def constant(self, array: np.ndarray | Sequence[int] | float, dtype: str = "int64") -> str:
        """A new constant; of 64-bit integers unless it is an array."""
        found = array if isinstance(array, np.ndarray) else np.asarray(array, dtype)
        return self._new("c", found)

    def weight(self, shape: Sequence[int], dtype: str = "float32") -> str:
        """New random numbers: mostly a constant, now and then an input."""
        array = self.draw(shape, dtype)
        if self.chance.random() < 0.15:
            return self._new("x", array)
        return self.constant(array)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Odd shapes: ones and primes, seldom anything round."""
        rank = self.chance.randint(least, most)
        sizes = (1, 2, 3, 5, 7, 8, 11, 13, 17) if rank < 4 else (1, 2, 3, 5, 7, 9)
        return tuple(self.chance.choice(sizes) for _ in range(rank))

    def value(
        self,
        dtypes: str = "float32",
        least: int = 0,
        most: int = 5,
        where: Callable[[np.ndarray], bool] = lambda _: True,
    ) -> str:
        """A value that is there, or a new input.

        Args:
            dtypes: separated by spaces.
            least: dimensions; most: of them.
            where: what else is asked of it.
        """
        wanted = dtypes.split()
        fit = [
            name
            for name, value in self.values.items()
            if str(value.dtype) in wanted
            and least <= value.ndim <= most
            and value.size
            and where(value)
        ]
        if fit and self.chance.random() < 0.9:
            # Late ones oftener, so that graphs get deep, but early ones, too: shared values.
            place = int(len(fit) * self.chance.random() ** 0.5)
            return fit[place]
        array = self.draw(self.shape(least, min(most, 4)), self.chance.choice(wanted))
        if not where(array):
            raise Unfit
        return self._new("x", array)

    def beside(self, name: str, *, one_way: bool = False) -> str:
        """A value that broadcasts with another one.

        Args:
            name: the other one.
            one_way: the result must have the other one's shape.
        """
        base = self.look(name)
        fit = [
            other
            for other, value in self.values.items()
            if value.dtype == base.dtype and value.size and _broadcasts(value, base, one_way)
        ]
        if fit and self.chance.random() < 0.6:
            return self.chance.choice(fit)
        shape = [size if self.chance.random() < 0.6 else 1 for size in base.shape]
        if not one_way:
            shape = [self.chance.choice((1, 2, 3, 5)) if s == b == 1 else s
                     for s, b in zip(shape, base.shape, strict=True)]  # fmt: skip
        return self.weight(shape[self.chance.randint(0, len(shape)) :], str(base.dtype))

    def look(self, name: str) -> np.ndarray:
        """The value of a name."""
        return self._fresh[name] if name in self._fresh else self.values[name]

    def axis(self, rank: int, *, negative: bool = True) -> int:
        """One of so many axes, counted from either end."""
        if rank == 0:
            raise Unfit
        return self.chance.randrange(-rank if negative and self.opset >= 11 else 0, rank)

    def maybe(self, chance: float = 0.5) -> bool:
        """Heads or tails."""
        return self.chance.random() < chance

    # --- growing --------------------------------------------------------------------------

    def _new(self, letter: str, array: np.ndarray) -> str:
        self._count += 1
        name = f"{letter}{self._count}"
        self._fresh[name] = array
        return name

    def grow(self, template: Template) -> bool:
        """Adds what a template proposes; whether it was fit."""
        self._fresh = {}
        try:
            proposal = template(self)
            made = self._tried(proposal)
        except Unfit:
            return False
        names = [f"v{len(self.nodes)}_{place}" for place in range(len(made))]
        self.nodes.append(_node(proposal, names))
        for name in proposal.reads:
            if name in self._fresh:
                (self.constants if name[0] == "c" else self.inputs).append(name)
                self.values[name] = self._fresh[name]
                self.exact.add(name)
        self.values.update(zip(names, made, strict=True))
        if all(name in self.exact for name in proposal.reads) and all(
            each.dtype.kind in "iub" for each in made
        ):
            self.exact.update(names)
        return True

    def _tried(self, proposal: Proposal) -> list[np.ndarray]:
        given = {name: self.look(name) for name in proposal.reads}
        fixed = [name for name in given if name[0] == "c"]
        session = self._session(proposal, given, fixed)
        made = _run(session, {k: v for k, v in given.items() if k not in fixed})
        if any(each.size > MOST_ELEMENTS or not _sober(each) for each in made):
            raise Unfit
        again = {name: self._nudged(name) for name in given if name not in fixed}
        changed = any(again[name] is not given[name] for name in again)
        if changed and not all(map(_steady, made, _run(session, again))):
            raise Unfit
        return made

    def _nudged(self, name: str) -> np.ndarray:
        """A value with as much more or less as rounding may have left in it."""
        value = self.look(name)
        if value.dtype.kind != "f" or name[0] != "v" or name in self.exact:
            return value
        most = NUDGE * float(np.abs(value).max(initial=0.0))
        return np.asarray(value + most * self.numbers.choice((-1.0, 1.0), value.shape), value.dtype)

    def _session(
        self, proposal: Proposal, given: Mapping[str, np.ndarray], fixed: Sequence[str]
    ) -> onnxruntime.InferenceSession:
        names = [f"o{place}" for place in range(proposal.outputs)]
        graph = helper.make_graph(
            [_node(proposal, names)],
            "one",
            [info(name, given[name]) for name in given if name not in fixed],
            [onnx.ValueInfoProto(name=name) for name in names],
            [numpy_helper.from_array(given[name], name) for name in fixed],
        )
        try:
            # onnxruntime takes some ops in operator sets that do not have them.
            if not proposal.seen:  # the checker would miss what bodies read from outside
                checker.check_node(graph.node[0], self._context)
        except checker.ValidationError:
            raise Unfit from None
        return session_of(_model(graph, self.opset))

    def finished(self) -> Grown:
        """The model; a few values that are read are outputs, too."""
        read = {name for node in self.nodes for name in (*node.input, *captured(node))}
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in read or self.maybe(0.1)]
        graph = helper.make_graph(
            self.nodes,
            "fuzzed",
            [info(name, self.values[name]) for name in self.inputs],
            [info(name, self.values[name]) for name in outputs],
            [numpy_helper.from_array(self.values[name], name) for name in self.constants],
        )
        feeds = {name: self.values[name] for name in self.inputs}
        return Grown(_model(graph, self.opset), feeds, dict(self.values))


def captured(node: onnx.NodeProto) -> list[str]:
    """Names that the bodies of a node mention: among them those from outside."""
    bodies = [each.g for each in node.attribute if each.HasField("g")]
    return [name for body in bodies for inner in body.node for name in inner.input]


def _broadcasts(value: np.ndarray, base: np.ndarray, one_way: bool) -> bool:
    try:
        shape = np.broadcast_shapes(value.shape, base.shape)
    except ValueError:
        return False
    return shape == base.shape if one_way else True


def _node(proposal: Proposal, outputs: Sequence[str]) -> onnx.NodeProto:
    return helper.make_node(
        proposal.op, list(proposal.inputs), list(outputs), **dict(proposal.attributes)
    )


def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """A name with an array's type."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """The model in onnxruntime as the file says it, with no optimisation.

    Raises:
        Unfit: onnxruntime refuses it.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except _ERRORS as error:
        raise Unfit(f"onnxruntime: {error}") from None


def _run(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    try:
        made = session.run(None, dict(feeds))
    except _ERRORS:
        raise Unfit from None
    return [np.asarray(each) for each in made]


def _sober(array: np.ndarray) -> bool:
    """Whether its numbers are finite and not large."""
    wide = array.astype(np.float64)
    return bool(np.isfinite(wide).all() and (np.abs(wide) < LARGEST).all())


def _steady(made: np.ndarray, again: np.ndarray) -> bool:
    """Whether a nudge of the inputs changes little."""
    if made.shape != again.shape or made.dtype.kind != "f":
        return bool(np.array_equal(made, again))
    scale = float(np.abs(made).max(initial=1e-3))
    return bool((np.abs(made - again) <= NUDGE * MAGNIFIED * scale).all())


def grown(seed: int, templates: Sequence[Template]) -> Grown:
    """The model of a seed: of one to a dozen nodes, of few ops or of many."""
    garden = Garden(seed)
    count = garden.chance.randint(1, 12)
    few = garden.chance.sample(list(templates), min(len(templates), garden.chance.randint(8, 24)))
    drawn = list(templates) if garden.maybe(0.7) else few
    for _ in range(200):
        if len(garden.nodes) == count:
            break
        garden.grow(garden.chance.choice(drawn))
    while not garden.nodes:
        garden.grow(garden.chance.choice(templates))
    return garden.finished()
