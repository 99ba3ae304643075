"""Graphs to ONNX models.

Attributes that ONNX wants as inputs become constants; which is which depends on the
operator set and is read from ONNX's own schemas.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import IO, Any, TypeGuard

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
)
from onnx.external_data_helper import set_external_data

from weft.atomic import replacing_all, write_bytes
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.custom import VERSION, custom_signature
from weft.frontends.onnx.lowering import RENAMED
from weft.frontends.onnx.nibbles import narrow_weights, packed
from weft.frontends.onnx.schema import NEWEST, Signature, signature
from weft.frontends.onnx.tensors import ONNX_TYPES
from weft.frontends.onnx.types import check_types, foreign, narrowed
from weft.ir.graph import Graph, Node
from weft.ir.types import Symbol, TensorType
from weft.ops.expand import expand
from weft.ops.framing import IN_STANDARD_OPS
from weft.ops.record import Op
from weft.ops.table import OPS
from weft.records import dataclass

OPSET = 21
"""The operator set that is written unless an op needs a newer one."""
OPSET_OF_BYTES = 20
"""That of graphs with QuantizeLinear, unless they need a newer one: onnxruntime's optimizer writes
models of 21 and later that it refuses itself, where signed bytes pass Reshape."""
INLINE_BYTES = 1 << 30
"""Models with more constants than this keep them in a file beside the model."""

# Smaller tensors stay in the model, where shape inference reads them.
_WORTH_MOVING = 1024

# Scalars everywhere in ONNX, but this one is a vector of one.
_VECTORS = frozenset({("TopK", "k")})


def write(graph: Graph, *, int4: bool = False) -> ModelProto:
    """The graph as an ONNX model; a ``UserError`` lists every op that ONNX does not have.

    Args:
        graph: the graph.
        int4: whether weights of bytes that 4 bits hold are written as INT4, two in a byte.
    """
    graph = expand(graph, OPS, IN_STANDARD_OPS)
    lost = [
        f"{node.name} ({node.op})"
        for node in _all_nodes(graph)
        if _domain(node.op) is None or (node.op == "Scan" and _is_inner_scan(node))
    ]
    if lost:
        raise UserError("onnx: some ops cannot be written", got=", ".join(lost))
    graph = narrowed(graph)
    opsets = _opsets(graph, int4=int4)
    check_types(graph, opsets)
    body = _Writer(
        opsets, {}, narrow=narrow_weights(graph, _all_nodes(graph)) if int4 else frozenset()
    ).graph(graph)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(
        body,
        producer_name="weft",
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
    )


def save(graph: Graph, path: str | Path, *, int4: bool = False) -> None:
    """Write the graph to an ONNX file, with a data file beside it if it is very large.

    Args:
        graph: the graph.
        path: of the file.
        int4: as for ``write``.
    """
    path = Path(path)
    large = sum(array.nbytes for array in graph.constants.values()) > INLINE_BYTES
    model = write(graph, int4=int4)
    if not large:
        write_bytes(path, model.SerializeToString())
        return
    data = path.with_name(f"{path.name}.data")
    with replacing_all(data, path) as (beside, file):
        for tensor in _initializers(model.graph):
            if len(tensor.raw_data) >= _WORTH_MOVING:
                _move_out(tensor, data.name, beside)
        file.write(model.SerializeToString())


def _initializers(graph: GraphProto) -> Iterator[TensorProto]:
    """The constants of a graph and of the graphs in its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _initializers(attribute.g)


def _move_out(tensor: TensorProto, location: str, file: IO[bytes]) -> None:
    """Moves the content of a tensor to the end of a file."""
    file.write(bytes(-file.tell() % mmap.ALLOCATIONGRANULARITY))
    set_external_data(tensor, location, file.tell(), len(tensor.raw_data))
    file.write(tensor.raw_data)
    tensor.ClearField("raw_data")


# --- what is written in -------------------------------------------------------------------------


def _all_nodes(graph: Graph) -> Iterable[Node]:
    for node in graph.nodes:
        yield node
        if node.op == "Scan":
            yield from _all_nodes(node.attributes.body)


def _is_inner_scan(node: Node) -> bool:
    return not isinstance(node.attributes.body, Graph)


def _domain(op: str) -> str | None:
    own = _custom(op)
    if own is not None:
        return own.domain
    return next((name for name, opset in NEWEST.items() if signature(op, name, opset)), None)


def _custom(op: str) -> Op | None:
    """The op, if it is not of the standard but has an operator set of its own."""
    record = OPS.get(op)
    return record if record is not None and record.domain else None


def _opsets(graph: Graph, *, int4: bool) -> dict[str, int]:
    quantized = any(node.op == "QuantizeLinear" for node in _all_nodes(graph))
    found = {"": OPSET_OF_BYTES if quantized and not int4 else OPSET}
    for node in _all_nodes(graph):
        domain = _domain(node.op)
        if domain:
            found[domain] = NEWEST.get(domain, VERSION)
            continue
        spelled = _spelled(node, graph)
        newest = signature(node.op, "", NEWEST[""])
        assert newest is not None
        while found[""] < NEWEST[""]:
            at = signature(node.op, "", found[""])
            if at is not None and _expressible(spelled, at, newest, graph):
                break
            found[""] += 1
    return found


def _expressible(node: Node, at: Signature, newest: Signature, graph: Graph) -> bool:
    """Whether everything that the node says can be said in this version."""
    if any(foreign(node, at, graph)):
        return False
    for field in fields(node.attributes):
        name = RENAMED.get(field.name, field.name)
        known = name in at.attributes or name in at.inputs
        if not known and (name in newest.attributes or name in newest.inputs):
            default = None if field.default is MISSING else field.default
            if getattr(node.attributes, field.name) != default:
                return False
    return len(at.inputs) >= len(newest.inputs) or len(node.inputs) <= len(at.inputs)


# --- writing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Writer:
    """Writes one graph; bodies are written by writers with renamed values.

    Attributes:
        opsets: version of each operator set.
        names: what values are called that have other names in the file.
        prefix: put before the names of all other values.
        narrow: constants of the graph that are written in 4 bits.
    """

    opsets: Mapping[str, int]
    names: Mapping[str, str]
    prefix: str = ""
    narrow: frozenset[str] = frozenset()

    def name(self, value: str) -> str:
        return self.names.get(value, f"{self.prefix}{value}" if value else "")

    def graph(self, graph: Graph, inputs: Sequence[str] | None = None) -> GraphProto:
        found = GraphProto(name=graph.name)
        for value in graph.inputs if inputs is None else inputs:
            found.input.append(self._value(value, graph.types[value]))
        for value in graph.outputs:
            found.output.append(self._value(value, graph.types[value]))
        for value, array in graph.constants.items():
            made = tensor(array, self.name(value))
            if value in self.narrow:
                made.data_type, made.raw_data = TensorProto.INT4, packed(array)
            found.initializer.append(made)
        for node in graph.nodes:
            constants, proto = self._node(node, graph)
            found.initializer.extend(constants)
            found.node.append(proto)
        return found

    def _value(self, value: str, type: TensorType) -> ValueInfoProto:
        shape = [dim.name if isinstance(dim, Symbol) else dim for dim in type.shape]
        return helper.make_tensor_value_info(self.name(value), ONNX_TYPES[type.dtype], shape)

    def _node(self, node: Node, graph: Graph) -> tuple[list[TensorProto], NodeProto]:
        domain = _domain(node.op) or ""
        own = _custom(node.op)
        rule = (
            signature(node.op, domain, self.opsets[domain])
            if own is None
            else custom_signature(own)
        )
        assert rule is not None
        node = _spelled(node, graph)
        if node.op == "Scan":
            return [], self._scan(node)
        constants: list[TensorProto] = []
        inputs = self._inputs(node, rule, graph, constants)
        while inputs and not inputs[-1]:
            inputs.pop()
        proto = NodeProto(
            op_type=rule.op,
            domain=domain,
            name=f"{self.prefix}{node.name}",
            input=inputs,
            output=[self.name(value) for value in node.outputs],
            attribute=list(_attributes(node, rule)),
        )
        return constants, proto

    def _inputs(
        self, node: Node, rule: Signature, graph: Graph, constants: list[TensorProto]
    ) -> list[str]:
        """Values and constants in the order of the schema."""
        given = [self.name(value) for value in node.inputs]
        found: list[str] = []
        structural = {RENAMED.get(each.name, each.name) for each in fields(node.attributes)}
        for place, formal in enumerate(rule.inputs):
            if rule.variadic and place == len(rule.inputs) - 1:
                found += given
            elif formal in structural and formal not in rule.attributes:
                array = _constant(node, formal, graph)
                name = "" if array is None else f"{self.prefix}{node.name}.{formal}"
                found.append(name)
                if array is not None:
                    constants.append(tensor(array, name))
            else:
                found.append(given.pop(0) if given else "")
        return found

    def _scan(self, node: Node) -> NodeProto:
        a = node.attributes
        count = a.num_states + a.num_scan_inputs
        outer = [self.name(value) for value in node.inputs]
        # Invariants are values of the graph around, which a body may read by name.
        names = dict(zip(a.body.inputs[count:], outer[count:], strict=True))
        inner = _Writer(self.opsets, names, f"{self.prefix}{node.name}/")
        attributes: dict[str, Any] = {
            "body": inner.graph(a.body, a.body.inputs[:count]),
            "num_scan_inputs": a.num_scan_inputs,
        }
        if any(a.input_directions):
            attributes["scan_input_directions"] = list(a.input_directions)
        if any(a.output_directions):
            attributes["scan_output_directions"] = list(a.output_directions)
        outputs = [self.name(value) for value in node.outputs]
        name = f"{self.prefix}{node.name}"
        return helper.make_node("Scan", outer[:count], outputs, name, **attributes)


def tensor(array: np.ndarray, name: str) -> TensorProto:
    """An array as a tensor with raw data."""
    dtype = DType.of(array.dtype)
    return TensorProto(
        name=name,
        data_type=ONNX_TYPES[dtype],
        dims=array.shape,
        raw_data=np.ascontiguousarray(array).tobytes(),
    )


def _spelled(node: Node, graph: Graph) -> Node:
    """A node whose form in the op table is not ONNX's, in ONNX's."""
    a: Any = node.attributes
    if node.op == "ConstantOfShape":
        return replace(node, attributes=_Filled(a.shape, np.array([a.value], a.dtype.numpy)))
    if node.op == "Pad" and len(node.inputs) == 1:
        dtype = graph.types[node.inputs[0]].dtype
        return replace(node, attributes=_Padded(a.pads, a.mode, np.array(a.value, dtype.numpy)))
    if node.op == "Split" and a.split is None and a.num_outputs is None:
        return replace(node, attributes=replace(a, num_outputs=len(node.outputs)))
    if set(getattr(a, "dilations", ())) == {1}:
        # Integer pools of onnxruntime refuse the attribute, even if it says what is meant anyway.
        return replace(node, attributes=replace(a, dilations=()))
    return node


@dataclass(frozen=True)
class _Filled:
    """``ConstantOfShape`` with ONNX's names."""

    input: tuple[int, ...]
    value: np.ndarray


@dataclass(frozen=True)
class _Padded:
    """``Pad`` with the fill as an input."""

    pads: tuple[int, ...]
    mode: str
    constant_value: np.ndarray


def _constant(node: Node, formal: str, graph: Graph) -> np.ndarray | None:
    """The value of a field as ONNX's input; ``None`` where it is absent."""
    by_onnx = {value: key for key, value in RENAMED.items()}
    value: Any = getattr(node.attributes, by_onnx.get(formal, formal))
    if value is None:
        return None
    if _is_array(value):
        return value
    items = value if _is_tuple(value) else (value,)
    if any(isinstance(item, Symbol) for item in items):
        raise UserError(
            "onnx: a shape with a symbolic batch cannot be written",
            fix="Make the batch concrete first",
            where=f"node {node.name}",
        )
    array = np.array(value, _dtype(node, items, graph))
    return array.reshape(1) if (node.op, formal) in _VECTORS else array


def _dtype(node: Node, items: Sequence[Any], graph: Graph) -> np.dtype:
    if node.op == "Range":
        return node.attributes.dtype.numpy
    if node.op == "Clip":
        return graph.types[node.inputs[0]].dtype.numpy
    if items and all(isinstance(item, bool) for item in items):
        return np.dtype(np.bool_)
    is_float = any(isinstance(item, float) for item in items)
    return np.dtype(np.float32 if is_float else np.int64)


def _attributes(node: Node, rule: Signature) -> Iterable[AttributeProto]:
    for field in fields(node.attributes):
        name = RENAMED.get(field.name, field.name)
        value = getattr(node.attributes, field.name)
        known = rule.attributes.get(name)
        # Where ONNX has no default, ours says that there is nothing.
        silent = known is not None and known.default is None and not known.required
        if known is None or value is None:
            continue
        if not (silent and _is_default(value, field.default)):
            yield _attribute(name, value, known.type)


def _is_default(value: Any, default: Any) -> bool:
    return not _is_array(value) and bool(value == default)


def _is_array(value: object) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray)


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _attribute(name: str, value: Any, kind: int) -> AttributeProto:
    if isinstance(value, DType):
        value = ONNX_TYPES[value]
    elif _is_array(value):
        value = tensor(value, name)
    elif kind in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        value = list(value)
    elif kind == AttributeProto.INT:
        value = int(value)
    return helper.make_attribute(name, value, attr_type=kind)
