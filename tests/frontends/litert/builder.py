"""Small LiteRT files, written with the schema's object API that comes with LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="LiteRT is missing")
flatbuffers = pytest.importorskip("flatbuffers")

VERSIONS = {"BROADCAST_TO": 2}  # the least of which LiteRT has a kernel
_KINDS = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "float64": "FLOAT64",
    "int4": "INT4",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint32": "UINT32",
    "uint16": "UINT16",
    "bool": "BOOL",
    "complex64": "COMPLEX64",
    "resource": "RESOURCE",
}


@dataclass
class T:
    """A tensor.

    Attributes:
        shape: its sizes.
        dtype: its element type.
        data: its elements if it is a constant; of quantized ones the integers.
        scale: of quantized ones; several along the axis.
        zero: zero points.
        axis: of several scales.
        variable: whether it is a state.
        name: as the file has it.
        signature: sizes with -1 for open ones.
        low: the least number of random elements.
        high: the largest one.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    data: Any = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    variable: bool = False
    name: str = ""
    signature: tuple[int, ...] | None = None
    low: float = -3.0
    high: float = 3.0

    def packed(self) -> bytes:
        """The bytes of a constant."""
        if self.dtype == "int4":
            flat = np.asarray(self.data, np.int8).reshape(-1) & 15
            flat = np.append(flat, [0] * (flat.size % 2)).astype(np.uint8)
            return (flat[::2] | flat[1::2] << 4).tobytes()
        return np.asarray(self.data, self.dtype).reshape(self.shape).tobytes()

    def random(self, seed: int) -> np.ndarray:
        """Elements for an input."""
        rng = np.random.default_rng(seed)
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if self.dtype.startswith("float"):
            return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)
        if self.scale is not None:
            scale, zero = float(np.ravel(self.scale)[0]), int(np.ravel(self.zero)[0])
            ends = np.iinfo(self.dtype)
            numbers = rng.uniform(self.low, self.high, self.shape) / scale + zero
            return np.clip(np.round(numbers), ends.min, ends.max).astype(self.dtype)
        return rng.integers(int(self.low), int(self.high) + 1, self.shape).astype(self.dtype)


def const(data: Any, dtype: str = "int32", **rest: Any) -> T:
    """A constant."""
    array = np.asarray(data, None if dtype == "int4" else dtype)
    return T(tuple(array.shape), dtype, array, **rest)


@dataclass
class Op:
    """A use of an operator: its tensors by place, -1 where absent."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    custom: str = ""
    intermediates: Sequence[int] = ()


@dataclass
class Sub:
    """A subgraph."""

    tensors: Sequence[T]
    ops: Sequence[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]
    name: str = "main"


def _quantization(tensor: T) -> Any:
    found = schema.QuantizationParametersT()
    scales = np.ravel(tensor.scale).astype(np.float32)
    zeros = np.broadcast_to(np.ravel(tensor.zero), scales.shape)
    found.scale = [float(each) for each in scales]
    found.zeroPoint = [int(each) for each in zeros]
    found.quantizedDimension = tensor.axis
    return found


def _operator(op: Op, codes: dict[tuple[str, str], int]) -> Any:
    found = schema.OperatorT()
    found.opcodeIndex = codes.setdefault((op.name, op.custom), len(codes))
    found.inputs, found.outputs = list(op.inputs), list(op.outputs)
    found.intermediates = list(op.intermediates) or None
    if op.options:
        found.builtinOptionsType = getattr(schema.BuiltinOptions, op.options)
        found.builtinOptions = getattr(schema, f"{op.options}T")()
        for name, value in op.values.items():
            assert hasattr(found.builtinOptions, name), (op.options, name)
            setattr(found.builtinOptions, name, value)
    return found


def file(subs: Sequence[Sub], signatures: Sequence[tuple[str, int, dict, dict]] = ()) -> bytes:
    """The bytes of a file; signatures are keys, subgraphs, and names of inputs and outputs."""
    model = schema.ModelT()
    model.version, model.description = 3, "made by a test"
    model.buffers = [schema.BufferT()]
    model.subgraphs, codes = [], {}
    for sub in subs:
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators = sub.name, [], []
        for place, each in enumerate(sub.tensors):
            tensor = schema.TensorT()
            tensor.name, tensor.shape = each.name or f"t{place}", list(each.shape)
            tensor.shapeSignature = list(each.signature) if each.signature else None
            tensor.type = getattr(schema.TensorType, _KINDS[each.dtype])
            tensor.isVariable, tensor.hasRank, tensor.buffer = each.variable, True, 0
            if each.scale is not None:
                tensor.quantization = _quantization(each)
            if each.data is not None:
                tensor.buffer = len(model.buffers)
                model.buffers.append(schema.BufferT())
                model.buffers[-1].data = np.frombuffer(each.packed(), np.uint8)
            graph.tensors.append(tensor)
        graph.operators = [_operator(op, codes) for op in sub.ops]
        graph.inputs, graph.outputs = list(sub.inputs), list(sub.outputs)
        model.subgraphs.append(graph)
    model.operatorCodes = []
    for name, custom in codes:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = VERSIONS.get(name, 1)
        code.customCode = custom or None
        model.operatorCodes.append(code)
    model.signatureDefs = [_signature(*each) for each in signatures]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _signature(key: str, subgraph: int, inputs: dict, outputs: dict) -> Any:
    found = schema.SignatureDefT()
    found.signatureKey, found.subgraphIndex = key, subgraph
    for field_name, names in (("inputs", inputs), ("outputs", outputs)):
        maps = []
        for index, name in names.items():
            maps.append(schema.TensorMapT())
            maps[-1].name, maps[-1].tensorIndex = name, index
        setattr(found, field_name, maps)
    return found


@dataclass
class Case:
    """One operator with its tensors; inputs without elements are given at random.

    Attributes:
        name: of the operator.
        inputs: its inputs; ``None`` where absent.
        outputs: its outputs.
        options: the schema's class of its options, and their values.
        label: what is particular about it.
        steps: by how many steps quantized outputs may differ from LiteRT's.
        tolerance: by how much float ones may, in parts of their range.
        reference: whether LiteRT's reference kernel is right; else it is the optimized one.
        intermediates: tensors that say how values inside of the operator are quantized.
    """

    name: str
    inputs: Sequence[T | None]
    outputs: Sequence[T]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    steps: int = 1
    tolerance: float = 1e-5
    reference: bool = True
    intermediates: Sequence[T] = ()

    @property
    def id(self) -> str:
        """For pytest."""
        kinds = [each.dtype for each in (*self.inputs, *self.outputs) if each is not None]
        return "-".join(filter(None, (self.name, kinds[0], self.label)))

    @property
    def types(self) -> str:
        """For the coverage table: the element type that is computed with."""
        found = [each for each in (*self.inputs, *self.outputs) if each is not None]
        weights = [each.dtype for each in found if each.data is not None and each.scale is not None]
        kinds = {each.dtype for each in found if each.scale is not None}
        if weights and self.outputs[0].dtype == "float32":
            return f"{weights[0]} weights"
        if "int16" in kinds:
            return "int16x8"
        return self.outputs[0].dtype if not kinds else sorted(kinds - {"int32"})[0] + " quantized"

    def content(self) -> bytes:
        """The bytes of a file with this operator alone."""
        tensors = [each for each in self.inputs if each is not None]
        places = iter(range(len(tensors)))
        given = [-1 if each is None else next(places) for each in self.inputs]
        outputs = list(range(len(tensors), len(tensors) + len(self.outputs)))
        inside = list(
            range(
                len(tensors) + len(outputs), len(tensors) + len(outputs) + len(self.intermediates)
            )
        )
        op = Op(self.name, given, outputs, self.options, self.values, intermediates=inside)
        inputs = [
            place for place, each in enumerate(tensors) if each.data is None and not each.variable
        ]
        named = [
            replace(each, name=each.name or f"t{place}")
            for place, each in enumerate([*tensors, *self.outputs, *self.intermediates])
        ]
        return file([Sub(named, [op], inputs, outputs)])


def inputs_of(case: Case) -> list[np.ndarray]:
    """Random elements for the inputs of a case."""
    given = [each for each in case.inputs if each is not None]
    free = [each for each in given if each.data is None and not each.variable]
    return [each.random(seed) for seed, each in enumerate(free)]
