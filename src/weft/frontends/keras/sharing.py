"""Layers that stand at several places of a model: where their weights lie.

``.keras`` files have the weights of such a layer once, at the first place at which Keras comes to
it, layer by layer and into each before the next.  Their configurations have a number that says
that they are one; it can be missing at the first place, where that is in a model of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

from weft.frontends.keras.spec import Spec, spec_of
from weft.frontends.keras.weights import Place
from weft.records import dataclass

INNER = "layer"
"""The field, and the attribute, that holds the layer inside of a layer."""


def first_places(model: Spec, has_weights: Callable[[Place], bool]) -> dict[int, Place]:
    """By number of a layer that is shared, the place of its weights.

    Args:
        model: the whole model.
        has_weights: whether a place is one of the file.
    """
    walk = _Walk()
    walk.visit(model, Place())
    places = {number: place for number, (place, _) in walk.shared.items()}
    for number, (place, key) in walk.shared.items():
        if not has_weights(place):
            others = [each for each in walk.others.get(key, ()) if has_weights(each)]
            if len(others) == 1:
                places[number] = others[0]
    return places


@dataclass
class _Walk:
    """The layers of a model: those with a number by it, others by their class and name."""

    shared: dict[int, tuple[Place, tuple[str, str]]] = field(
        default_factory=dict[int, tuple[Place, tuple[str, str]]]
    )
    others: dict[tuple[str, str], list[Place]] = field(
        default_factory=dict[tuple[str, str], list[Place]]
    )

    def visit(self, spec: Spec, place: Place) -> None:
        key = (spec.kind, spec.name)
        if spec.shared is None:
            self.others.setdefault(key, []).append(place)
        elif spec.shared in self.shared:
            return  # with all that is inside of it
        else:
            self.shared[spec.shared] = place, key
        if spec.is_model:
            for each, group in spec.groups():
                self.visit(each, place.inside(each.name, group))
            return
        inner: Any = spec.config.get(INNER)
        if isinstance(inner, Mapping) and "class_name" in inner:
            each = spec_of(cast(Any, inner))
            self.visit(each, place.within(each.name, INNER))
