# pyright: basic
"""Calls of layers: a row makes the nodes of each, and what it gives gets the layer's name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.calls import leaves
from weft.frontends.keras.config import Config, element_type
from weft.frontends.keras.custom import custom_row
from weft.frontends.keras.record import LAYERS, MASKING, OPERATIONS, Emit, RefusalError, Row, Tensor
from weft.frontends.keras.spec import Spec
from weft.frontends.keras.unsupported import REASONS
from weft.frontends.keras.weights import Place
from weft.ir.graph import Origin

MOST_BYTES = 1 << 34
"""Bytes of a value, at most."""
_TRAINING = "training"
_FIRST = ("inputs", "sequences", "data", "x")
"""What Keras calls the first argument of layers."""


class LayerCalls:
    """Makes the nodes of layers.

    Args:
        emit: makes nodes of the graph.
    """

    def __init__(self, emit: Emit) -> None:
        self.emit, self.builder = emit, emit.builder

    def __call__(
        self, spec: Spec, place: Place, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a layer gives for these arguments, named after the layer."""
        g, count = self.emit, len(self.builder.nodes)
        row = row_of(spec)
        self.builder.origin = Origin((name,))
        g.place, g.name = place, name
        if not spec.is_operation:
            args, kwargs = first_in_place(args, kwargs)
        try:
            with np.errstate(all="ignore"):
                made = self._called(row, spec, args, kwargs)
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            # What the file says does not fit together: Keras would not have written it.
            raise RefusalError(
                f"its configuration, weights and inputs do not fit: {error}"
            ) from error
        results = [each for each in leaves(made) if isinstance(each, Tensor)]
        for each in results:
            if each.type.size * each.dtype.bytes > MOST_BYTES:
                raise RefusalError(f"its output has more than 16 GiB: {each.type}")
        if not spec.is_operation:
            self._pass_mask(spec, args, results)
        return self._named(made, results, count, name)

    def _called(
        self, row: Row, spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        g = self.emit
        taken = _parameters(row)
        placed = taken[1 : 1 + len(args)]  # behind the configuration
        named = {key: value for key, value in kwargs.items() if key in taken or value is not None}
        # Keras 3 takes what the whole model is called with instead.
        if named.pop(_TRAINING, None) not in (None, False, 0) and g.major < 3:
            raise RefusalError("a layer that is called as in training is not supported")
        if spec.is_operation:
            g.compute = DType.F32
            options = {**spec.config, **named}
            heeded = {key: value for key, value in options.items() if key in taken}
            more = [key for key in options if key not in taken and key not in ("name", "dtype")]
            odd = [key for key in more if options[key] is not None and options[key] is not False]
            if odd:
                raise RefusalError(f"{odd[0]}={str(options[odd[0]])[:40]} is not supported")
            return _bare(g, spec, row(g, *args, **heeded), (args, heeded))
        unknown = [key for key in named if key not in taken and "kwargs" not in taken]
        if unknown:
            raise RefusalError(f"it is called with {unknown[0]}, which is not supported")
        config = Config(spec.config)
        g.compute = element_type(spec.config.get("dtype"), compute=True)
        first = next((each for each in leaves(args) if isinstance(each, Tensor)), None)
        free = "mask" in taken and "mask" not in placed
        if g.major >= 3:
            # Not where there are more tensors, as the states of a recurrent layer.
            others = leaves((args[1:], list(named.values())))
            free = free and not any(isinstance(each, Tensor) for each in others)
        if free and named.get("mask") is None and first is not None:
            named["mask"] = _masks(g, args[0]) if args else g.mask(first)
        args, named = _cast(g, args), {key: _cast(g, each) for key, each in named.items()}
        made = _bare(g, spec, row(g, config, *args, **named), args)
        if unread := config.unread():
            raise RefusalError(f"{', '.join(unread)} is not supported")
        return made

    def _pass_mask(self, spec: Spec, args: Any, results: Sequence[Tensor]) -> None:
        masks = self.emit.masks
        first = next((each for each in leaves(args) if isinstance(each, Tensor)), None)
        mask = masks.get(first.name) if first is not None else None
        if mask is not None and spec.kind in MASKING:
            for each in results:
                masks.setdefault(each.name, mask)

    def _named(self, made: Any, results: Sequence[Tensor], count: int, name: str) -> Any:
        """The results under the name of the layer, where it makes them itself."""
        nodes = self.builder.nodes
        own = {value: at for at in range(count, len(nodes)) for value in nodes[at].outputs}
        renamed: dict[str, Tensor] = {}
        for place, each in enumerate(results):
            if each.name in own and each.name not in renamed:
                wish = self.builder.fresh(f"{name}.{place}" if place else name)
                self.rename(count, each.name, wish)
                renamed[each.name] = Tensor(wish, each.type)
                if not place:
                    at = own[each.name]
                    nodes[at] = replace(nodes[at], name=wish)
        return _swapped(made, renamed) if renamed else made

    def rename(self, count: int, old: str, new: str) -> None:
        """Another name for a value that nodes from a place on make and read."""
        builder, masks = self.builder, self.emit.masks
        builder.types[new] = type = builder.types.pop(old)
        for place in range(count, len(builder.nodes)):
            node = builder.nodes[place]
            if old in node.inputs or old in node.outputs:
                change = [
                    [new if each == old else each for each in part]
                    for part in (node.inputs, node.outputs)
                ]
                builder.nodes[place] = replace(
                    node, inputs=tuple(change[0]), outputs=tuple(change[1])
                )
        if old in masks:
            masks[new] = masks.pop(old)
        for key, mask in masks.items():
            if mask.name == old:
                masks[key] = Tensor(new, type)
        states = self.emit.states
        for place, state in enumerate(states):
            if state.after.name == old:
                states[place] = replace(state, after=Tensor(new, type))


def first_in_place(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with the first one by its place, if it was given by its name."""
    named = dict(kwargs)
    first = next((key for key in _FIRST if key in named), None)
    return (args, named) if args or first is None else ((named.pop(first),), named)


def row_of(spec: Spec) -> Row:
    """What imports a layer.

    Raises:
        RefusalError: nothing does.
    """
    if spec.custom:
        return custom_row(spec.custom, spec.kind)
    table = OPERATIONS if spec.is_operation else LAYERS
    row = table.get(spec.kind)
    if row is None:
        what = "operation" if spec.is_operation else "layer"
        why = "" if spec.is_operation else REASONS.get(spec.kind, "")
        raise RefusalError(why or f"{what} {spec.kind} is not supported")
    return row


@cache
def _parameters(row: Row) -> tuple[str, ...]:
    return tuple(inspect.signature(row).parameters)[1:]


def _masks(g: Emit, given: Any) -> Any:
    """The mask of a tensor, or those of several; nothing where none has one."""
    if isinstance(given, Tensor):
        return g.mask(given)
    if not isinstance(given, list | tuple):
        return None
    found = [g.mask(each) if isinstance(each, Tensor) else None for each in given]
    return found if any(each is not None for each in found) else None


def _cast(g: Emit, nested: Any) -> Any:
    """Arguments in the type that the layer computes in, where they are floating-point."""
    if isinstance(nested, Tensor):
        if not (nested.dtype.is_float and g.compute.is_float) or nested.dtype is g.compute:
            return nested
        made = g.cast(nested, g.compute)
        if nested.name in g.masks:
            g.masks[made.name] = g.masks[nested.name]
        return made
    if isinstance(nested, list | tuple):
        return type(nested)(_cast(g, each) for each in nested)
    return nested


def _bare(g: Emit, spec: Spec, made: Any, args: Any) -> Any:
    """What a layer gives; where that is what it was given, without a mask that it does not pass."""
    if spec.kind in MASKING:
        return made
    given = {each.name for each in leaves(args) if isinstance(each, Tensor)} & g.masks.keys()
    results = [each for each in leaves(made) if isinstance(each, Tensor) and each.name in given]
    return _swapped(made, {each.name: g("Identity", each) for each in results})


def _swapped(made: Any, renamed: Mapping[str, Tensor]) -> Any:
    if isinstance(made, Tensor):
        return renamed.get(made.name, made)
    if isinstance(made, Mapping):
        return {key: _swapped(each, renamed) for key, each in made.items()}
    if isinstance(made, list | tuple):
        return [_swapped(each, renamed) for each in made]
    return made
