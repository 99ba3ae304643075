"""Requests to nodes of the graph, or to values where all is known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from weft.errors import UserError
from weft.frontends.onnx.attributes import (
    Raw,
    fit,
    from_known,
    hints_of,
    raw_value,
    required_fields,
)
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.schema import NEWEST, AttributeRule, signature
from weft.frontends.onnx.tensors import MAX_BYTES, MAX_RANK
from weft.frontends.onnx.values import KnownTensor, KnownValue, Nothing, Symbols, Value, merged
from weft.ir.graph import Origin
from weft.ir.types import TensorType
from weft.ops.record import Call, Op

RENAMED: Mapping[str, str] = {"kernel": "kernel_shape", "groups": "group"}
"""Fields of attribute classes whose names are not ONNX's."""

# Attributes that change nothing about what is computed at inference.
IGNORED = frozenset({"consumed_inputs", "momentum", "stash_type", "storage_order", "seed"})

FOLD_ELEMENTS = 1 << 16
"""Values larger than this are not computed on the way: constant folding does that later."""
PALETTE_ELEMENTS = 256
"""More bytes than these are left to constant folding, which knows palettes."""
FOLD_BYTES = 32 << 20
"""All values together that are computed on the way."""
FOLD_ELEMENTS_SLOW = 1 << 12
"""The same for ops whose cost may be far more than the size of their results."""
QUANTIZED = "DequantizeLinear"
"""Not computed on the way: recipes read of it what its numbers stand for."""
# What shape arithmetic is made of; all of it takes time in proportion to its operands.
CHEAP = frozenset(
    """Abs Add And Cast CastLike Ceil Concat Div Equal Expand Flatten Floor Gather Greater
    GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pad Range ReduceMax
    ReduceMin ReduceProd ReduceSum Reshape Slice Split Sqrt Squeeze Sub Tile Transpose Unsqueeze
    Where""".split()
)


class NodeLowering:
    """Puts requests of the newest versions into graphs.

    Args:
        ops: the op table.
        symbols: the model's symbols.
    """

    def __init__(self, ops: Mapping[str, Op], symbols: Symbols) -> None:
        self.ops = ops
        self.symbols = symbols
        self._budget = FOLD_BYTES

    def call(
        self,
        request: Request,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[str] | int = 1,
        **attributes: Raw,
    ) -> tuple[Value, ...]:
        """Use one more op on behalf of a request; ``outputs`` are wished names."""
        rule = signature(op, "", NEWEST[""])
        frame = request.scope.frame
        name = frame.free(f"{request.name}_{op.lower()}")
        wishes = (
            tuple(frame.free(f"{name}_out{place or ''}") for place in range(outputs))
            if isinstance(outputs, int)
            else tuple(outputs)
        )
        return self.lower(
            replace(
                request,
                op=op,
                attributes=attributes,
                inputs=tuple(inputs),
                names=rule.inputs if rule else (),
                outputs=wishes,
                name=name,
            )
        )

    def lower(self, request: Request) -> tuple[Value, ...]:
        """The outputs of an op of the table."""
        op = self.ops[request.op]
        structural = self._structural(request, op)
        kept = [
            value for place, value in enumerate(request.inputs) if place not in structural.values()
        ]
        while kept and kept[-1] is None:
            kept.pop()
        if all(value is None or isinstance(value, KnownValue) for value in kept):
            folded = self._fold(request, op, kept, structural)
            if folded is not None:
                return folded
        return self._node(request, op, kept, structural)

    def outputs(self, request: Request) -> Sequence[np.ndarray]:
        """What an op gives whose inputs are all known and do not depend on the batch."""
        op = self.ops[request.op]
        structural = self._structural(request, op)
        attributes = self._attributes(request, op, structural, None)
        arrays = [
            request.numbers(place)
            for place in range(len(request.inputs))
            if place not in structural.values()
        ]
        if sum(array.size for array in arrays if array is not None) > FOLD_ELEMENTS:
            raise request.error("the inputs are too large to count the results now")
        return _compute(request, op, attributes, arrays)

    # --- attributes -------------------------------------------------------------------------

    def _structural(self, request: Request, op: Op) -> dict[str, int]:
        """The fields that an input gives, with the input's position."""
        found: dict[str, int] = {}
        for field in hints_of(op.attributes):
            name = RENAMED.get(field, field)
            if name not in request.attributes and name in request.names:
                found[field] = request.names.index(name)
        return found

    def _attributes(
        self, request: Request, op: Op, structural: Mapping[str, int], sample: int | None
    ) -> Any:
        hints = hints_of(op.attributes)
        found: dict[str, Any] = {}
        for field, hint in hints.items():
            name = RENAMED.get(field, field)
            if name in request.attributes:
                found[field] = fit(request.attributes[name], hint, request.where)
            elif field in structural:
                value = request.known(structural[field])
                if value is not None:
                    raw = from_known(value, hint, sample, self.symbols, request.where)
                    found[field] = fit(raw, hint, request.where)
        missing = required_fields(op.attributes) - found.keys()
        if missing:
            raise request.error(f"needs {', '.join(sorted(missing))}", got="nothing")
        self._all_taken(request, hints)
        return op.attributes(**found)

    def _all_taken(self, request: Request, hints: Mapping[str, Any]) -> None:
        """No attribute that means something may be lost."""
        taken = {RENAMED.get(field, field) for field in hints} | IGNORED
        rule = signature(request.op, "", NEWEST[""])
        for name, value in request.attributes.items():
            if name in taken:
                continue
            if not _is_default(value, rule.attributes.get(name) if rule else None):
                raise request.error(f"attribute {name} is not supported", got=_short(value))

    # --- results ----------------------------------------------------------------------------

    def _node(
        self, request: Request, op: Op, kept: Sequence[Value | None], structural: Mapping[str, int]
    ) -> tuple[Value, ...]:
        attributes = self._attributes(request, op, structural, None)
        frame = request.scope.frame
        names = [self.name_of(request, value) for value in kept]
        before = len(frame.builder.nodes)
        made = frame.builder.nodes_of(
            op.name,
            names,
            attributes,
            outputs=request.outputs,
            name=request.name,
            origin=Origin(request.scope.sources or (request.name,)),
        )
        types = frame.builder.types
        try:
            for name in made:
                if name:
                    check_type(types[name], request)
        except UserError:
            del frame.builder.nodes[before:]
            for name in made:
                types.pop(name, None)
            raise
        return tuple(KnownTensor(name, types[name]) if name else Nothing() for name in made)

    def name_of(self, request: Request, value: Value | None) -> str:
        """The name of a tensor in the request's graph; constants are added to it."""
        match value:
            case None:
                return ""
            case KnownTensor(name, _):
                return name
            case KnownValue():
                check_type(request.type_of(value), request)
                return request.scope.frame.constant(value)
            case _:
                raise request.error(
                    "an input must be a tensor", got=f"a {type(value).__name__.lower()}"
                )

    def _fold(
        self,
        request: Request,
        op: Op,
        kept: Sequence[Value | None],
        structural: Mapping[str, int],
    ) -> tuple[Value, ...] | None:
        """The outputs as known values; ``None`` if it is not worth it or not possible."""
        values = [value if isinstance(value, KnownValue) else None for value in kept]
        fields = [request.known(place) for place in structural.values()]
        count = max(
            (len(value.samples) for value in [*values, *fields] if value is not None), default=1
        )
        limit = FOLD_ELEMENTS if op.name in CHEAP else FOLD_ELEMENTS_SLOW
        limit = min(limit, self._budget)
        if sum(value.array.size for value in values if value is not None) > limit:
            return None
        if op.name == QUANTIZED or (op.name == "Cast" and _are_numbers(values)):
            return None
        rows: list[Sequence[np.ndarray]] = []
        for sample in range(count):
            arrays = [None if value is None else value.sample(sample) for value in values]
            attributes = self._attributes(request, op, structural, sample if count > 1 else None)
            found = _evaluate(request, op, attributes, arrays, limit)
            if found is None:
                return None
            rows.append(found)
            self._budget -= sum(array.nbytes for array in found)
        results = [
            merged([row[place] for row in rows], wish) if wish else Nothing()
            for place, wish in enumerate(request.outputs)
        ]
        if any(result is None for result in results):
            return None
        return tuple(result for result in results if result is not None)


def _are_numbers(values: Sequence[KnownValue | None]) -> bool:
    """Whether these are bytes, too many for a shape: numbers of a palette's values, as a rule."""
    return any(
        value is not None and value.array.dtype == np.uint8 and value.array.size > PALETTE_ELEMENTS
        for value in values
    )


def _evaluate(
    request: Request,
    op: Op,
    attributes: Any,
    arrays: Sequence[np.ndarray | None],
    limit: int,
) -> Sequence[np.ndarray] | None:
    call = _call(request, op, attributes, arrays)
    inferred = op.infer(call)
    for type in inferred:
        check_type(type, request)
    if len(inferred) < len(request.outputs) or sum(prod(type.dims) for type in inferred) > limit:
        return None
    found = _compute(request, op, attributes, arrays)
    return [_owned(array, type) for array, type in zip(found, inferred, strict=False)]


def _call(request: Request, op: Op, attributes: Any, arrays: Sequence[np.ndarray | None]) -> Call:
    types = tuple(None if array is None else KnownValue((array,)).type for array in arrays)
    return Call(op.name, attributes, types, len(request.outputs), request.where)


def _compute(
    request: Request, op: Op, attributes: Any, arrays: Sequence[np.ndarray | None]
) -> Sequence[np.ndarray]:
    try:
        with np.errstate(all="ignore"):
            return op.reference(_call(request, op, attributes, arrays), *arrays)
    except (IndexError, OverflowError, ValueError) as error:  # an index outside, and the like
        raise request.error("these constants cannot be used", got=str(error)) from error


def _owned(array: np.ndarray, type: TensorType) -> np.ndarray:
    """The result as a packed array that nobody writes to."""
    found = np.array(array, type.dtype.numpy).reshape(type.dims)
    found.flags.writeable = False
    return found


def check_type(type: TensorType, request: Request) -> None:
    """Refuse what no memory could hold."""
    size = prod(dim for dim in type.shape if isinstance(dim, int)) * type.dtype.bytes
    if size > MAX_BYTES or len(type.shape) > MAX_RANK:
        raise request.error(
            f"a tensor has at most {MAX_BYTES >> 30} GiB and {MAX_RANK} axes", got=str(type)
        )


def _is_default(value: Raw, rule: AttributeRule | None) -> bool:
    if rule is None or rule.default is None:
        return False
    return bool(value == raw_value(rule.default, ""))


def _short(value: Raw) -> str:
    return str(value)[:60]
