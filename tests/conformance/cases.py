"""The official ONNX tests of the installed onnx package, as plain records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")


@dataclass(frozen=True, eq=False)
class Case:
    """One test: a model and what it must give.

    Attributes:
        name: the test's own name; kind: one of ``KINDS``.
        model: the model; folder: where its external data would be.
        data: inputs and outputs of each data set, in the order of the graph's.
        rtol, atol: tolerances of the test.
    """

    name: str
    kind: str
    model: ModelProto
    folder: Path | None
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float

    @property
    def ops(self) -> tuple[str, ...]:
        """The op types of the model, each once."""
        return tuple(dict.fromkeys(node.op_type for node in self.model.graph.node))


@cache
def node_cases() -> dict[str, Case]:
    """The node tests; they are made in memory."""
    # The source texts that it cuts out for its pages take a fifth of the time.
    texts = patch("onnx.backend.test.case.base.process_snippet", lambda *_: ("", ""))
    with warnings.catch_warnings(), texts:
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return {
        case.name: Case(
            case.name, "node", case.model, None, case.data_sets or [], case.rtol, case.atol
        )
        for case in found
        if case.model is not None
    }


def model_cases(kind: str) -> dict[str, Case]:
    """The tests of whole models that lie in files."""
    found = {}
    for case in load_model_tests(kind=kind):
        folder = Path(case.model_dir or "")
        if not (folder / "model.onnx").is_file():
            continue
        model = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
        data = tuple(_data_sets(folder, model))
        if data:
            found[case.name] = Case(
                case.name, kind, model, folder, data, case.rtol or 1e-3, case.atol or 1e-7
            )
    return found


def light_cases() -> dict[str, Case]:
    """Well-known networks whose weights are made up by ``ConstantOfShape``."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found = {}
    for path in sorted(folder.glob("*.onnx")):
        model = onnx.load_model_from_string(path.read_bytes())
        weights = {each.name for each in model.graph.initializer}
        inputs = [_ramp(each) for each in model.graph.input if each.name not in weights]
        output = folder / f"{path.stem}_output_0.pb"
        name = f"test_{path.stem.removeprefix('light_')}"
        data = ((inputs, [_value(output, model.graph.output[0].type)]),)
        found[name] = Case(name, "light", model, folder, data, 2e-3, 1e-7)
    return found


def _ramp(formal: Any) -> np.ndarray:
    # As onnx.backend.test.runner makes the input of these models.
    shape = [dim.dim_value for dim in formal.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count) / count).reshape(shape).astype(np.float32)


def _data_sets(folder: Path, model: ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    weights = {each.name for each in model.graph.initializer}
    formal = [each for each in model.graph.input if each.name not in weights]
    for data in sorted(folder.glob("test_data_set_*")):
        given = len(list(data.glob("input_*.pb")))
        types = formal if given <= len(formal) else list(model.graph.input)
        yield (
            [_value(data / f"input_{place}.pb", types[place].type) for place in range(given)],
            [
                _value(data / f"output_{place}.pb", each.type)
                for place, each in enumerate(model.graph.output)
            ],
        )


def _value(path: Path, type: TypeProto) -> Any:
    data = path.read_bytes()
    if type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def all_cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    """Every test of these kinds."""
    found: list[Case] = []
    for kind in kinds:
        if kind == "node":
            found += node_cases().values()
        elif kind == "light":
            found += light_cases().values()
        else:
            found += model_cases(kind).values()
    return found
