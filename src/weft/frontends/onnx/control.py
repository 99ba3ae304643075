"""``If``, ``Loop`` and ``Scan``: inlined, unrolled, or one ``Scan`` with a body graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.importer import Importer
from weft.frontends.onnx.request import NeedsValue, Request
from weft.frontends.onnx.tensors import ONNX_TYPES
from weft.frontends.onnx.values import KnownTensor, KnownValue, UnknownValue, Value, known
from weft.ir.types import Symbol

UNROLLED = 4
"""Loops this short are unrolled even if a ``Scan`` could run them."""
MOST_UNROLLED = 1024


def _graph(request: Request, name: str) -> GraphProto:
    found = request.get(name)
    assert isinstance(found, GraphProto)
    return found


# --- If -----------------------------------------------------------------------------------------


def if_(request: Request, importer: Importer) -> tuple[Value, ...]:
    """The branch that a constant chooses; else both, and a selection."""
    condition = request.value(0)
    if request.type_of(condition).shape not in ((), (1,)):
        raise request.error("the condition must be one value")
    if isinstance(condition, KnownValue) and condition.fixed:
        chosen = "then_branch" if condition.array.reshape(-1)[0] else "else_branch"
        return importer.inline(_graph(request, chosen), request, (), f"{request.name}/")
    if not isinstance(condition, KnownTensor):
        request.numbers(0)  # says that the batch decides
    branches = [
        importer.inline(_graph(request, name), request, (), f"{request.name}/{name}/")
        for name in ("then_branch", "else_branch")
    ]
    if any(isinstance(value, UnknownValue) for branch in branches for value in branch):
        return (UnknownValue(),) * len(request.outputs)
    shape = known(np.zeros(0, np.int64), "shape")
    scalar = importer.lowering.call(request, "Reshape", (condition, shape))[0]
    found: list[Value] = []
    for then, otherwise, wish in zip(*branches, request.outputs, strict=False):
        if not _alike(then, otherwise):
            assert isinstance(condition, KnownTensor)
            raise NeedsValue("If", "the condition", condition.name, request.where)
        found += importer.lowering.call(request, "Where", (scalar, then, otherwise), (wish,))
    return tuple(found)


def _alike(left: Value, right: Value) -> bool:
    if not isinstance(left, KnownTensor | KnownValue) or not isinstance(
        right, KnownTensor | KnownValue
    ):
        return False
    return left.type == right.type


# --- Loop ---------------------------------------------------------------------------------------


def loop(request: Request, importer: Importer) -> tuple[Value, ...]:
    """A loop whose largest number of rounds is known."""
    body = _graph(request, "body")
    trips = _trips(request)
    carried = [request.value(place) for place in range(2, len(request.inputs))]
    condition = request.inputs[1] if request.has(1) else known(np.array(True), "condition")
    needed = max(len(carried), len(request.outputs)) + 1
    if len(body.input) != len(carried) + 2 or len(body.output) < needed:
        raise request.error("the body must have an input and an output for each carried value")
    tensors = all(isinstance(value, KnownTensor | KnownValue) for value in carried)
    if (trips == 0 or _false(condition)) and tensors and len(request.outputs) > len(carried):
        made = _scanned_loop(request, importer, 0, known(np.array(True), "condition"), carried)
        if made is not None:  # the body says what shape rows would have
            return (*carried, *made[len(carried) :])
    if trips is None or trips <= UNROLLED or not tensors or isinstance(condition, KnownValue):
        # A sequence is no value that a body graph could carry.
        found = _unrolled(request, importer, trips, condition, carried, short=not tensors)
        if found is not None:
            return found
    if trips is None or not tensors:
        raise _unknown_end(request, condition, trips)
    found = _scanned_loop(request, importer, trips, condition, carried)
    if found is None:
        found = _unrolled(request, importer, trips, condition, carried, short=True)
    if found is None:
        raise _unknown_end(request, condition, trips)
    return found


def _unknown_end(request: Request, condition: Value | None, trips: int | None) -> UserError:
    if isinstance(condition, KnownTensor):
        return NeedsValue("Loop", "the condition", condition.name, request.where)
    if trips is None:
        return request.error("the number of rounds must be known before the model runs")
    return request.error("the condition in the body must be known before the model runs")


def _trips(request: Request) -> int | None:
    if not request.has(0):
        return None
    found = request.numbers(0)
    assert found is not None
    if found.size != 1:
        raise request.error("the number of rounds must be one number")
    return max(0, int(found.reshape(-1)[0]))


def _unrolled(
    request: Request,
    importer: Importer,
    trips: int | None,
    condition: Value | None,
    carried: Sequence[Value],
    *,
    short: bool,
) -> tuple[Value, ...] | None:
    """The rounds one after the other; ``None`` if it takes a computed condition to stop."""
    body = _graph(request, "body")
    count = len(carried)
    rows: list[tuple[Value, ...]] = []
    state = tuple(carried)
    short = short or (trips is not None and trips <= UNROLLED)
    mark = len(request.scope.frame.builder.nodes)
    for place in range(min(MOST_UNROLLED, trips if trips is not None else MOST_UNROLLED)):
        if not isinstance(condition, KnownValue) or not condition.fixed:
            return None
        if not condition.array.reshape(-1)[0]:
            break
        number = known(np.array(place, np.int64), "iteration")
        found = importer.inline(
            body, request, (number, condition, *state), f"{request.name}/{place}/"
        )
        if any(isinstance(value, UnknownValue) for value in found):
            return (UnknownValue(),) * len(request.outputs)
        changed = any(
            isinstance(before, KnownTensor | KnownValue) and not _alike(before, after)
            for before, after in zip(state, found[1 : 1 + count], strict=True)
        )
        computes = len(request.scope.frame.builder.nodes) > mark
        if not place and computes and not short and not changed and trips is not None:
            return None  # a body graph does the same with less code
        condition, state = found[0], tuple(found[1 : 1 + count])
        rows.append(found[1 + count :])
    else:
        if trips is None or trips > MOST_UNROLLED:
            raise request.error(f"a loop may be unrolled {MOST_UNROLLED} times")
    stacked = [
        _stacked(request, importer, [row[place] for row in rows], wish)
        for place, wish in enumerate(request.outputs[count:])
    ]
    return (*state, *stacked)


def _stacked(request: Request, importer: Importer, items: Sequence[Value], wish: str) -> Value:
    if not items:
        raise request.error("a loop without rounds has scan outputs of unknown shape")
    axes = known(np.zeros(1, np.int64), "axes")
    rows = [importer.lowering.call(request, "Unsqueeze", (item, axes))[0] for item in items]
    return importer.lowering.call(request, "Concat", rows, (wish,), axis=0)[0]


def _scanned_loop(
    request: Request,
    importer: Importer,
    trips: int,
    condition: Value | None,
    carried: Sequence[Value],
) -> tuple[Value, ...] | None:
    """A ``Scan`` over the numbers of the rounds; ``None`` if the body must know its round.

    A condition that is computed freezes the carried values once it is false.
    """
    refused = len(importer.refusals)
    body = _graph(request, "body")
    count = len(carried)
    bounds = [known(np.array(number, np.int64)) for number in (0, trips, 1)]
    numbers = importer.lowering.call(request, "Range", bounds, dtype=ONNX_TYPES[DType.I64])[0]
    frame, inner = importer.body_scope(request, body.name)
    lowering = importer.lowering
    alive_type = request.type_of(condition) if condition is not None else None
    assert alive_type is not None
    states = [
        KnownTensor(frame.builder.input(f"state_{place}", type), type)
        for place, type in enumerate([alive_type, *(request.type_of(value) for value in carried)])
    ]
    number_type = known(np.array(0, np.int64)).type
    number = KnownTensor(frame.builder.input("iteration", number_type), number_type)
    inside = request.but()
    alive = states[0]
    arguments: list[Value] = [number, known(np.array(True), "condition"), *states[1:]]
    found = importer.run_body(body, inner, arguments)
    if any(each.needs for each in importer.refusals[refused:]):
        del importer.refusals[refused:]
        return None
    if any(isinstance(value, UnknownValue) for value in found):
        return (UnknownValue(),) * len(request.outputs)
    goes_on = found[0]
    always = not trips or (_true(goes_on) and _true(condition))
    inside = importer.within(inside, inner)
    results: list[Value] = [alive]
    if always:
        results += found[1 : 1 + count]
    else:
        if len(found) > 1 + count:
            raise request.error("scan outputs need a condition that is known")
        results[0] = lowering.call(inside, "And", (alive, goes_on))[0]
        for before, after in zip(states[1:], found[1:], strict=True):
            results.append(lowering.call(inside, "Where", (alive, after, before))[0])
    results += found[1 + count :]
    made = importer.emit_scan(
        request,
        frame,
        results,
        [condition if condition is not None else known(np.array(True)), *carried],
        [numbers],
        outputs=("", *request.outputs),
    )
    return made[1:]


def _true(value: Value | None) -> bool:
    return isinstance(value, KnownValue) and value.fixed and bool(value.array.reshape(-1)[0])


def _false(value: Value | None) -> bool:
    return isinstance(value, KnownValue) and value.fixed and not value.array.reshape(-1)[0]


# --- Scan ---------------------------------------------------------------------------------------


def scan(request: Request, importer: Importer) -> tuple[Value, ...]:
    """ONNX's ``Scan`` as the primitive one: other axes are transposed, outputs reversed."""
    if request.version < 9:
        return _scan_8(request, importer)
    body = _graph(request, "body")
    given = int(request.get("num_scan_inputs"))
    states = len(request.inputs) - given
    if given < 1 or states < 0 or len(body.input) != len(request.inputs):
        raise request.error("num_scan_inputs must fit the inputs", got=str(given))
    if len(body.output) < max(states, len(request.outputs)):
        raise request.error("the body must have an output for each state")
    scans = len(body.output) - states
    into = _list(request, "scan_input_directions", given, (0, 1))
    out = _list(request, "scan_output_directions", scans, (0, 1))
    axes = _list(request, "scan_input_axes", given, None)
    out_axes = _list(request, "scan_output_axes", scans, None)
    scanned = [
        _to_front(request, importer, request.value(states + place), axis)
        for place, axis in enumerate(axes)
    ]
    frame, inner = importer.body_scope(request, body.name)
    arguments: list[Value] = []
    for place in range(len(request.inputs)):
        front = place < states
        type = request.type_of(request.value(place) if front else scanned[place - states])
        if not front:
            type = importer.row_type(request, type)
        arguments.append(KnownTensor(frame.builder.input(body.input[place].name, type), type))
    results = importer.run_body(body, inner, arguments)
    if any(isinstance(value, UnknownValue) for value in results):
        return (UnknownValue(),) * len(request.outputs)
    wishes = list(request.outputs) + [""] * (len(results) - len(request.outputs))
    plain = not any(out_axes)
    made = list(
        importer.emit_scan(
            request,
            frame,
            list(results),
            [request.value(place) for place in range(states)],
            scanned,
            directions=(into, out),
            outputs=tuple(
                wish if place < states or plain or not wish else f"{wish}_rows"
                for place, wish in enumerate(wishes)
            ),
        )
    )
    for place, axis in enumerate(out_axes):
        if not plain and wishes[states + place]:
            made[states + place] = _from_front(
                request, importer, made[states + place], axis, wishes[states + place]
            )
    return tuple(made[: len(request.outputs)])


def _list(
    request: Request, name: str, count: int, allowed: tuple[int, ...] | None
) -> tuple[int, ...]:
    found = tuple(request.get(name) or (0,) * count)
    if len(found) != count or (allowed and any(each not in allowed for each in found)):
        raise request.error(f"{name} must be {count} numbers", got=str(list(found)))
    return found


def _to_front(request: Request, importer: Importer, value: Value, axis: int) -> Value:
    rank = len(request.type_of(value).shape)
    if not -rank <= axis < rank:
        raise request.error("a scan axis must be one of the input's", got=str(axis))
    axis %= rank
    if axis == 0:
        return value
    perm = (axis, *(each for each in range(rank) if each != axis))
    return importer.lowering.call(request, "Transpose", (value,), perm=perm)[0]


def _from_front(request: Request, importer: Importer, value: Value, axis: int, wish: str) -> Value:
    """A scan output moved to its axis."""
    rank = len(request.type_of(value).shape)
    if not -rank <= axis < rank:
        raise request.error("a scan axis must be one of the output's", got=str(axis))
    perm = list(range(1, rank))
    perm.insert(axis % rank, 0)
    return importer.lowering.call(request, "Transpose", (value,), (wish,), perm=tuple(perm))[0]


def _scan_8(request: Request, importer: Importer) -> tuple[Value, ...]:
    """Version 8 has a batch in front of everything: one ``Scan`` for each of it."""
    if request.has(0):
        raise request.error("sequence_lens is not supported")
    if not request.has(1):
        raise request.error("an input is required")
    extents = {request.type_of(value).shape[:1] for value in request.inputs[1:] if value}
    if len(extents) != 1 or isinstance(next(iter(extents))[0], Symbol):
        raise request.error("all inputs must have one batch of known size")
    batch = next(iter(extents))[0]
    assert isinstance(batch, int)
    directions = request.get("directions")
    rows: list[tuple[Value, ...]] = []
    for place in range(batch):
        number = known(np.array(place, np.int64))
        inputs = [
            importer.lowering.call(request, "Gather", (value, number), axis=0)[0]
            for value in request.inputs[1:]
        ]
        changed = request.but(
            inputs=inputs,
            drop=("directions",),
            **({"scan_input_directions": directions} if directions else {}),
        )
        rows.append(scan(importer.renamed(replace(changed, version=9), f"_{place}"), importer))
    if any(isinstance(value, UnknownValue) for row in rows for value in row):
        return (UnknownValue(),) * len(request.outputs)
    return tuple(
        _stacked(request, importer, [row[place] for row in rows], wish)
        for place, wish in enumerate(request.outputs)
    )
