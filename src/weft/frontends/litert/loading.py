"""LiteRT files to graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError, nearest
from weft.frontends.emit import Tensor
from weft.frontends.litert.importer import Frame, Importer, Refusal
from weft.frontends.litert.model import ModelInfo, Signature, TensorInfo
from weft.frontends.litert.naming import port_names
from weft.frontends.litert.reading import parse, read_bytes
from weft.frontends.litert.record import Value
from weft.frontends.litert.rows import table
from weft.ir.graph import Graph, Node
from weft.ir.naming import identifier, making, reading
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.records import dataclass

T = TypeVar("T")


class RefusedError(UserError):
    """A model of which operators cannot be imported.

    Attributes:
        refusals: every such operator, with the reason.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        lines = dict.fromkeys(
            f"{each.name} ({each.operator}, {each.where}): {each.reason}" for each in refusals
        )
        count = len(lines)
        head = "1 operator cannot" if count == 1 else f"{count} operators cannot"
        super().__init__("\n  ".join([f"litert: {head} be imported:", *lines]))


@dataclass(frozen=True)
class Imported:
    """A graph, and what its names are in the file.

    Attributes:
        graph: what is computed.
        subgraph: which of the file's it is.
        inputs: tensors of the inputs, by name.
        tensors: tensors of other values, by name.
        meanings: tensors whose integers other values are, dequantized, by name.
        states: by input that is a state, the output that is its next value.
        key: of the signature; empty if the file has none for it.
    """

    graph: Graph
    subgraph: int
    inputs: Mapping[str, TensorInfo]
    tensors: Mapping[str, int]
    meanings: Mapping[str, TensorInfo]
    states: Mapping[str, str]
    key: str


def load(
    path: str | Path,
    inputs: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    signature: str = "",
    *,
    float_activations: bool = False,
) -> Graph:
    """Import a LiteRT file.

    Args:
        path: the file.
        inputs: shapes of graph inputs, where the file leaves sizes open.
        constants: values of graph inputs that never change; these are then no inputs.
        signature: the function to import, if the file has several.
        float_activations: whether layers whose weights alone are integers compute in float, in
            place of quantizing their inputs as LiteRT does.

    Raises:
        UserError: the file is damaged, or has operators that Weft cannot import: all of them are
            listed with the reasons.
    """
    return import_file(
        path, inputs, constants, signature, float_activations=float_activations
    ).graph


def states(path: str | Path, signature: str = "") -> Mapping[str, str]:
    """By input of a file's graph that is a state, the output that is its next value."""
    key = _key(Path(path), signature)
    if key in _STATES:
        return _STATES[key]
    model = parse(read_bytes(Path(path)))
    stateful = any(
        any(each.variable for each in graph.tensors)
        or any(each.name == "VAR_HANDLE" for each in graph.operators)
        for graph in model.subgraphs
    )
    return import_model(model, signature=signature).states if stateful else {}


def import_file(
    path: str | Path,
    inputs: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    signature: str = "",
    *,
    float_activations: bool = False,
) -> Imported:
    """Import a file; see ``load``."""
    path = Path(path)
    key = _key(path, signature)
    model = parse(read_bytes(path))
    found = import_model(
        model,
        inputs,
        constants,
        signature=signature,
        name=path.stem,
        float_activations=float_activations,
    )
    _STATES[key] = found.states
    while len(_STATES) > _MOST_STATES:
        del _STATES[next(iter(_STATES))]
    return found


_MOST_STATES = 16
_STATES: dict[tuple[object, ...], Mapping[str, str]] = {}
"""The states of files that were imported last, which are asked for next."""


def _key(path: Path, signature: str) -> tuple[object, ...]:
    """What a file's states are known by; nothing knows those of a file that does not exist."""
    try:
        found = path.stat()
    except OSError:
        return (object(),)
    return (path.absolute(), found.st_mtime_ns, found.st_size, signature)


def import_model(
    model: ModelInfo,
    inputs: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    signature: str = "",
    name: str = "net",
    float_activations: bool = False,
) -> Imported:
    """Import a file that was read; see ``load``."""
    importer = Importer(model, identifier(name), table(), float_activations=float_activations)
    return _Loading(importer, _chosen(model, signature)).run(
        dict(inputs or {}), dict(constants or {})
    )


def _chosen(model: ModelInfo, key: str) -> Signature:
    """The signature that is meant; one without a name if the file has none."""
    for each in model.signatures:
        if each.key == key or not key:
            return each
    if not key:
        return Signature("", 0)
    known = [each.key for each in model.signatures]
    raise UserError(
        f"the file has no signature {key}",
        fix=f"{nearest(key, known)} It has {', '.join(known) or 'none'}".strip(),
    )


class _Loading:
    def __init__(self, importer: Importer, signature: Signature) -> None:
        self.signature = signature
        self.renamed: dict[str, str] = {}
        self.importer = importer
        self.frame: Frame = self.importer.frame(signature.subgraph)
        graph = self.frame.graph
        if not graph.outputs:
            raise UserError("litert: a graph must have an output")
        if len(set(graph.inputs)) != len(graph.inputs):
            raise UserError("litert: inputs must be different tensors")
        tensors = [graph.tensors[index] for index in graph.inputs]
        self.names = port_names(tensors, dict(signature.inputs))
        self.outputs = port_names(
            [graph.tensors[index] for index in dict.fromkeys(graph.outputs)],
            dict(signature.outputs),
        )

    def run(self, shapes: dict[str, tuple[int, ...]], values: dict[str, np.ndarray]) -> Imported:
        importer, frame = self.importer, self.frame
        infos = {self.names[index]: frame.graph.tensors[index] for index in frame.graph.inputs}
        shapes, values = self._by_names(shapes, infos), self._by_names(values, infos)
        for name, info in infos.items():
            frame.values[info.index] = self._input(name, info, shapes.get(name), values.get(name))
        found = importer.run(frame)
        if importer.refusals:
            raise RefusedError(importer.refusals)
        made = self._outputs(found)
        states: dict[str, str] = {}
        for name, variable in importer.variables.items():
            port, value = variable.port, variable.value
            if port is None or value is None:
                continue
            if not variable.assigned:
                raise UserError(
                    "litert: a variable must be assigned", where=f"variable {name[:80]}"
                )
            states[port.name] = self._made(value, f"{port.name}.next")
            made.append(states[port.name])
        builder = importer.builder
        held = set(states)
        order = [each for each in builder.inputs if each not in held]
        builder.inputs[:] = [*order, *states]
        graph = _pruned(builder, made, self.renamed)
        renamed = {self.renamed.get(name, name): at for name, at in importer.tensors.items()}
        tensors = {name: at for name, at in renamed.items() if name in graph.types}
        for name, index in zip(made, frame.graph.outputs, strict=False):
            tensors[name] = index
        kept = {name: info for name, info in infos.items() if name in graph.inputs}
        return Imported(
            graph, frame.graph.index, kept, tensors, importer.meanings, states, self.signature.key
        )

    def _by_names(self, given: dict[str, T], infos: Mapping[str, TensorInfo]) -> dict[str, T]:
        """What is said about inputs, by their names in the graph; the file's count, too."""
        full = {info.name: name for name, info in infos.items()}
        for name in given:
            if name not in infos and name not in full:
                near = nearest(name, infos)
                told = f"Its inputs are {', '.join(infos)}"
                raise UserError(
                    f"the model has no input {name}", fix=f"{near} {told}" if near else told
                )
        return {name if name in infos else full[name]: value for name, value in given.items()}

    def _input(
        self, name: str, info: TensorInfo, shape: tuple[int, ...] | None, value: object
    ) -> Value:
        where = f"input {name}"
        if info.dtype is None:
            raise UserError(f"litert: an input of {info.kind} is not supported", where=where)
        array = None if value is None else _constant(value, info.dtype, where)
        if array is not None:
            shape = array.shape
        if shape is None:
            shape = info.shape
        fits = len(shape) == len(info.shape) and all(
            size == wanted or wanted == -1
            for size, wanted in zip(shape, info.signature, strict=True)
        )
        if not fits or any(size < 0 for size in shape):
            raise UserError(
                "the shape of an input must fit the model",
                got=f"{list(shape)} for {list(info.signature)}",
                where=where,
            )
        if array is not None:
            return self.importer.emit.constant(array, name)
        made = self.importer.builder.input(name, TensorType(info.dtype, tuple(shape)))
        return self.importer.emit.of(made)

    def _outputs(self, found: Sequence[Value | None]) -> list[str]:
        made: list[str] = []
        for index, value in zip(self.frame.graph.outputs, found, strict=True):
            if not isinstance(value, Tensor):
                raise UserError(
                    "litert: an output must be made by an operator",
                    where=f"output {self.outputs[index]}",
                )
            made.append(self._made(value, self.outputs[index]))
        return made

    def _made(self, value: Tensor, name: str) -> str:
        """A value under the name of an output."""
        builder = self.importer.builder
        computed = value.name not in builder.inputs and value.name not in builder.constants
        if computed and value.name not in self.renamed:
            self.renamed[value.name] = builder.fresh(name)
            return self.renamed[value.name]
        return builder.op("Identity", value.name, output=name, name=f"{name}/identity")


def _constant(value: object, dtype: DType, where: str) -> np.ndarray:
    """The elements that are given for an input that never changes."""
    array = np.asarray(value)
    if array.dtype.kind != dtype.numpy.kind and array.dtype.kind not in "iub":
        raise UserError(
            f"a constant for this input must be {dtype.full_name}",
            got=str(array.dtype),
            where=where,
        )
    return array.astype(dtype.numpy)


def _pruned(builder: GraphBuilder, outputs: Sequence[str], names: Mapping[str, str]) -> Graph:
    """The graph with some values renamed, without what nothing reads; inputs stay."""
    needed = set(outputs)
    nodes: list[Node] = []
    for node in reversed(builder.nodes):
        node = making(reading(node, names), names)
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    kept = needed | set(builder.inputs) | {out for node in nodes for out in node.outputs if out}
    types = {names.get(name, name): type for name, type in builder.types.items()}
    return Graph(
        builder.name,
        tuple(builder.inputs),
        tuple(outputs),
        tuple(reversed(nodes)),
        {name: type for name, type in types.items() if name in kept},
        {name: array for name, array in builder.constants.items() if name in needed},
    )
