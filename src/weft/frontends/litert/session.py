"""Running a file in LiteRT's interpreter, where that is installed, to compare with."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from weft.deferred import installed
from weft.errors import UserError
from weft.frontends.litert.loading import Imported, import_file
from weft.frontends.litert.record import numbers

_PACKAGES = ("ai_edge_litert", "tflite_runtime", "tensorflow")


def has_interpreter() -> bool:
    """Whether a package with LiteRT's interpreter is installed."""
    return any(map(installed, _PACKAGES))


@cache
def interpreters() -> Any:
    """The module with the interpreter.

    Raises:
        UserError: no package has one.
    """
    for package in _PACKAGES:
        if installed(package):
            name = "tensorflow.lite" if package == "tensorflow" else f"{package}.interpreter"
            return importlib.import_module(name)
    raise UserError(
        "LiteRT's interpreter must be installed",
        got="no such package",
        fix="pip install ai-edge-litert",
    )


def opened(content: bytes, reference: bool = True) -> Any:
    """An interpreter of a file's bytes: no delegates, every tensor kept.

    Args:
        content: the file's bytes.
        reference: whether reference kernels are preferred; some operators have none.
    """
    module = interpreters()
    resolver = getattr(module, "OpResolverType", None)
    resolver = resolver or getattr(getattr(module, "experimental", None), "OpResolverType", None)
    if resolver is None:
        return _opened(module, content, {})
    optimized = {"experimental_op_resolver_type": resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    if reference:
        try:
            return _opened(module, content, {"experimental_op_resolver_type": resolver.BUILTIN_REF})
        except UserError as error:
            if "Didn't find op" not in error.got:
                raise
    return _opened(module, content, optimized)


def _opened(module: Any, content: bytes, options: dict[str, Any]) -> Any:
    try:
        return module.Interpreter(
            model_content=content,
            num_threads=1,
            experimental_preserve_all_tensors=True,
            **options,
        )
    except (ValueError, RuntimeError) as error:
        raise UserError("LiteRT cannot load the model", got=str(error)[:500]) from error


class Session:
    """A file in LiteRT; its runs begin with variables as the file has them.

    Args:
        path: the file.
        values: names of values in Weft's graph of the file that are wanted beside the outputs;
            those that the interpreter does not have are left out.
        signature: the function to run; the one that is imported if not given.
    """

    def __init__(self, path: Path, values: Collection[str] = (), signature: str = "") -> None:
        self._content = path.read_bytes()
        self._imported: Imported = import_file(path, signature=signature)
        self._wanted = frozenset(values)
        opened(self._content)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the model, subgraph 0 or the signature's, from the beginning."""
        found, imported = opened(self._content), self._imported
        graph = imported.graph
        subgraph = imported.subgraph
        if subgraph:
            # Tensors of other subgraphs cannot be looked at.
            runner = found.get_signature_runner(imported.key)
            return dict(runner(**{name: inputs[name] for name in imported.inputs}))
        for name, info in imported.inputs.items():
            if tuple(inputs[name].shape) != info.shape:
                found.resize_tensor_input(info.index, inputs[name].shape)
        try:
            found.allocate_tensors()
            for name, info in imported.inputs.items():
                found.set_tensor(info.index, np.asarray(inputs[name], order="C"))
            found.invoke()
        except (ValueError, RuntimeError) as error:
            raise UserError("LiteRT cannot run the model", got=str(error)[:500]) from error
        made: dict[str, np.ndarray] = {}
        for name, index in imported.tensors.items():
            if name in self._wanted or name in graph.outputs:
                made[name] = _tensor(found, index)
        for name, info in imported.meanings.items():
            if name in self._wanted:
                made[name] = numbers(_tensor(found, info.index), info.quantization)
        return {name: each for name, each in made.items() if each.shape == graph.types[name].dims}


def _tensor(found: Any, index: int) -> np.ndarray:
    """The elements of a tensor after a run; none if the interpreter keeps none."""
    try:
        return np.array(found.get_tensor(index))
    except ValueError:
        return np.zeros(0, np.float32)
