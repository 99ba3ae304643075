# pyright: basic
"""Keras models to graphs, layer by layer.

A layer that no row imports, or that its row refuses, is noted and the import goes on: one pass
tells of all such layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import weft.frontends.keras.rows  # noqa: F401
from weft.errors import UserError, nearest
from weft.frontends.keras.archive import Archive, config_of, open_archive
from weft.frontends.keras.calls import Call, Ref, call_of, leaves, refs_of, replaced
from weft.frontends.keras.hdf5 import broken
from weft.frontends.keras.inputs import Inputs
from weft.frontends.keras.layers import LayerCalls, first_in_place, row_of
from weft.frontends.keras.record import Emit, RefusalError, Tensor
from weft.frontends.keras.sharing import first_places
from weft.frontends.keras.spec import Refusals, Spec, spec_of
from weft.frontends.keras.weights import Place, Weights
from weft.ir.graph import Graph
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS

_DEEPEST = 32


class RefusedError(UserError):
    """A model of which layers cannot be imported.

    Attributes:
        refusals: a line for each.
    """

    def __init__(self, refusals: Sequence[str]) -> None:
        self.refusals = tuple(refusals)
        count = len(refusals)
        head = "1 layer cannot" if count == 1 else f"{count} layers cannot"
        super().__init__("\n  ".join([f"keras: {head} be imported:", *refusals]))


def load(
    path: str | Path,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """Imports a ``.keras`` or ``.h5`` file.

    Args:
        path: the file.
        inputs: shapes of inputs, by name, where the file leaves sizes open; ``batch`` is the size
            of an open batch, 1 if not given.
        constants: values of inputs, which are then no inputs of the graph.

    Raises:
        UserError: the file is broken, or layers cannot be imported: all of them are listed.
    """
    path = Path(path)
    archive = open_archive(path)
    with closing(archive.weights):
        found = _Import(archive, inputs or {}, constants or {})
        try:
            return found.run(path.stem)
        except RecursionError as error:
            raise broken("layers or arguments in each other without end") from error
        finally:
            found.emit.call = None  # a cycle, which would hold the arrays


def states(path: str | Path) -> dict[str, str]:
    """By input of a file's graph that is a state of a layer, the output that is its next value."""
    if not _has(config_of(Path(path)), "stateful"):
        return {}
    try:
        return paired_states(load(path))
    except UserError:
        # Sizes that the caller gives do not come here.
        return {}


def paired_states(graph: Graph) -> dict[str, str]:
    """By input of a graph of this frontend that is a state, the output that is its next value."""
    pairs = {name: f"{name}.next" for name in graph.inputs}
    return {name: after for name, after in pairs.items() if after in graph.outputs}


def _has(config: Any, field: str) -> bool:
    """Whether a field is true anywhere in nested configurations."""
    left: list[Any] = [config]
    while left:
        each = left.pop()
        if isinstance(each, dict):  # as JSON has them
            if each.get(field) is True:
                return True
            left += each.values()
        elif isinstance(each, list):
            left += each
    return False


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "net"
    return f"net_{found}" if found[0].isdigit() else found


class _Import:
    def __init__(
        self,
        archive: Archive,
        shapes: Mapping[str, Sequence[int]],
        constants: Mapping[str, np.ndarray],
    ) -> None:
        self.archive = archive
        self.refusals = Refusals()
        self.builder = GraphBuilder(OPS)
        self.emit = Emit(
            self.builder, weights=Weights(archive), major=archive.major, call=self._inner
        )
        self.input = Inputs(self.emit, shapes, constants)
        self.calls = LayerCalls(self.emit)
        self.places: Mapping[int, Place] = {}
        self.depth = 0

    def run(self, name: str) -> Graph:
        self.builder.name = _identifier(name)
        model = spec_of(self.archive.config)
        if not model.is_model:
            raise UserError(
                "keras: a model must be Sequential or Functional",
                got=f"{model.custom or model.kind}, whose Python code says what it computes",
                fix="Build it from layers with keras.Model(inputs, outputs), and save that.",
            )
        self._check_kinds(model, "")
        if not self.archive.legacy:
            files = self.archive.weights
            self.places = first_places(model, lambda place: bool(files.names(place.group)))
        try:
            made = self._model(model, Place(), "", None)
        except _Missing:
            made = []
        if self.refusals.lines:
            raise RefusedError(list(self.refusals.lines))
        if left := self.input.unused():
            names = list(self.builder.inputs)
            raise UserError(
                f"the model has no input {left[0]}",
                fix=f"{nearest(left[0], names)} Its inputs are {', '.join(names)}".strip(),
            )
        return self._finished(made)

    def _finished(self, made: Sequence[tuple[str, Tensor]]) -> Graph:
        """The graph, its outputs named after the layers that make them."""
        outputs: list[str] = []
        makers = {value for node in self.builder.nodes for value in node.outputs}
        for wish, tensor in made:
            name = tensor.name
            if name not in makers or name in outputs:
                name = self.builder.op("Identity", name, output=wish, name=f"{wish}/output")
            elif name != wish and wish not in self.builder.types:
                self.calls.rename(0, name, wish)
                name = wish
            outputs.append(name)
        for state in self.emit.states:
            wish = f"{state.before.name}.next"
            made_by = f"{wish}/output"
            outputs.append(self.builder.op("Identity", state.after.name, output=wish, name=made_by))
        return self.builder.graph(outputs)

    # --- what is known before ----------------------------------------------------------------

    def _check_kinds(self, model: Spec, path: str, depth: int = 0) -> None:
        """Notes every layer of a class that nothing imports, also where it is not reached."""
        if depth > _DEEPEST:
            raise broken("models in models without end")
        for each in model.layers:
            where = f"{path}{each.name}"
            if each.is_model:
                self._check_kinds(each, f"{where}/", depth + 1)
            elif each.kind == "InputLayer" and not each.custom:
                continue
            else:
                try:
                    row_of(each)
                except UserError as error:
                    self.refusals.add(where, each.kind, error.rule)

    # --- models ------------------------------------------------------------------------------

    def _model(
        self, model: Spec, place: Place, path: str, given: Sequence[Tensor] | None
    ) -> list[tuple[str, Tensor]]:
        """What a model gives, with the names of the layers that give it.

        Args:
            model: it.
            place: of its weights.
            path: before the names of its layers.
            given: its inputs; those of the graph where it is the whole model.
        """
        self.depth += 1
        if self.depth > _DEEPEST:
            raise broken("models in models without end")
        try:
            if model.kind == "Sequential":
                return self._sequential(model, place, path, given)
            return _Functional(self, model, place, path, given).run()
        finally:
            self.depth -= 1

    def _sequential(
        self, model: Spec, place: Place, path: str, given: Sequence[Tensor] | None
    ) -> list[tuple[str, Tensor]]:
        x: Any = given[0] if given else None
        name = model.name
        for spec, group in model.groups():
            if spec.kind == "InputLayer":
                x = self.input(spec) if x is None else x
                continue
            if x is None:
                x = self._implied_input(model, spec)
            at = place.inside(spec.name, group)
            x = self.apply(spec, at, f"{path}{spec.name}", (x,), {})
            name = spec.name
        if x is None:
            raise broken("a model without layers")
        made = [each for each in leaves(x) if isinstance(each, Tensor)]
        return [(name if not at else f"{name}.{at}", each) for at, each in enumerate(made)]

    def _implied_input(self, model: Spec, first: Spec) -> Tensor:
        """The input of a sequential model that does not name it: as its first layer says."""
        shape = first.config.get("batch_input_shape") or first.config.get("batch_shape")
        shape = shape or model.config.get("build_input_shape")
        if first.is_model and not shape:
            layers = first.layers
            if layers and layers[0].kind == "InputLayer":
                return self.input(layers[0])
        name = f"{first.name}_input"
        config = {"batch_shape": shape, "dtype": first.config.get("dtype", "float32")}
        if first.kind == "Embedding" and "batch_input_shape" not in first.config:
            config["dtype"] = "int32"
        return self.input(Spec("InputLayer", name, config))

    # --- layers ------------------------------------------------------------------------------

    def _shared(self, spec: Spec, place: Place) -> Place:
        """Where the weights of a layer lie that is at a place."""
        return place if spec.shared is None else self.places.get(spec.shared, place)

    def _inner(self, found: object, attribute: str, *args: Any, **kwargs: Any) -> Any:
        """Imports a layer inside of the layer that is being imported."""
        outer, name = self.emit.place, self.emit.name
        spec = spec_of(found)
        place = self._shared(spec, outer.within(spec.name, attribute))
        try:
            if spec.is_model:
                made = [each for _, each in self._model(spec, place, f"{name}/", args)]
                return made[0] if len(made) == 1 else made
            return self.calls(spec, place, f"{name}/{spec.name}", args, kwargs)
        finally:
            self.emit.place, self.emit.name = outer, name

    def apply(
        self,
        spec: Spec,
        place: Place,
        path: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        number: int = 0,
    ) -> Any:
        """What a call of a layer gives for these arguments; ``_Missing`` where it is refused."""
        name = f"{path}:{number}" if number else path
        place = self._shared(spec, place)
        try:
            if spec.is_model:
                given = _given_to(spec, first_in_place(args, kwargs)[0])
                made = [each for _, each in self._model(spec, place, f"{name}/", given)]
                return made[0] if len(made) == 1 else made
            return self.calls(spec, place, name, args, kwargs)
        except _Missing:
            raise
        except UserError as error:
            told = error.rule + (f"; got {error.got}" if error.got else "")
            self.refusals.add(path, spec.kind, told)
            raise _Missing from error


def _given_to(model: Spec, args: tuple[Any, ...]) -> list[Tensor]:
    """What a model is called with, in the order of its inputs."""
    found, wanted = args[0] if args else None, model.config.get("input_layers")
    if isinstance(found, Mapping) and isinstance(wanted, list):
        # By the names of inputs that the model itself has as a list; more are ignored.
        names = [ref.layer for ref in refs_of(wanted)]
        if missing := [name for name in names if name not in found]:
            raise RefusalError(f"it has an input {missing[0]}, which it is not given")
        found = [found[name] for name in names]
        args = (found,)
    return [each for each in leaves(args) if isinstance(each, Tensor)]


class _Missing(Exception):
    """What a refused layer would give."""


class _Functional:
    """One call of a functional model."""

    def __init__(
        self, whole: _Import, model: Spec, place: Place, path: str, given: Sequence[Tensor] | None
    ) -> None:
        self.whole, self.model, self.place, self.path = whole, model, place, path
        self.groups = list(model.groups())
        self.values: dict[tuple[str, int], list[Tensor]] = {}
        self.missing: set[tuple[str, int]] = set()
        self.specs = {spec.name: spec for spec, _ in self.groups}
        refs = refs_of(model.config.get("input_layers"))
        if given is not None and len(refs) != len(given):
            raise RefusalError(f"it takes {len(refs)} inputs, but is given {len(given)}")
        for at, ref in enumerate(refs):
            spec = self.specs.get(ref.layer)
            if spec is None or spec.kind != "InputLayer":
                raise broken(f"an input {ref.layer[:40]} that is no input layer")
            self.values[ref.layer, 0] = [whole.input(spec) if given is None else given[at]]

    def run(self) -> list[tuple[str, Tensor]]:
        waiting = [
            (spec, group, number, self._shifted(call_of(node)))
            for spec, group in self.groups
            for number, node in enumerate(spec.calls)
        ]
        while waiting:
            left = [each for each in waiting if not self._try(*each)]
            if len(left) == len(waiting):
                names = ", ".join(dict.fromkeys(each[0].name for each in left[:4]))
                raise broken(f"layers whose inputs nothing makes: {names}")
            waiting = left
        found: list[tuple[str, Tensor]] = []
        for ref in refs_of(self.model.config.get("output_layers")):
            ref = self._in_range(ref, 1)
            if (ref.layer, ref.call) in self.missing:
                raise _Missing
            name = ref.layer if not ref.call else f"{ref.layer}:{ref.call}"
            made = self._tensor(ref)
            if not isinstance(made, Tensor):
                raise RefusalError(f"its output {name[:40]} is known when the model is read")
            found.append((f"{name}.{ref.output}" if ref.output else name, made))
        return found

    def _shifted(self, call: Call) -> Call:
        args, kwargs = replaced((call.args, dict(call.kwargs)), self._in_range)  # type: ignore[arg-type]
        return Call(args, kwargs)

    def _in_range(self, ref: Ref, begin: int = 0) -> Ref:
        """The reference, its call counted from 0: files count from 1 where a model is a layer.

        Args:
            ref: as in the file.
            begin: what calls of functional models are counted from here, as of Keras 3; Keras 2
                counts those of every model from 1.
        """
        spec = self.specs.get(ref.layer)
        if spec is None:
            raise broken(f"a tensor of {ref.layer[:40]}, which is no layer")
        count = max(len(spec.calls), 1)
        if spec.kind == "InputLayer" or count == 1:
            return Ref(ref.layer, 0, ref.output)
        if not spec.is_model:
            return ref
        first = 1 if self.whole.archive.major < 3 else begin * (spec.kind != "Sequential")
        return Ref(ref.layer, max(ref.call - first, 0), ref.output)

    def _tensor(self, ref: Ref) -> Tensor:
        made = self.values.get((ref.layer, ref.call))
        if made is None or ref.output >= len(made):
            raise broken(f"output {ref.output} of {ref.layer[:40]}, which it does not have")
        return made[ref.output]

    def _try(self, spec: Spec, group: str, number: int, call: Call) -> bool:
        """Makes a call if what it takes is there."""
        needed = {(each.layer, each.call) for each in call.refs}
        if needed & self.missing:
            self.missing.add((spec.name, number))
            return True
        if not needed <= self.values.keys():
            return False
        args, kwargs = replaced((call.args, dict(call.kwargs)), self._tensor)
        place = self.place.inside(spec.name, group)
        try:
            made = self.whole.apply(spec, place, f"{self.path}{spec.name}", args, kwargs, number)
        except _Missing:
            self.missing.add((spec.name, number))
            return True
        # Arrays are sizes, of which others are computed.
        kinds = Tensor | np.ndarray
        self.values[spec.name, number] = [each for each in leaves(made) if isinstance(each, kinds)]
        return True
