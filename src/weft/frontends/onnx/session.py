"""Running a model in onnxruntime, where that is installed, to compare with."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from weft.errors import UserError


def has_onnxruntime() -> bool:
    """Whether onnxruntime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


class Session:
    """A model in onnxruntime.

    Args:
        path: the ONNX file.
        values: computed values that it gives out beside its outputs; those that it does
            not have are left out.
        threads: how many threads an op may use.
    """

    def __init__(self, path: Path, values: Collection[str] = (), threads: int = 1) -> None:
        if not has_onnxruntime():
            raise UserError(
                "onnxruntime must be installed",
                got="no such package",
                fix="pip install onnxruntime",
            )
        # Optional and slow to import, so not at the top.
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        source: Any = str(path) if not values else _with_outputs(path, values)
        try:
            self._session = runtime.InferenceSession(
                source, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            # The exceptions of onnxruntime have no common class of their own.
            raise UserError(
                "onnxruntime cannot load the model", got=str(error), where=str(path)
            ) from error
        self.outputs = tuple(each.name for each in self._session.get_outputs())

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the model."""
        wanted = {each.name for each in self._session.get_inputs()}
        given = {name: array for name, array in inputs.items() if name in wanted}
        results = self._session.run(None, given)
        return dict(zip(self.outputs, results, strict=True))


def _with_outputs(path: Path, values: Collection[str]) -> bytes:
    """The model with further outputs, as onnxruntime reads it."""
    model = onnx.load_model(str(path))  # pyright: ignore[reportUnknownMemberType]
    known = {each.name for each in model.graph.output}
    for node in model.graph.node:
        for value in node.output:
            if value in values and value not in known:
                known.add(value)
                model.graph.output.append(onnx.ValueInfoProto(name=value))
    return model.SerializeToString()
