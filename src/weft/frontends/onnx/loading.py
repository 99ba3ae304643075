"""ONNX models to graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx import ModelProto

from weft.errors import UserError
from weft.frontends.onnx.importer import NO_LARGE, Importer, ImportRefusal, domain_of
from weft.frontends.onnx.inputs import (
    Given,
    Inputs,
    Shape,
    check_names,
    declared_shapes,
    flat_names,
    plain_shape,
)
from weft.frontends.onnx.reading import read_model
from weft.frontends.onnx.schema import NEWEST
from weft.frontends.onnx.scope import Frame, NameScope
from weft.frontends.onnx.special import SPECIAL
from weft.frontends.onnx.tensors import ExternalData, check_text
from weft.frontends.onnx.values import KnownTensor, KnownValue, Symbols, UnknownValue
from weft.frontends.pieces import FilePiece
from weft.ir.graph import Graph
from weft.ir.naming import identifier
from weft.ops.build import GraphBuilder
from weft.ops.record import Op
from weft.ops.table import OPS


class RefusedError(UserError):
    """A model of which nodes cannot be imported.

    Attributes:
        refusals: every such node, with the reason.
        needed: graph inputs whose values would have to be known, if that is the reason.
    """

    def __init__(self, refusals: Sequence[ImportRefusal], needed: Sequence[str]) -> None:
        self.refusals = tuple(refusals)
        self.needed = tuple(needed)
        lines = dict.fromkeys(f"{each.name} ({each.op}): {each.reason}" for each in refusals)
        count = len(lines)
        head = "1 node cannot" if count == 1 else f"{count} nodes cannot"
        fix = ""
        if needed:
            options = " ".join(f"--constant {name}=VALUE" for name in needed)
            items = ", ".join(f'"{name}": VALUE' for name in needed)
            fix = f"Give the values: {options}; in Python: weft.load(path, constants={{{items}}})"
        super().__init__("\n  ".join([f"onnx: {head} be imported:", *lines]), fix=fix)


def load(
    path: str | Path,
    inputs: Mapping[str, Shape] | None = None,
    constants: Mapping[str, Given] | None = None,
) -> Graph:
    """Import an ONNX file.

    Args:
        path: the file; external data are looked for in its folder.
        inputs: shapes of graph inputs, where the file leaves sizes open; or such a size by
            the name that the file gives it, which holds wherever the name stands.
        constants: values of graph inputs that fix shapes or the like; these are then no
            inputs of the graph.

    Returns:
        The graph, its batch symbolic where the file says so and ``inputs`` does not.
    """
    path = Path(path)
    model, large = read_model(path)
    linked = path.resolve().parent if path.is_symlink() else None
    return import_model(
        model,
        inputs,
        constants,
        folder=path.parent,
        linked=linked,
        name=path.stem,
        large=large,
    )


def import_model(
    model: ModelProto,
    inputs: Mapping[str, Shape] | None = None,
    constants: Mapping[str, Given] | None = None,
    *,
    folder: Path | None = None,
    linked: Path | None = None,
    name: str = "",
    ops: Mapping[str, Op] = OPS,
    large: Mapping[int, FilePiece] = NO_LARGE,
) -> Graph:
    """Import a parsed model; see ``load``.

    Args:
        model: the model.
        inputs: shapes of graph inputs.
        constants: values of graph inputs.
        folder: where external data may lie.
        linked: where links there may lead to.
        name: of the graph; the model's own if not given.
        ops: the op table.
        large: where the raw bytes of initializers lie that were left out of the model, by
            position.
    """
    shapes = {key: plain_shape(shape) for key, shape in (inputs or {}).items()}
    values = dict(constants or {})
    source = model.graph
    check_names(source.input, shapes, values)
    check_text(source.name, *(each.domain for each in model.opset_import))
    symbols = Symbols()
    importer = Importer(ops, model, ExternalData(folder, linked), symbols, SPECIAL)
    builder = GraphBuilder(ops, identifier(name or source.name))
    frame = Frame(builder, _value_names(model))
    scope = NameScope(frame, _opsets(model), declared=declared_shapes(source))
    importer.constants(source, scope, frozenset(shapes) | frozenset(values), large)
    formal = [each for each in source.input if each.name not in scope.values]
    reader = Inputs(builder, symbols, formal, shapes, values)
    reader.check_closed()
    for each in formal:
        scope.define(each.name, reader.value(each))
    importer.nodes(source.node, scope)
    outputs = _outputs(importer, scope, [each.name for each in source.output])
    if importer.refusals:
        raise RefusedError(importer.refusals, _needed(importer.refusals, builder))
    return builder.graph(outputs)


def _value_names(model: ModelProto) -> frozenset[str]:
    """Every value name of the main graph; nodes and inlined values keep clear of them."""
    graph = model.graph
    found = {each.name for each in (*graph.input, *graph.initializer)}
    found |= {each.values.name for each in graph.sparse_initializer}
    found.update(name for node in graph.node for name in node.output)
    return frozenset(found)


def _opsets(model: ModelProto) -> dict[str, int]:
    found = {domain_of(each.domain): each.version for each in model.opset_import}
    # Before IR version 3 there was one operator set, which nobody had to name.
    found.setdefault("", 1)
    newest = NEWEST[""]
    if not 1 <= found[""] <= newest:
        raise UserError(
            f"onnx: operator sets 1 to {newest} are supported",
            got=str(found[""]),
            fix="Install a newer onnx package" if found[""] > newest else "",
        )
    return found


def _outputs(importer: Importer, scope: NameScope, names: Sequence[str]) -> list[str]:
    """The outputs under their ONNX names; sequences become one output for each item."""
    check_text(*names)
    if len(set(names)) != len(names) or "" in names:
        raise UserError("onnx: outputs must have unique names", got=", ".join(names))
    found: list[str] = []
    frame = scope.frame
    for name in names:
        value = importer.result(scope, name)
        if isinstance(value, UnknownValue):
            continue
        for wish, part in flat_names(name, value):
            match part:
                case KnownTensor(actual, _):
                    same = actual == wish
                    found.append(
                        actual if same else frame.builder.op("Identity", actual, output=wish)
                    )
                case KnownValue():
                    found.append(frame.constant(part, "" if part.name == wish else wish))
    return found


def _needed(refusals: Sequence[ImportRefusal], builder: GraphBuilder) -> list[str]:
    """The graph inputs on which the values depend that had to be known."""
    makers = {name: node for node in builder.nodes for name in node.outputs}
    pending = [each.needs for each in refusals if each.needs]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += [each for each in makers[name].inputs if each] if name in makers else []
    return [name for name in builder.inputs if name in seen]
