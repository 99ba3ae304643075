"""Ops that are not Weft's: what their functions get wrong is told as their fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any, cast

import numpy as np

from weft.errors import UserError, fault
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.ops.record import Call, Computation, Control, Define, Expand, Extern, ExternBody, Op

Check = Callable[[Call, object], str]
"""``check(call, result)``: what is wrong with a result, or nothing."""


def guarded(op: Op) -> Op:
    """An op whose functions raise only ``UserError``, which names the op and the place."""

    def reference(call: Call, found: object) -> str:
        return _wrong_arrays(infer(call), found)

    infer = _guarded(op, "infer", op.infer, _wrong_types)
    return changed(
        op,
        infer=infer,
        reference=_guarded(op, "reference", op.reference, reference),
        compute=_computation(op),
        grad=_guarded(op, "grad", op.grad) if callable(op.grad) else op.grad,
        implied={name: _guarded(op, "implied", each) for name, each in op.implied.items()},
    )


def _guarded(
    op: Op, part: str, function: Callable[..., Any], check: Check | None = None
) -> Callable[..., Any]:
    def call(asked: Call, *arguments: Any) -> Any:
        try:
            found = function(asked, *arguments)
            wrong = "" if check is None else check(asked, found)
        except UserError:
            raise
        except Exception as error:
            raise fault(f"op {op.name}: `{part}`", function, error, where=asked.where) from error
        if wrong:
            raise fault(
                f"op {op.name}: `{part}`", function, UserError(f"it {wrong}"), where=asked.where
            )
        return found

    return call


def _computation(op: Op) -> Computation:
    match op.compute:
        case Define(function):
            return Define(_guarded(op, "define", function, _wrong_computes))
        case Expand(function):
            return Expand(_guarded(op, "expand", function))
        case Extern(function, along_axis):
            return Extern(_guarded(op, "extern", function, _wrong_body), along_axis)
        case Control():
            return op.compute


def _tuple_of(kind: type, found: object) -> bool:
    """Whether something is a tuple of objects of a class."""
    return isinstance(found, tuple) and all(
        isinstance(each, kind) for each in cast(tuple[object, ...], found)
    )


def _wrong_types(_: Call, found: object) -> str:
    if found and _tuple_of(TensorType, found):
        return ""
    return f"must return a tuple of TensorType, one for each output; it returned {found!r}"


def _wrong_computes(_: Call, found: object) -> str:
    if _tuple_of(Compute, found):
        return ""
    return f"must return a tuple of Compute, one for each output; it returned {found!r}"


def _wrong_body(_: Call, found: object) -> str:
    return "" if isinstance(found, ExternBody) else f"must return an ExternBody, not {found!r}"


def _wrong_arrays(types: tuple[TensorType, ...], found: object) -> str:
    if not isinstance(found, list | tuple):
        name = type(found).__name__
        return f"must return a tuple of arrays, one for each output; it returned {name}"
    for place, (array, wanted) in enumerate(zip(cast(tuple[object], found), types, strict=False)):
        given = np.asarray(array)
        fits = not wanted.is_static or given.shape == wanted.dims
        if given.dtype != wanted.dtype.numpy or not fits:
            got = f"{given.dtype}{list(given.shape)}"
            return f"must give {wanted} as output {place}, as `infer` says; it gave {got}"
    return ""
