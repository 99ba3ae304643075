"""Hypothesis strategies: random types, arrays and graphs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from hypothesis import strategies as st

from weft.dtypes import DType
from weft.ir.edit import read_only
from weft.ir.graph import NO_ATTRIBUTES, Attributes, Graph, Node, Origin
from weft.ir.history import HistoryEntry
from weft.ir.types import Symbol, TensorType


class Mode(Enum):
    """An enum for attributes."""

    NEAREST = "nearest"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class Rich(Attributes):
    """Every kind of value that an attribute may have."""

    count: int = 0
    scale: float = 1.0
    name: str = ""
    flag: bool = False
    axis: int | None = None
    to: DType = DType.F32
    mode: Mode = Mode.NEAREST
    sizes: tuple[int, ...] = ()
    nested: tuple[tuple[float, ...], ...] = ()
    dim: int | Symbol = 1
    type: TensorType | None = None
    body: Graph | None = None


def attribute_class(op: str) -> type:
    """The attribute class of the ops that ``graphs`` uses."""
    return Rich if op.startswith("Rich") else Attributes


names = st.one_of(
    st.text("abc./_-", min_size=1, max_size=5),
    st.text(min_size=1, max_size=5).filter(lambda text: text.isprintable()),
    st.sampled_from(["by", "<-", "_", "graph", "const", "a b", 'q"', "//", "#", "%", "x,y", "\n"]),
)
dims = st.integers(0, 3)
static_types = st.builds(TensorType, st.sampled_from(DType), st.lists(dims, max_size=3).map(tuple))
types = st.one_of(
    static_types,
    st.builds(lambda type: TensorType(type.dtype, (Symbol("N"), *type.shape)), static_types),
)


@st.composite
def arrays(draw: st.DrawFn, type: TensorType) -> np.ndarray:
    """Arrays of any bits, so NaNs, infinities and negative zeros too."""
    size = type.size * type.dtype.bytes
    if type.dtype is DType.BOOL:
        raw = bytes(draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    else:
        raw = draw(st.binary(min_size=size, max_size=size))
    return read_only(np.frombuffer(raw, type.dtype.numpy).reshape(type.dims))


@st.composite
def rich_attributes(draw: st.DrawFn, depth: int) -> Rich:
    """Attribute records."""
    floats = st.floats(allow_nan=False)
    return Rich(
        count=draw(st.integers()),
        scale=draw(floats),
        name=draw(st.text(max_size=4)),
        flag=draw(st.booleans()),
        axis=draw(st.none() | st.integers()),
        to=draw(st.sampled_from(DType)),
        mode=draw(st.sampled_from(Mode)),
        sizes=tuple(draw(st.lists(st.integers(), max_size=3))),
        nested=tuple(
            tuple(each) for each in draw(st.lists(st.lists(floats, max_size=2), max_size=2))
        ),
        dim=draw(st.sampled_from([1, 7, Symbol("N")])),
        type=draw(st.none() | types),
        body=draw(st.none() | graphs(depth=depth - 1)) if depth else None,
    )


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 8, depth: int = 1, rich: bool = True) -> Graph:
    """Sound graphs of meaningless ops over meaningless types.

    Args:
        draw: hypothesis's.
        max_nodes: at most this many nodes.
        depth: how deep graphs may nest in attributes.
        rich: whether attributes have values.
    """
    taken: set[str] = set()

    def fresh() -> str:
        name = draw(names)
        while name in taken:
            name += str(len(taken))
        taken.add(name)
        return name

    inputs = {fresh(): draw(types) for _ in range(draw(st.integers(0, 3)))}
    constants = {
        fresh(): draw(static_types.flatmap(arrays)) for _ in range(draw(st.integers(0, 3)))
    }
    known = dict(inputs)
    known.update({n: TensorType(DType.of(a.dtype), a.shape) for n, a in constants.items()})
    nodes: list[Node] = []
    for number in range(draw(st.integers(0, max_nodes))):
        reads = draw(st.lists(st.sampled_from(["", *known]), max_size=3))
        makes = [fresh() for _ in range(draw(st.integers(1, 2)))]
        unused = draw(st.booleans()) and len(makes) > 1
        known.update({value: draw(types) for value in makes})
        if unused:
            del known[makes[0]]
            makes[0] = ""
        op = draw(st.sampled_from(["Plain", "Add", "odd op", "Rich"] if rich else ["Plain", "Add"]))
        attributes = draw(rich_attributes(depth)) if op == "Rich" else NO_ATTRIBUTES
        # Edits that join origins name each source and rule once.
        once = st.lists(names, max_size=2, unique=True)
        origin = Origin(tuple(draw(once)), tuple(draw(once)))
        label = draw(st.sampled_from([next(v for v in makes if v), f"node{number}"]))
        nodes.append(Node(label, op, tuple(reads), tuple(makes), attributes, origin))
    outputs = tuple(draw(st.lists(st.sampled_from([*known]), max_size=3))) if known else ()
    entries = st.builds(HistoryEntry, st.text(max_size=5), st.text(max_size=5))
    history = tuple(draw(st.lists(entries, max_size=2)))
    name = draw(names)
    return Graph(name, tuple(inputs), outputs, tuple(nodes), known, constants, history)
