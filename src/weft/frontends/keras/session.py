# pyright: basic
"""Running a model in Keras, where that is installed, to compare with."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from weft.deferred import installed
from weft.errors import UserError, named
from weft.frontends.keras.archive import open_archive

_BACKENDS = ("tensorflow", "jax", "torch")


def has_keras() -> bool:
    """Whether Keras 3 and one of its backends are installed."""
    return installed("keras") and any(map(installed, _BACKENDS))


def import_keras() -> Any:
    """Keras, on the backend that the user chose, else on one that is installed.

    Raises:
        UserError: there is none.
    """
    if not has_keras():
        raise UserError(
            "Keras and one of its backends must be installed",
            got="no such package",
            fix="pip install keras tensorflow, or compare with the reference: --against reference",
        )
    found = os.environ.get("KERAS_BACKEND")
    if found is None and not installed("tensorflow"):
        os.environ["KERAS_BACKEND"] = next(filter(installed, _BACKENDS))
    return importlib.import_module("keras")


class Session:
    """A model in Keras.

    Args:
        source: a file, or a model.
        values: what is wanted beside the outputs: names of layers, with those of the models that
            they are in (``block/conv``), ``:1`` for a second call, ``.1`` for a second output.
    """

    def __init__(self, source: object, values: Collection[str] = ()) -> None:
        self._keras = import_keras()
        self.model: Any = _load(self._keras, source) if isinstance(source, Path) else source
        self._wanted = frozenset(values)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the model."""
        tree = self._keras.tree
        names = [each.name for each in tree.flatten(self.model.inputs)]
        if not set(names) <= inputs.keys():
            inputs = dict(zip(names, inputs.values(), strict=True))
        given = tree.map_structure(lambda each: inputs[each.name], _structure(self.model))
        record = _Record(self._keras)
        with ExitStack() as watched, warnings.catch_warnings():
            # Of Keras and its backend among themselves.
            warnings.simplefilter("ignore")
            record.watch(self.model, watched)
            self.model(given, training=False)
        return record.values


def _load(keras: Any, path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return keras.saving.load_model(
                str(path), custom_objects=_as_keras_2(keras, path), compile=False, safe_mode=True
            )
    except Exception as error:
        # Whatever its layers raise.
        raise UserError("Keras cannot load the model", got=named(error), where=str(path)) from error


def _as_keras_2(keras: Any, path: Path) -> dict[str, Any]:
    """What Keras 3 does otherwise than Keras 2, for models of Keras 2."""
    with closing((archive := open_archive(path)).weights):
        if archive.major >= 3:
            return {}

    class DepthwiseConv2D(keras.layers.DepthwiseConv2D):
        """With the field that Keras 2 wrote of the class it derives from."""

        def __init__(self, *args: Any, groups: int = 1, **fields: Any) -> None:
            super().__init__(*args, **fields)

    def hard_sigmoid(x: Any) -> Any:
        return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)

    return {"DepthwiseConv2D": DepthwiseConv2D, "hard_sigmoid": hard_sigmoid}


def _structure(model: Any) -> Any:
    """The inputs as the model is called with them."""
    try:
        return model.input
    except AttributeError:
        return model.inputs[0] if len(model.inputs) == 1 else model.inputs


class _Record:
    """What layers give, in the order of their calls."""

    def __init__(self, keras: Any) -> None:
        self.keras = keras
        self.values: dict[str, np.ndarray] = {}
        self.path = ""
        self.counts: dict[str, int] = {}
        self.watched: set[int] = set()

    def watch(self, model: Any, watched: ExitStack) -> None:
        """Notes what every layer of a model gives while the context lasts."""
        for each in getattr(model, "operations", None) or model.layers:
            if id(each) in self.watched:
                continue  # it stands in several models
            self.watched.add(id(each))
            watched.enter_context(_wrapped(each, self._noting(each)))
            if isinstance(each, self.keras.Model):
                self.watch(each, watched)

    def _noting(self, layer: Any) -> Callable[..., Any]:
        call = layer.call
        is_model = isinstance(layer, self.keras.Model)

        def noting(*args: Any, **kwargs: Any) -> Any:
            outer, path = self.path, f"{self.path}{layer.name}"
            count = self.counts[path] = self.counts.get(path, -1) + 1
            name = f"{path}:{count}" if count else path
            self.path = f"{name}/" if is_model else outer
            try:
                made = call(*args, **kwargs)
            finally:
                self.path = outer
            for place, value in enumerate(self.keras.tree.flatten(made)):
                array = np.array(self.keras.ops.convert_to_numpy(value))
                self.values[f"{name}.{place}" if place else name] = array
            return made

        return noting


@contextmanager
def _wrapped(layer: Any, call: Callable[..., Any]) -> Any:
    """A layer whose ``call`` is another function."""
    object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        object.__delattr__(layer, "call")
