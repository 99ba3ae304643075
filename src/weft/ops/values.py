"""Values of a network in the making: what op functions take and give.

A value knows its type and what makes it.  Nothing is recorded anywhere else, so values can
be made in any order and shared; ``weft.ops.trace`` turns those that outputs depend on into a
graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from types import EllipsisType
from typing import Any, Literal, TypeAlias, assert_never

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.buffers import ArrayLike, GivesArray, GivesDLPack, as_array
from weft.ir.graph import NO_ATTRIBUTES, Graph
from weft.ir.naming import type_of
from weft.ir.types import TensorType
from weft.ops.record import Call, Op
from weft.ops.table import OPS
from weft.records import dataclass

Initial: TypeAlias = Literal["he", "glorot", "normal", "zeros", "ones"]
"""How a weight is drawn: normal with a variance of 2 / fan in, uniform over fans in and out,
normal with a deviation of 0.02, or not at all."""


@dataclass(frozen=True, eq=False)
class Given:
    """An input of the graph."""

    name: str


@dataclass(frozen=True, eq=False)
class Fixed:
    """A constant.

    Attributes:
        array: its elements.
        name: in the graph; ``NODE.ROLE`` of its first reader if not given.
        role: there; the name of the op's input if not given.
    """

    array: np.ndarray
    name: str = ""
    role: str = ""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A weight that is drawn when the graph is made, from the seed and its own name.

    Attributes:
        type: of the weight; static.
        initial: the distribution.
        fans: how many numbers go into one output, and how many outputs one input goes to.
        name: as for ``Fixed``.
        role: as for ``Fixed``.
    """

    type: TensorType
    initial: Initial
    fans: tuple[int, int] = (1, 1)
    name: str = ""
    role: str = ""

    def array(self, seed: int, stream: int) -> np.ndarray:
        """The weight's elements."""
        source, shape = np.random.default_rng([seed, stream]), self.type.dims
        match self.initial:
            case "he":
                drawn = source.normal(0, sqrt(2 / self.fans[0]), shape)
            case "glorot":
                bound = sqrt(6 / sum(self.fans))
                drawn = source.uniform(-bound, bound, shape)
            case "normal":
                drawn = source.normal(0, 0.02, shape)
            case "zeros":
                drawn = np.zeros(shape)
            case "ones":
                drawn = np.ones(shape)
            case _:
                assert_never(self.initial)
        return drawn.astype(self.type.dtype.numpy)


@dataclass(frozen=True, eq=False)
class Applied:
    """One use of an op; ``types`` are those of the outputs that were asked for."""

    op: Op
    inputs: tuple[Value | None, ...]
    attributes: Any
    types: tuple[TensorType, ...]
    name: str = ""


@dataclass(frozen=True, eq=False)
class Inlined:
    """A whole graph put in."""

    graph: Graph
    inputs: tuple[Value, ...]
    name: str = ""


Maker: TypeAlias = Given | Fixed | Drawn | Applied | Inlined


@dataclass(frozen=True, eq=False)
class Value:
    """What a node makes, a graph input, or a constant.

    Attributes:
        type: element type and shape.
        maker: what makes it.
        position: which of its maker's outputs it is.
        name: wished for in the graph.
    """

    type: TensorType
    maker: Maker
    position: int = 0
    name: str = ""

    # Arithmetic on arrays must come here, not element by element.
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[object, ...]:
        """The sizes of the dimensions."""
        return self.type.shape

    def named(self, name: str) -> Value:
        """The same value with a name of its own in the graph."""
        if not name or not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("the name of a value must be a string", got=repr(name))
        return replace(self, name=name)

    def __repr__(self) -> str:
        return f"Value({self.name + ': ' if self.name else ''}{self.type})"

    def __add__(self, other: Input) -> Value:
        return binary("Add", self, other)

    def __radd__(self, other: Input) -> Value:
        return binary("Add", other, self)

    def __sub__(self, other: Input) -> Value:
        return binary("Sub", self, other)

    def __rsub__(self, other: Input) -> Value:
        return binary("Sub", other, self)

    def __mul__(self, other: Input) -> Value:
        return binary("Mul", self, other)

    def __rmul__(self, other: Input) -> Value:
        return binary("Mul", other, self)

    def __truediv__(self, other: Input) -> Value:
        return binary("Div", self, other)

    def __rtruediv__(self, other: Input) -> Value:
        return binary("Div", other, self)

    def __pow__(self, other: Input) -> Value:
        return binary("Pow", self, other)

    def __matmul__(self, other: Input) -> Value:
        return binary("MatMul", self, other)

    def __rmatmul__(self, other: Input) -> Value:
        return binary("MatMul", other, self)

    def __neg__(self) -> Value:
        return apply(OPS["Neg"], (self,))[0]

    def __eq__(self, other: object) -> bool:
        # The same object, as containers need it; elements are compared by an op.
        if isinstance(other, int | float | np.ndarray):
            raise UserError(
                "`==` compares identity, not elements",
                got=repr(self),
                fix="Use weft.ops.equal.",
            )
        return self is other

    __hash__ = object.__hash__

    def __lt__(self, other: Input) -> Value:
        return binary("Less", self, other)

    def __le__(self, other: Input) -> Value:
        return binary("LessOrEqual", self, other)

    def __gt__(self, other: Input) -> Value:
        return binary("Greater", self, other)

    def __ge__(self, other: Input) -> Value:
        return binary("GreaterOrEqual", self, other)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Value:
        return indexed(self, index if isinstance(index, tuple) else (index,))

    def __iter__(self) -> Iterator[Value]:
        raise UserError(
            "a symbolic value cannot be iterated",
            got=repr(self),
            fix="Use weft.ops.split, or index it: value[0].",
        )

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise UserError(
            "a symbolic value has no elements",
            got=repr(self),
            fix="Functions of weft.ops take symbolic values; compile() returns a function of "
            "arrays.",
        )

    def __bool__(self) -> bool:
        raise UserError(
            "a symbolic value has no truth value",
            got=repr(self),
            fix="Use weft.ops.where to choose between values.",
        )


Index: TypeAlias = int | slice | EllipsisType
"""What stands between brackets for one axis, as NumPy has it."""

Input: TypeAlias = Value | ArrayLike | float | int | bool
"""What op functions take: values, arrays as constants, and numbers as constants of the element
type of the values beside them."""


def input_value(name: str, type: TensorType) -> Value:
    """A graph input."""
    if not isinstance(type, TensorType):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"input {name}: a type is text such as f32[1,3,224,224], or a TensorType",
            got=repr(type),
        )
    if not name or not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError("an input must have a name", got=repr(name), where=f"input of type {type}")
    return Value(type, Given(name), name=name)


def constant(array: ArrayLike, name: str = "", role: str = "") -> Value:
    """A constant, as ``Fixed`` has it; the array is shared, not copied."""
    array = as_array(array, f"constant {name}".rstrip())
    return Value(type_of(array, name or "of a network in the making"), Fixed(array, name, role))


def weight(
    type: TensorType,
    initial: Initial = "he",
    fans: tuple[int, int] = (1, 1),
    name: str = "",
    role: str = "",
) -> Value:
    """A weight that is drawn from the seed when the graph is made, as ``Drawn`` has it."""
    return Value(type, Drawn(type, initial, fans, name, role))


def binary(op: str, left: Input, right: Input) -> Value:
    """An op of two inputs, one of which is a value."""
    return apply(OPS[op], as_values(op.lower(), (left, right)))[0]


def indexed(value: Value, index: tuple[Index, ...]) -> Value:
    """Parts along axes, as NumPy's basic indexing gives them; numbers take their axes away."""
    shape = value.type.shape
    parts: dict[int, slice] = {}
    gone: list[int] = []
    for axis, each in enumerate(_for_all_axes(value, index)):
        if each == slice(None):
            continue
        size = shape[axis]
        if not isinstance(size, int):
            raise UserError(
                f"index: axis {axis} has an open size and cannot be sliced", got=str(value.type)
            )
        parts[axis] = _part(each, size, axis)
        if isinstance(each, int):
            gone.append(axis)
    if not parts:
        return value
    record = OPS["Slice"]
    attributes = record.attributes(
        starts=tuple(each.start for each in parts.values()),
        ends=tuple(each.stop for each in parts.values()),
        axes=tuple(parts),
        steps=tuple(each.step for each in parts.values()),
    )
    made = apply(record, (value,), attributes)[0]
    if not gone:
        return made
    return apply(OPS["Squeeze"], (made,), OPS["Squeeze"].attributes(axes=tuple(gone)))[0]


def _for_all_axes(value: Value, index: tuple[Index, ...]) -> list[int | slice]:
    """An index for every axis, in the place of ``...`` and at the end whole ones."""
    rank = len(value.type.shape)
    for each in index:
        known = isinstance(each, int | slice | EllipsisType)  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(each, bool) or not known:
            raise UserError(
                "index: an index is a whole number, a slice or ...",
                got=repr(each),
                fix="weft.ops.gather reads at an array of indices, weft.ops.unsqueeze adds axes.",
            )
    wide = [place for place, each in enumerate(index) if isinstance(each, EllipsisType)]
    given = [each for each in index if not isinstance(each, EllipsisType)]
    if len(wide) > 1 or len(given) > rank:
        raise UserError(
            f"index: at most one index for each of {rank} axes, and one ...",
            got=f"{len(given)} indices" if len(wide) < 2 else f"... {len(wide)} times",
            where=f"a value of type {value.type}",
        )
    place = wide[0] if wide else len(given)
    return [*given[:place], *[slice(None)] * (rank - len(given)), *given[place:]]


def _part(index: int | slice, size: int, axis: int) -> slice:
    """Start, end and step of a part, as the op ``Slice`` wants them."""
    if isinstance(index, slice):
        start, end, step = index.indices(size)
        # Before the first element, which a negative number cannot say otherwise.
        return slice(start, -size - 1 if end < 0 else end, step)
    if not -size <= index < size:
        raise UserError(
            f"index: axis {axis} has {size} elements", got=str(index), fix="The first is 0."
        )
    start = index % size
    return slice(start, start + 1, 1)


def as_values(word: str, inputs: tuple[Input | None, ...]) -> tuple[Value | None, ...]:
    """Inputs of an op as values.

    Args:
        word: what the op is called in errors.
        inputs: ``None`` where absent.
    """
    held = [
        each if each is None or isinstance(each, Value) else _held(word, each) for each in inputs
    ]
    like = next((each.type.dtype for each in held if isinstance(each, Value)), None)
    return tuple(
        _number(word, each, like) if isinstance(each, int | float) else each for each in held
    )


def _held(word: str, given: object) -> Value | int | float:
    if isinstance(given, int | float) and not isinstance(given, np.generic):
        return given
    if isinstance(given, GivesDLPack | GivesArray):
        return constant(given)
    raise UserError(
        f"{word}: inputs must be values, arrays or numbers",
        got=type(given).__name__,
        fix="Write numpy.array(..., dtype) for a constant.",
    )


def _number(word: str, number: int | float, dtype: DType | None) -> Value:
    """A number as an array without dimensions."""
    if dtype is None:
        raise UserError(
            f"{word}: a number takes its element type from another operand, and there is none",
            got=str(number),
            fix="Write numpy.float32(...) or the like.",
        )
    if not dtype.is_float:
        low, high = dtype.limits
        if isinstance(number, float) or not low <= number <= high:
            raise UserError(f"{word}: the number must fit into {dtype.value}", got=str(number))
    return constant(np.array(number, dtype.numpy))


def apply(
    op: Op,
    inputs: tuple[Value | None, ...],
    attributes: Any = None,
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """Apply an op to values.

    Args:
        op: its record.
        inputs: ``None`` where absent.
        attributes: the op's attribute record; its defaults if not given.
        outputs: how many values are wanted; 0 for all that are not optional.
        name: of the node.
    """
    if attributes is None:
        attributes = NO_ATTRIBUTES if op.attributes is type(NO_ATTRIBUTES) else op.attributes()
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    types = tuple(None if each is None else each.type for each in inputs)
    call = Call(op.name, attributes, types, outputs or _least(op), f"node {name}" if name else "")
    made = op.infer(call)
    wanted = outputs or (len(made) if op.outputs[-1].variadic else _least(op))
    if len(made) < wanted:
        raise call.error(f"gives {len(made)} outputs", got=f"{wanted} asked for")
    maker = Applied(op, inputs, op.resolved(call), made[:wanted], name)
    return tuple(Value(each, maker, place) for place, each in enumerate(maker.types))


def _least(op: Op) -> int:
    """How many outputs a call gives that asks for no number of them."""
    required = sum(not param.optional for param in op.outputs)
    return required or len(op.outputs)
