"""A graph for inputs of other shapes: every type inferred anew, fixed sizes mended or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from dataclasses import replace as changed
from typing import Any, SupportsIndex

import numpy as np

from weft.errors import UserError, nearest
from weft.ir.compose import bind_symbols, symbols
from weft.ir.graph import Graph, Node, noted
from weft.ir.naming import fresh, listed
from weft.ir.types import Dim, Symbol, TensorType
from weft.ops.evaluate import call_of
from weft.ops.ordering import ExpandAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.surgery.batch import Mend, batch_of, with_batch
from weft.surgery.mend import MENDERS, Resized
from weft.surgery.stretch import stretched


def with_shapes(graph: Graph, shapes: Mapping[str, Sequence[Dim | str]]) -> Graph:
    """The graph for inputs of other shapes, such as another batch or resolution.

    Another batch leaves every member as it was (``weft.surgery.batch``).  Other sizes that
    stand in attributes (the target of a reshape) follow where it is certain what they mean;
    where it is not, and where weights or other constants fix a size, the edit is refused with
    the node and the reason.

    Args:
        graph: the graph.
        shapes: by input; a name as the leading size leaves it open.
    """
    wanted = {name: _shape(graph, name, shape) for name, shape in shapes.items()}
    bound = _bound(graph, wanted)
    types = {name: bound.types[name] for name in bound.inputs}
    types.update(
        {name: TensorType(bound.types[name].dtype, shape) for name, shape in wanted.items()}
    )
    done = _resized(bound, types)
    what = listed(f"{name} {types[name]}" for name in wanted)
    return noted(changed(done, history=graph.history), "shapes", what)


def _shape(graph: Graph, name: str, shape: Sequence[Dim | str]) -> tuple[Dim, ...]:
    if name not in graph.inputs:
        got = ", ".join(graph.inputs) or "no inputs"
        raise UserError(
            f"shapes: graph {graph.name} has no input {name}",
            got=got,
            fix=nearest(name, graph.inputs),
        )
    if isinstance(shape, str) or not isinstance(shape, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"shapes: the shape of input {name} is a tuple of sizes",
            got=repr(shape),
            fix=f"It is {graph.types[name]} now.",
        )
    found = tuple(_dim(dim) for dim in shape)
    old = graph.types[name].shape
    if len(found) != len(old):
        raise UserError(
            f"shapes: input {name} has {len(old)} dimensions, {graph.types[name]}",
            got=f"{len(found)}",
        )
    for place, dim in enumerate(found):
        if isinstance(dim, Symbol):
            if place:
                raise UserError("shapes: only the leading size may be left open", got=f"{name}")
        elif not isinstance(dim, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"shapes: sizes of input {name} must be whole numbers", got=repr(dim))
        elif dim < 1:
            raise UserError(f"shapes: sizes of input {name} must be at least 1", got=str(dim))
    return found


def _dim(given: Dim | str) -> Dim:
    if isinstance(given, str):
        return Symbol(given)
    # NumPy's whole numbers are as good.
    return int(given) if isinstance(given, SupportsIndex) else given


def _bound(graph: Graph, wanted: Mapping[str, tuple[Dim, ...]]) -> Graph:
    """The graph with the symbols bound that get sizes."""
    sizes: dict[str, int] = {}
    for name, shape in wanted.items():
        for old, new in zip(graph.types[name].shape, shape, strict=True):
            if not isinstance(old, Symbol) or not isinstance(new, int):
                continue
            if sizes.setdefault(old.name, new) != new:
                raise UserError(
                    f"shapes: {old.name} is one size in all inputs",
                    got=f"{sizes[old.name]} and {new}",
                )
    known = symbols(graph)
    return bind_symbols(graph, {n: s for n, s in sizes.items() if n in known}) if sizes else graph


def _resized(graph: Graph, types: Mapping[str, TensorType]) -> Graph:
    """The batch first, of which more is known: its members are computed as they were."""
    batch = batch_of(graph, types)
    if batch is None:
        return retyped(graph, types)
    try:
        middle = with_batch(graph, batch, _mended_in(graph))
        done = all(middle.types[name] == type for name, type in types.items())
        return middle if done else retyped(middle, types)
    except UserError:
        # Perhaps what changes is no batch.
        return retyped(graph, types)


def retyped(graph: Graph, inputs: Mapping[str, TensorType]) -> Graph:
    """The graph with other types of its inputs, all others inferred from them."""
    work = _Work(graph, {name: graph.types[name] for name in graph.constants})
    work.types.update(inputs)
    work.fixed.update(graph.constants)
    for node in graph.nodes:
        work.retype(node)
    return changed(graph, nodes=tuple(work.nodes), types=work.types)


@dataclass
class _Work:
    """A graph whose nodes get other types, one after another.

    Attributes:
        graph: as it was.
        types: of the values so far.
        nodes: so far.
        fixed: values that no graph input has a part in.
        wide: names of repeated values, by the value and its shape.
    """

    graph: Graph
    types: dict[str, TensorType]
    nodes: list[Node] = field(default_factory=list[Node])
    fixed: set[str] = field(default_factory=set[str])
    wide: dict[tuple[str, tuple[Dim, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[Dim, ...]], str]
    )

    def retype(self, node: Node) -> None:
        """Adds the node, its attributes mended, and its outputs' types."""
        read = [value for value in node.inputs if value]
        if all(value in self.fixed for value in read):
            self.fixed.update(node.outputs)
        if all(self.types[value] == self.graph.types[value] for value in read):
            self._add(node, [self.graph.types[value] if value else None for value in node.outputs])
            return
        self._refuse_picks(node)
        mended = changed(node, attributes=self._attributes(node, node))
        try:
            made = OPS[node.op].infer(call_of(mended, self.types))
        except UserError as error:
            mended, made = self._stretched(node, mended, error)
        self._add(mended, made)

    def _add(self, node: Node, made: Sequence[TensorType | None]) -> None:
        for value, type in zip(node.outputs, made, strict=False):
            if value and type is not None:
                self.types[value] = type
        self.nodes.append(node)

    def _refuse_picks(self, node: Node) -> None:
        """Refuses positions that pick all of an axis which is no longer as long."""
        positions = self.graph.constants.get(node.inputs[1]) if node.op == "Gather" else None
        if positions is None:
            return
        data = node.inputs[0]
        old, new = self.graph.types[data].shape, self.types[data].shape
        axis: int = node.attributes.axis % len(old)
        size = old[axis]
        if new[axis] == size or not isinstance(size, int) or size == 1:
            return
        if np.array_equal(np.unique(positions % size), np.arange(size)):
            raise UserError(
                f"shapes: gather: constant positions pick all {size} of axis {axis}",
                got=f"now {self.types[data]}",
                fix=_FIX,
                where=f"node {node.name}",
            )

    def _stretched(
        self, node: Node, mended: Node, error: UserError
    ) -> tuple[Node, tuple[TensorType, ...]]:
        """The node with constants of one row repeated, if that is what it lacks."""
        given = [self.types[value] if value else None for value in mended.inputs]
        inputs = list(mended.inputs)
        for place, shape in stretched(mended.op, mended.attributes, given).items():
            if inputs[place] in self.fixed:
                inputs[place] = self._repeated(inputs[place], shape)
        if tuple(inputs) != mended.inputs:
            wide = changed(node, inputs=tuple(inputs))
            wide = changed(wide, attributes=self._attributes(node, wide))
            try:
                return wide, OPS[node.op].infer(call_of(wide, self.types))
            except UserError as other:
                error = other
        raise UserError(
            f"shapes: {error.rule}", got=error.got, fix=_FIX, where=f"node {node.name}"
        ) from None

    def _repeated(self, value: str, shape: tuple[Dim, ...]) -> str:
        """A value repeated along sizes of 1."""
        name = self.wide.get((value, shape))
        if name is None:
            taken = {*self.graph.types, *self.types}
            name = self.wide[value, shape] = fresh(f"{value}_wide", taken)
            nodes = {*self.graph.by_name, *(node.name for node in self.nodes)}
            repeat = Node(
                fresh(f"{value}_expand", nodes),
                "Expand",
                (value,),
                (name,),
                ExpandAttributes(shape),
            )
            self._add(repeat, [TensorType(self.types[value].dtype, shape)])
        return name

    def _attributes(self, before: Node, node: Node) -> object:
        """The node's attributes, sizes in them mended; ``before`` is how it was."""
        return _mended_in(self.graph)(before, node, self.types)


def _mended_in(graph: Graph) -> Mend:
    """Gives the attributes of a graph's nodes, sizes in them mended, for other types."""

    def mended(before: Node, node: Node, types: Mapping[str, TensorType]) -> Any:
        mend = MENDERS.get(node.op)
        if mend is None:
            return node.attributes
        resized = Resized(
            node,
            tuple(graph.types[value] if value else None for value in before.inputs),
            tuple(graph.types[value] for value in node.outputs if value),
            tuple(types[value] if value else None for value in node.inputs),
            lambda: _earlier(graph, before, types),
        )
        return mend(resized, retyped)

    return mended


_FIX = "A weight, a constant or an attribute holds the old size."


def _earlier(graph: Graph, node: Node, types: Mapping[str, TensorType]) -> set[tuple[Dim, ...]]:
    """Shapes now of values behind a node whose shape was that of its output."""
    wanted = graph.types[next(value for value in node.outputs if value)].shape
    found: set[tuple[Dim, ...]] = set()
    pending, seen = [node], {node.name}
    while pending:
        for value in pending.pop().inputs:
            if value and value not in graph.constants and graph.types[value].shape == wanted:
                found.add(types[value].shape)
            maker = graph.producers.get(value)
            if maker is not None and maker.name not in seen:
                seen.add(maker.name)
                pending.append(maker)
    return found
