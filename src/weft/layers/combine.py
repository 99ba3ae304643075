"""Put layers together: one after another, side by side, around a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Literal, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ops.table import OPS
from weft.ops.trace import call_graph
from weft.ops.values import Value, apply
from weft.records import dataclass

Layer: TypeAlias = Callable[..., Any] | Graph
"""Anything from values to values: a layer, an op function, a function, a net or a graph."""

Join: TypeAlias = Literal["add", "concat", "multiply"] | Callable[..., Value]
"""How what stands side by side becomes one value."""


@dataclass(frozen=True)
class Block:
    """Layers put together: a function of values.

    Attributes:
        doc: what it is, for people.
        layers: what it is made of.
        run: applies it.
    """

    doc: str
    layers: tuple[Layer, ...]
    run: Callable[..., Any]

    def __call__(self, *values: Value) -> Any:
        """What the layers make of the values."""
        return self.run(*values)

    def __repr__(self) -> str:
        return f"{self.doc}({len(self.layers)} layers)"


def sequential(layers: Iterable[Layer]) -> Block:
    """One layer after another; several outputs of one are the inputs of the next."""
    chain = _checked("sequential", layers)

    def run(*values: Value) -> Any:
        made: Any = values
        for place, layer in enumerate(chain):
            made = _called(layer, _tuple(made), f"sequential: layer {place}")
        return _single(made)

    return Block("sequential", chain, run)


def parallel(layers: Iterable[Layer], join: Join = "concat", axis: int = 1) -> Block:
    """Layers side by side on the same inputs.

    Args:
        layers: each gives one value.
        join: ``concat`` along an axis, ``add``, ``multiply``, or a function of all the values.
        axis: of ``concat``.
    """
    branches = _checked("parallel", layers)
    if not branches:
        raise UserError("parallel: there must be at least one layer", got="none")
    if not callable(join) and join not in ("add", "concat", "multiply"):
        raise UserError(
            "parallel: join must be add, concat, multiply or a function", got=repr(join)
        )

    def run(*values: Value) -> Any:
        made: list[Value] = []
        for place, layer in enumerate(branches):
            found = _single(_called(layer, values, f"parallel: layer {place}"))
            if not isinstance(found, Value):
                raise UserError(
                    f"parallel: layer {place} must give one value", got=f"{len(found)} values"
                )
            made.append(found)
        return _joined(made, join, axis)

    return Block("parallel", branches, run)


def residual(layer: Layer, shortcut: Layer | None = None) -> Block:
    """A layer whose output is added to its input.

    Args:
        layer: from one value to one.
        shortcut: what to do with the input before the sum, where shapes differ.
    """
    parts = _checked("residual", [layer, *([] if shortcut is None else [shortcut])])

    def run(value: Value) -> Value:
        main = _single(_called(layer, (value,), "residual: the layer"))
        past = value
        if shortcut is not None:
            past = _single(_called(shortcut, (value,), "residual: the shortcut"))
        if main.type != past.type:
            raise UserError(
                "residual: the layer's output must have the type of the shortcut",
                got=f"{main.type} and {past.type}",
                fix="Give a layer as shortcut." if shortcut is None else "",
            )
        return apply(OPS["Add"], (main, past))[0]

    return Block("residual", parts, run)


def _checked(word: str, layers: Iterable[Layer]) -> tuple[Layer, ...]:
    if isinstance(layers, str) or not isinstance(layers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"{word}: layers must be a list", got=type(layers).__name__, fix="Write [...]."
        )
    found = tuple(layers)
    for place, layer in enumerate(found):
        if not isinstance(layer, Graph) and not callable(layer):
            raise UserError(
                f"{word}: a layer must be a function of values, a net or a graph",
                got=f"{type(layer).__name__} at place {place}",
            )
    return found


def _called(layer: Layer, values: tuple[Value, ...], where: str) -> Any:
    try:
        if isinstance(layer, Graph):
            return call_graph(layer, *values)
        return layer(*values)
    except UserError as error:
        # The place goes in front once: the innermost says the most.
        place = error.where or where
        raise UserError(error.rule, got=error.got, fix=error.fix, where=place) from None


def _tuple(made: Any) -> tuple[Value, ...]:
    return (made,) if isinstance(made, Value) else tuple(made)


def _single(made: Any) -> Any:
    values = _tuple(made)
    return values[0] if len(values) == 1 else values


def _joined(values: list[Value], join: Join, axis: int) -> Value:
    if callable(join):
        return join(*values)
    try:
        if join == "concat":
            attributes = OPS["Concat"].attributes(axis=axis)
            return apply(OPS["Concat"], tuple(values), attributes)[0]
        op = OPS["Add" if join == "add" else "Mul"]
        return reduce(lambda left, right: apply(op, (left, right))[0], values)
    except UserError as error:
        along = f"Their sizes may differ along axis {axis} alone."
        raise UserError(
            f"parallel: {error.rule}",
            got=", ".join(f"{each.type} of layer {n}" for n, each in enumerate(values)),
            fix=along if join == "concat" else "Their sizes must be equal, or 1.",
        ) from None
