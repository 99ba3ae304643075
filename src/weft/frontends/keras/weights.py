"""Arrays of layers, by the way that each format of Keras names them.

``.keras`` files number the variables of a layer in the order of their creation, in a group whose
path is made of class names (``layers/conv2d_1/vars/0``).  ``.h5`` files list the names that the
variables had, under the layer of the whole model that they are in
(``block/block/conv/kernel:0``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from weft.errors import UserError
from weft.frontends.keras.archive import Archive
from weft.records import dataclass


@dataclass(frozen=True)
class Place:
    """Where the variables of a layer lie.

    Attributes:
        names: of the layer and those around it, outermost first.
        group: its path in a ``.keras`` file.
    """

    names: tuple[str, ...] = ()
    group: str = ""

    def inside(self, name: str, group: str) -> Place:
        """The place of a layer of a model that is here."""
        return Place((*self.names, name), f"{self.group}/{group}" if self.group else group)

    def within(self, name: str, attribute: str) -> Place:
        """The place of the layer that an attribute of the layer here holds."""
        return Place((*self.names, name), f"{self.group}/{attribute}")


@dataclass
class Weights:
    """The arrays of a model."""

    archive: Archive
    _listed: dict[str, list[tuple[list[str], str]]] = field(
        default_factory=dict[str, list[tuple[list[str], str]]]
    )

    def array(
        self, place: Place, number: int, names: Sequence[str], within: Sequence[tuple[str, str]]
    ) -> np.ndarray:
        """A variable.

        Args:
            place: of its layer.
            number: how many variables of the layer were created before it.
            names: what versions of Keras call it.
            within: layers inside the layer: the attribute that holds each, and its own name.
        """
        if self.archive.legacy:
            found = self._named(place, names, [name for _, name in within if name])
        else:
            # Attributes of some layers are private to their class.
            inner = [
                "".join(f"/{mark}{attribute}" for attribute, _ in within) for mark in ("", "_")
            ]
            paths = (f"{place.group}{each}/vars/{number}" for each in inner)
            arrays = (self.archive.weights.array(path) for path in paths)
            found = next((each for each in arrays if each is not None), None)
        if found is None:
            raise UserError(
                f"its weight {names[0]} must be in the file",
                fix="Save the model again after it was built.",
            )
        return found

    def _named(self, place: Place, names: Sequence[str], inner: Sequence[str]) -> np.ndarray | None:
        if not place.names:
            return None
        wanted = [*place.names[1:], *inner]
        found = [(parts, path) for parts, path in self._of(place.names[0]) if parts[-1] in names]
        exact = [path for parts, path in found if parts[:-1] == [*place.names, *inner]]
        if len(exact) == 1:  # as of Keras 3
            return self.archive.weights.array(exact[0])
        # Layers are named by their own names; only what wraps a single one leaves these out.
        own = [
            (parts, path)
            for parts, path in found
            if not wanted or _ends_like(parts[:-1], place.names[-1], inner)
        ]
        scored = [(_matched(wanted, parts[:-1]), path) for parts, path in own or found]
        most = max((score for score, _ in scored), default=0)
        best = [path for score, path in scored if score == most]
        if len(best) > 1:
            raise UserError(
                f"its weight {names[0]} must be found by its name",
                got=f"{len(best)} such weights: {', '.join(best[:4])}",
                fix="Save the model as a .keras file.",
            )
        return self.archive.weights.array(best[0]) if best else None

    def _of(self, top: str) -> list[tuple[list[str], str]]:
        """The variables of a layer of the whole model: parts of their names, and their paths."""
        if top not in self._listed:
            root = f"model_weights/{top}"
            listed = self.archive.weights.texts(root, "weight_names")
            self._listed[top] = [
                ([re.sub(r":\d+$", "", part) for part in name.split("/")], f"{root}/{name}")
                for name in listed
            ]
        return self._listed[top]


def _matched(wanted: Sequence[str], parts: Sequence[str]) -> int:
    """How many of the names stand among the parts of a path, in order."""
    found, at = 0, 0
    for name in wanted:
        if name in parts[at:]:
            at = parts.index(name, at) + 1
            found += 1
    return found


def _ends_like(parts: Sequence[str], layer: str, inner: Sequence[str]) -> bool:
    """Whether a path names a layer, or at least the layers inside it."""
    return layer in parts or any(each in parts for each in inner)


def snake_case(name: str) -> str:
    """The name that Keras gives a group from a class."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
