"""What rows of the table of Keras layers are written with.

A row is a function under the names of the classes of the layers that it imports.  It takes
``g``, which makes nodes of Weft, the layer's configuration, and what the layer is called with::

    @layer("Softmax", masking=True)
    def softmax(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        return g("Softmax", inputs, axis=c.size("axis", -1, least=-8))

Arguments of the call have the names of Keras; one that a row does not take must be ``None``, else
the layer is refused.  Fields of the configuration that a row does not read must mean nothing.
A row refuses with ``g.refuse(reason)``.  Rows of ``operations`` import functions of ``keras.ops``
and ``tf``: they take no configuration, their arguments may be numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from weft.dtypes import DType
from weft.frontends import emit
from weft.frontends.emit import Number, RefusalError, Tensor
from weft.frontends.keras.config import Config
from weft.frontends.keras.weights import Place, Weights
from weft.ir.types import TensorType
from weft.records import dataclass

Made: TypeAlias = "Tensor | Sequence[Tensor]"
Row: TypeAlias = Callable[..., Made]
Inner: TypeAlias = "tuple[str, str]"
R = TypeVar("R", bound=Row)

_MOST_CATEGORIES = 1 << 24
LAYERS: dict[str, Row] = {}
"""Rows by the name of a layer's class."""
MASKING: set[str] = set()
"""Layers whose output has the mask of their input, and operations that do not take it away."""
OPERATIONS: dict[str, Row] = {}
"""Rows by the name of an operation's class in ``keras.ops``."""


def layer(*names: str, masking: bool = False) -> Callable[[R], R]:
    """Enters a row into the table under names of classes of layers.

    Args:
        names: of the classes.
        masking: whether the output has the mask of the first input.
    """

    def enter(row: R) -> R:
        for name in names:
            assert name not in LAYERS, name
            LAYERS[name] = row
            if masking:
                MASKING.add(name)
        return row

    return enter


def operation(*names: str, masking: bool = False) -> Callable[[R], R]:
    """Enters a row into the table under names of classes of operations.

    Args:
        names: of the classes.
        masking: whether an input that is the output, too, keeps its mask.
    """

    def enter(row: R) -> R:
        for name in names:
            assert name not in OPERATIONS, name
            OPERATIONS[name] = row
            if masking:
                MASKING.add(name)
        return row

    return enter


@dataclass(frozen=True)
class State:
    """What a stateful layer hands from run to run: an input of the graph, and its next value."""

    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Called:
    """The last call of a stateful layer.

    Attributes:
        ports: names of the graph's inputs that bring the states of the first call.
        begin: its first node.
        end: the node behind its last one.
    """

    ports: tuple[str, ...]
    begin: int
    end: int


@dataclass
class Emit(emit.Emit):
    """Makes the nodes of one Keras layer.

    Attributes:
        weights: of the model.
        place: where those of the layer lie.
        major: the major version of Keras that wrote the model.
        masks: masks that tensors carry, by the tensors' names.
        states: what stateful layers hand on.
        called: the last calls of stateful layers.
        compute: the element type that the layer computes in.
        call: imports a layer inside a layer, called with tensors.
    """

    weights: Weights | None = None
    place: Place = field(default_factory=Place)
    major: int = 3
    masks: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    states: list[State] = field(default_factory=list[State])
    called: dict[tuple[Any, ...], Called] = field(default_factory=dict[tuple[Any, ...], Called])
    compute: DType = DType.F32
    call: Callable[..., Any] | None = None
    _shared: dict[tuple[Any, ...], Tensor] = field(default_factory=dict[tuple[Any, ...], Tensor])

    def arrays_of(
        self, *names: str | tuple[str, ...], within: Sequence[Inner] = ()
    ) -> list[np.ndarray]:
        """The layer's variables, in the order in which Keras creates them.

        Args:
            names: of the variables, each as the versions of Keras call it.
            within: layers inside the layer that they are of.
        """
        assert self.weights is not None
        found: list[np.ndarray] = []
        for number, name in enumerate(names):
            known = (name,) if isinstance(name, str) else name
            array = self.weights.array(self.place, number, known, within)
            floats = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
            found.append(array.astype(self.compute.numpy, copy=False) if floats else array)
        return found

    def held(self, array: np.ndarray, name: str) -> Tensor:
        """A constant that calls of the same layer share."""
        key = (
            self.place,
            name,
            array.shape,
            array.dtype.str,
            array.tobytes() if array.size < 64 else "",
        )
        known = self._shared.get(key)
        if known is not None:
            return known
        wish = "/".join([*self.place.names, name])
        made = Tensor(
            self.builder.constant(np.asarray(array, order="C"), wish),
            TensorType(DType.of(array.dtype), array.shape),
        )
        self._shared[key] = made
        return made

    def several(
        self, op: str, *inputs: Tensor | None, outputs: int, **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Adds a node with so many outputs, named after the layer and the op."""
        record = self.builder.ops[op].attributes(**attributes)
        names = [each.name if each is not None else "" for each in inputs]
        name = f"{self.name}/{op.removesuffix('ChannelsLast')}"
        made = self.builder.nodes_of(op, names, record, outputs=outputs, name=name)
        return tuple(self.of(each) for each in made)

    def categories(self, count: int, dtype: DType) -> np.ndarray:
        """The numbers of categories; refused where there are more than any model has."""
        if not 0 < count <= _MOST_CATEGORIES:
            self.refuse(f"there must be 1 to {_MOST_CATEGORIES:,} categories, but are {count:,}")
        return np.arange(count, dtype=dtype.numpy)

    def mask(self, x: Tensor) -> Tensor | None:
        """The mask that a tensor carries."""
        return self.masks.get(x.name)

    def unmasked(self, *given: Tensor) -> None:
        """Refuses tensors with masks."""
        if any(each.name in self.masks for each in given):
            self.refuse("a mask that reaches it is not supported")

    # --- arithmetic of tensors and numbers ---------------------------------------------------

    def pair(self, op: str, lhs: Tensor | Number, rhs: Tensor | Number) -> Tensor:
        """An op of two operands, of which one may be a number of the other's type."""
        like = lhs if isinstance(lhs, Tensor) else rhs
        if not isinstance(like, Tensor):
            raise RefusalError("one operand must be a tensor")
        return self(op, self.cast(lhs, like.dtype), self.cast(rhs, like.dtype))

    def add(self, lhs: Tensor | Number, rhs: Tensor | Number) -> Tensor:
        """``lhs + rhs``."""
        return self.pair("Add", lhs, rhs)

    def mul(self, lhs: Tensor | Number, rhs: Tensor | Number) -> Tensor:
        """``lhs * rhs``."""
        return self.pair("Mul", lhs, rhs)

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """``x`` where the condition holds, else ``y``."""
        like = x if isinstance(x, Tensor) else y
        assert isinstance(like, Tensor)
        return self("Where", condition, self.cast(x, like.dtype), self.cast(y, like.dtype))

    def flip(self, x: Tensor, axis: int) -> Tensor:
        """An axis backwards."""
        last = -x.shape[axis] - 1
        return self("Slice", x, starts=(-1,), ends=(last,), axes=(axis,), steps=(-1,))

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Parts one after the other; a single one as it is."""
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=axis)


Rows: TypeAlias = Mapping[str, Row]
__all__ = [
    "LAYERS",
    "MASKING",
    "OPERATIONS",
    "Config",
    "Emit",
    "Made",
    "Number",
    "RefusalError",
    "Row",
    "Rows",
    "State",
    "Tensor",
    "layer",
    "operation",
]
