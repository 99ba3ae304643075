"""The import of one model: graphs, subgraphs and functions, node by node.

A node that cannot be imported is noted and its outputs become ``UnknownValue``; the import
goes on, so that one refusal tells of every such node.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from weft.errors import UserError
from weft.frontends.onnx.adapters import ADAPTERS, adapt
from weft.frontends.onnx.attributes import node_attributes
from weft.frontends.onnx.custom import custom_op, custom_signature, why_missing
from weft.frontends.onnx.functions import bindings_of, body_of, resolved
from weft.frontends.onnx.lowering import NodeLowering
from weft.frontends.onnx.microsoft.contrib_ops import advice, function_of, is_known
from weft.frontends.onnx.order import in_order
from weft.frontends.onnx.request import NeedsValue, Request, check_states
from weft.frontends.onnx.schema import NEWEST, Signature, signature
from weft.frontends.onnx.scope import Frame, NameScope
from weft.frontends.onnx.tensors import ExternalData, array_of, check_text, dense_of
from weft.frontends.onnx.values import (
    KnownTensor,
    KnownValue,
    Nothing,
    Symbols,
    UnknownValue,
    Value,
)
from weft.frontends.pieces import FilePiece
from weft.ir.graph import Origin
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.record import Op
from weft.records import dataclass

MAX_NODES = 100_000
"""Nodes after functions are inlined and loops unrolled: a bound on work, not on models."""
SPARSE_BYTES = 1 << 20
NO_LARGE: Mapping[int, FilePiece] = MappingProxyType({})


class TooManyNodesError(UserError):
    """The import is given up; the other errors are noted, and the import goes on."""


@dataclass(frozen=True, slots=True)
class ImportRefusal:
    """A node that cannot be imported, and why.

    Attributes:
        name: of the node; op: its op type.
        reason: a sentence.
        needs: value in the graph that would have to be known, if that is the reason.
    """

    name: str
    op: str
    reason: str
    needs: str = ""


Special: TypeAlias = "Callable[[Request, Importer], tuple[Value, ...] | None]"
"""Gives the outputs, or ``None`` to have the node treated like any other."""


class Importer:
    """State of one import.

    Args:
        ops: the op table.
        model: the model; its functions are looked up here.
        external: where external data are found.
        symbols: the symbols of the graph's inputs.
        special: what imports nodes that no op of the table stands for, by op type.
    """

    def __init__(
        self,
        ops: Mapping[str, Op],
        model: ModelProto,
        external: ExternalData,
        symbols: Symbols,
        special: Mapping[str, Special],
    ) -> None:
        self.ops = ops
        self.special = special
        self.external = external
        self.symbols = symbols
        self.lowering = NodeLowering(ops, symbols)
        self.refusals: list[ImportRefusal] = []
        self.functions: dict[tuple[str, str, str], FunctionProto] = {
            (domain_of(each.domain), each.name, each.overload): each for each in model.functions
        }
        self._count = 0

    # --- graphs -----------------------------------------------------------------------------

    def constants(
        self,
        graph: GraphProto,
        scope: NameScope,
        skip: frozenset[str] = frozenset(),
        large: Mapping[int, FilePiece] = NO_LARGE,
    ) -> None:
        """Define the initializers of a graph.

        Args:
            graph: the graph.
            scope: gets the values.
            skip: names of those to be left out.
            large: where raw bytes lie that were left out of the graph, by position.
        """
        for place, tensor in enumerate(graph.initializer):
            if tensor.name in skip:
                continue
            check_text(tensor.name)
            if not tensor.name:
                raise UserError("onnx: an initializer has no name")
            scope.define(
                tensor.name, self.initializer(tensor, scope.wish(tensor.name), large.get(place))
            )
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            check_text(name)
            limit = SPARSE_BYTES + 64 * sparse.values.ByteSize()
            array = dense_of(sparse, self.external, limit)
            scope.define(name, KnownValue((array,), scope.wish(name)))

    def initializer(self, tensor: TensorProto, wish: str, raw: FilePiece | None) -> Value:
        """The value of an initializer; ``UnknownValue`` if its element type is."""
        try:
            return KnownValue((array_of(tensor, self.external, raw),), wish)
        except UserError as error:
            self.refusals.append(ImportRefusal(tensor.name, "initializer", _reason(error)))
            return UnknownValue()

    def nodes(self, nodes: Sequence[NodeProto], scope: NameScope) -> None:
        """Import nodes into a scope."""
        for node in in_order(nodes):
            self._count += 1
            if self._count > MAX_NODES:
                raise TooManyNodesError(
                    f"onnx: a model has at most {MAX_NODES} nodes, functions and loops unrolled"
                )
            self._node(node, scope)

    def inline(
        self, graph: GraphProto, request: Request, arguments: Sequence[Value], prefix: str
    ) -> tuple[Value, ...]:
        """Import a subgraph in place: its nodes go into the graph around it."""
        return self.run_body(graph, _inner(request, request.scope.frame, prefix), arguments)

    def run_body(
        self, graph: GraphProto, inner: NameScope, arguments: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Import a subgraph into a scope."""
        if len(graph.input) != len(arguments):
            raise UserError(
                f"onnx: the body {graph.name} must have {len(arguments)} inputs",
                got=str(len(graph.input)),
            )
        check_text(graph.name, *(each.name for each in (*graph.input, *graph.output)))
        for formal, value in zip(graph.input, arguments, strict=True):
            inner.define(formal.name, value)
        self.constants(graph, inner)
        self.nodes(graph.node, inner)
        return tuple(self.result(inner, each.name) for each in graph.output)

    def result(self, scope: NameScope, name: str) -> Value:
        """An output of a graph or function."""
        found = scope.find(name)
        if found is None:
            raise UserError(f"onnx: no node computes the output {name}")
        return found

    # --- bodies of loops ----------------------------------------------------------------------

    def body_scope(self, request: Request, name: str) -> tuple[Frame, NameScope]:
        """A new graph for the body of a loop, and a scope that fills it."""
        frame = Frame(GraphBuilder(self.ops, name or "body"))
        return frame, _inner(request, frame, "")

    def within(self, request: Request, inner: NameScope) -> Request:
        """The request, with its nodes going into another scope."""
        return replace(request, scope=inner)

    def renamed(self, request: Request, suffix: str) -> Request:
        """The request under other names."""
        return replace(
            request,
            name=request.name + suffix,
            outputs=tuple(name and f"{name}{suffix}" for name in request.outputs),
        )

    def row_type(self, request: Request, type: TensorType) -> TensorType:
        """What a body sees of a scanned input."""
        if not type.shape or not type.is_static:
            raise request.error("scanned inputs must have a known length", got=str(type))
        return TensorType(type.dtype, type.shape[1:])

    def emit_scan(
        self,
        request: Request,
        frame: Frame,
        results: Sequence[Value],
        states: Sequence[Value],
        scanned: Sequence[Value],
        *,
        directions: tuple[Sequence[int], Sequence[int]] = ((), ()),
        outputs: Sequence[str],
    ) -> tuple[Value, ...]:
        """The node that runs a finished body."""
        check_states(request, states, results)
        body = frame.builder.graph(self._body_outputs(request, frame, results))
        outer = [self.lowering.name_of(request, value) for value in (*states, *scanned)]
        outer += [self.lowering.name_of(request, value) for value, _ in frame.captured.values()]
        around = request.scope.frame.builder
        made = around.nodes_of(
            "Scan",
            outer,
            self.ops["Scan"].attributes(
                body=body,
                num_states=len(states),
                num_scan_inputs=len(scanned),
                scan_input_directions=tuple(directions[0]),
                scan_output_directions=tuple(directions[1]),
            ),
            outputs=outputs,
            name=request.name,
            origin=Origin(request.scope.sources or (request.name,)),
        )
        return tuple(KnownTensor(name, around.types[name]) if name else Nothing() for name in made)

    def _body_outputs(self, request: Request, frame: Frame, results: Sequence[Value]) -> list[str]:
        """Names of a body's outputs, each made by a node of its own."""
        made = {name for node in frame.builder.nodes for name in node.outputs}
        found: list[str] = []
        for value in results:
            name = self.lowering.name_of(
                replace(request, scope=NameScope(frame, request.scope.opsets)), value
            )
            if name not in made or name in found:
                name = frame.builder.op("Identity", name)
            found.append(name)
        return found

    # --- nodes ------------------------------------------------------------------------------

    def _node(self, node: NodeProto, scope: NameScope) -> None:
        check_text(node.op_type, node.domain, node.overload, node.name, *node.input, *node.output)
        label = node.name or next((name for name in node.output if name), "") or node.op_type
        try:
            results = self._results(node, scope, label)
        except TooManyNodesError:
            raise
        except UserError as error:
            needs = error.value if isinstance(error, NeedsValue) else ""
            name = scope.sources[0] if scope.sources else label
            self.refusals.append(ImportRefusal(name, node.op_type, _reason(error), needs))
            results = (UnknownValue(),) * len(node.output)
        for name, value in zip(node.output, results, strict=False):
            if name:
                scope.define(name, value)

    def _results(self, node: NodeProto, scope: NameScope, label: str) -> tuple[Value, ...]:
        node = resolved(node, scope.bindings)
        domain = domain_of(node.domain)
        opset = scope.opsets.get(domain)
        own = custom_op(node.op_type, domain, self.ops)
        rule = custom_signature(own) if own else signature(node.op_type, domain, opset or 0)
        local = self.functions.get((domain, node.op_type, node.overload))
        where = f"node {label}"
        contrib = local is None and is_known(node)
        if local is None and not contrib:
            self._supported(node, domain, opset, rule, where)
        inputs = tuple(self._input(scope, name, where) for name in node.input)
        if any(isinstance(value, UnknownValue) for value in inputs):
            return (UnknownValue(),) * len(node.output)
        if contrib:
            local = function_of(node, inputs)
        if local is not None:
            return self.function(node, local, scope, label, inputs)
        assert rule is not None
        _check_counts(node, rule, self.special, where)
        attributes = node_attributes(node, rule, where)
        request = Request(
            own.name if own else node.op_type,
            rule.since,
            attributes,
            inputs,
            _names(rule, len(inputs)),
            tuple(scope.wish(name) for name in node.output),
            scope.frame.free(f"{scope.prefix}{label}" if scope.prefix else label),
            where,
            scope,
        )
        return self.lowering.lower(request) if own else self._standard(node, rule, request, label)

    def _standard(
        self, node: NodeProto, rule: Signature, request: Request, label: str
    ) -> tuple[Value, ...]:
        """The outputs of an op of the standard."""
        special = self.special.get(node.op_type)
        found = special(request, self) if special is not None else None
        if found is not None:
            return found
        adapted = adapt(request, self.lowering)
        if isinstance(adapted, tuple):
            return adapted
        if adapted.op in self.ops:
            return self.lowering.lower(adapted)
        opset = request.scope.opsets.get(rule.domain) or 1
        body = body_of(node, rule, opset, [self._onnx_type(value) for value in request.inputs])
        if body is None:
            raise UserError(f"{node.op_type} is not supported", where=request.where)
        return self.function(node, body, request.scope, label, request.inputs)

    def _supported(
        self,
        node: NodeProto,
        domain: str,
        opset: int | None,
        rule: Signature | None,
        where: str,
    ) -> None:
        """Refuse ops that cannot be imported whatever their inputs are."""
        if opset is None:
            raise UserError(
                f"onnx: the model imports no operator set {domain or 'ai.onnx'}", where=where
            )
        if rule is None:
            raise UserError(
                f"ONNX has no op {node.op_type} in {domain or 'ai.onnx'} {opset}",
                fix=advice(domain) or why_missing(self.ops),
            )
        if rule.schema is None:
            return
        if domain not in NEWEST:
            raise UserError(f"ops of {domain} are not supported", where=where)
        known = node.op_type in self.ops or node.op_type in self.special or rule.is_function
        if not known and node.op_type not in ADAPTERS:
            raise UserError(f"{node.op_type} is not supported", where=where)

    def _input(self, scope: NameScope, name: str, where: str) -> Value | None:
        if not name:
            return None
        found = scope.find(name)
        if found is None:
            raise UserError(f"onnx: no node computes the value {name}", where=where)
        return None if isinstance(found, Nothing) else found

    def _onnx_type(self, value: Value | None) -> TensorType | None:
        return value.type if isinstance(value, KnownTensor | KnownValue) else None

    def function(
        self,
        node: NodeProto,
        function: FunctionProto,
        scope: NameScope,
        label: str,
        inputs: tuple[Value | None, ...],
    ) -> tuple[Value, ...]:
        """Import a function's body in place of a call of it."""
        own = {domain_of(each.domain): each.version for each in function.opset_import}
        inner = NameScope(
            scope.frame,
            {**scope.opsets, **own},
            prefix=f"{scope.prefix}{label}/",
            bindings=bindings_of(node, function),
            depth=scope.depth + 1,
            sources=scope.sources or (label,),
        )
        check_text(*function.input, *function.output)
        for place, name in enumerate(function.input):
            value = inputs[place] if place < len(inputs) else None
            inner.define(name, Nothing() if value is None else value)
        self.nodes(function.node, inner)
        wanted = zip(function.output, node.output, strict=False)
        return tuple(self.result(inner, name) if wish else Nothing() for name, wish in wanted)


def _inner(request: Request, frame: Frame, prefix: str) -> NameScope:
    around = request.scope
    return NameScope(
        frame,
        around.opsets,
        parent=around,
        prefix=prefix,
        bindings=around.bindings,
        depth=around.depth + 1,
        sources=around.sources,
    )


def domain_of(name: str) -> str:
    """A domain, the standard one under its short name."""
    return "" if name == "ai.onnx" else name


def _names(rule: Signature, count: int) -> tuple[str, ...]:
    # All inputs past the last formal one are that one, which is variadic: it has no field.
    names = rule.inputs[:-1] if rule.variadic else rule.inputs
    return names + ("",) * (count - len(names))


def _check_counts(node: NodeProto, rule: Signature, special: Container[str], where: str) -> None:
    if not rule.least <= len(node.input) <= rule.most:
        raise UserError(
            f"onnx: {node.op_type} takes {rule.least} to {rule.most} inputs",
            got=str(len(node.input)),
            where=where,
        )
    for name, given in zip(rule.inputs, node.input, strict=False):
        if not given and name in rule.required and node.op_type not in special:
            raise UserError(f"onnx: {node.op_type} needs its input {name}", where=where)
    if not node.output:
        raise UserError(
            f"onnx: {node.op_type} must have an output",
            got="none",
            fix="Leave it out.",
            where=where,
        )
    if len(node.output) > rule.outputs:
        raise UserError(
            f"onnx: {node.op_type} has at most {rule.outputs} outputs",
            got=str(len(node.output)),
            where=where,
        )


def _reason(error: UserError) -> str:
    text = error.rule + (f"; got {error.got}" if error.got else "")
    return text + (f". {error.fix}" if error.fix else "")
