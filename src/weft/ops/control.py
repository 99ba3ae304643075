"""Control flow: ops that run a body graph.

``Scan`` runs a body once for each index of the first axis of its scan inputs.  Values go in
and out by position:

    node inputs   = initial states, scan inputs, invariants
    body inputs   = states, one slice of each scan input, invariants
    body outputs  = new states, one slice of each scan output
    node outputs  = final states, scan outputs

Invariants are values of the surrounding graph that every step reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from weft.ir.graph import Attributes, Graph
from weft.ir.types import Dim, TensorType
from weft.ops.evaluate import evaluate
from weft.ops.record import Call, Control, NoGrad, Op, Param, Reference
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ScanAttributes(Attributes):
    """Of ``Scan``; directions are 0 (forward) or 1 (backward), ``()`` is all forward.

    Attributes:
        body: one step.
        num_states: how many values are handed from step to step.
        num_scan_inputs: how many inputs are read slice by slice.
        scan_input_directions: whether each scan input is read from its end.
        scan_output_directions: whether each scan output is written from its end.
    """

    body: Graph
    num_states: int
    num_scan_inputs: int
    scan_input_directions: tuple[int, ...] = ()
    scan_output_directions: tuple[int, ...] = ()

    @property
    def input_directions(self) -> tuple[int, ...]:
        """One for each scan input."""
        return self.scan_input_directions or (0,) * self.num_scan_inputs

    @property
    def output_directions(self) -> tuple[int, ...]:
        """One for each scan output."""
        count = len(self.body.outputs) - self.num_states
        return self.scan_output_directions or (0,) * count


def _check_counts(call: Call, a: ScanAttributes) -> None:
    body = a.body
    if len(call.inputs) != len(body.inputs) or None in call.inputs:
        raise call.error(f"body takes {len(body.inputs)} inputs", got=f"{len(call.inputs)}")
    taken = a.num_states + a.num_scan_inputs
    if min(a.num_scan_inputs - 1, a.num_states) < 0 or taken > len(body.inputs):
        raise call.error(
            "at least one input must be scanned, and the body must take all of them",
            got=f"{a.num_states} states, {a.num_scan_inputs} scan inputs",
        )
    if len(body.outputs) < a.num_states:
        raise call.error(
            f"body must give {a.num_states} states", got=f"{len(body.outputs)} outputs"
        )
    counts = (a.num_scan_inputs, len(body.outputs) - a.num_states)
    if (len(a.input_directions), len(a.output_directions)) != counts:
        raise call.error(
            "there must be one direction for each scan input and output",
            got=f"{list(a.scan_input_directions)}, {list(a.scan_output_directions)}",
        )


def scan_length(call: Call) -> int:
    """How many steps are run."""
    a = call.attributes
    lengths: set[Dim] = set()
    for position in range(a.num_states, a.num_states + a.num_scan_inputs):
        shape = call.type(position).shape
        if not shape:
            raise call.error("a scan input must have at least one dimension")
        lengths.add(shape[0])
    found = lengths.pop()
    if lengths or not isinstance(found, int):
        raise call.error("scan inputs must have one known length")
    return found


def _infer_scan(call: Call) -> tuple[TensorType, ...]:
    a: ScanAttributes = call.attributes
    _check_counts(call, a)
    length = scan_length(call)
    for position, name in enumerate(a.body.inputs):
        given, wanted = call.type(position), a.body.types[name]
        if a.num_states <= position < a.num_states + a.num_scan_inputs:
            given = TensorType(given.dtype, given.shape[1:])
        if given != wanted:
            raise call.error(f"body takes {wanted} as {name}", got=str(given))
    results = [a.body.types[name] for name in a.body.outputs]
    for position, found in enumerate(results[: a.num_states]):
        if found != call.type(position):
            raise call.error(
                f"state {position} must keep its type",
                got=f"{call.type(position)} before and {found} after a step",
            )
    stacked = (TensorType(each.dtype, (length, *each.shape)) for each in results[a.num_states :])
    return (*results[: a.num_states], *stacked)


def _reference_scan(table: Callable[[], Mapping[str, Op]]) -> Reference:
    def reference(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        a: ScanAttributes = call.attributes
        length = scan_length(call)
        states = list(inputs[: a.num_states])
        scanned = inputs[a.num_states : a.num_states + a.num_scan_inputs]
        invariants = inputs[a.num_states + a.num_scan_inputs :]
        stacked = [
            np.zeros(type.dims, type.dtype.numpy) for type in _infer_scan(call)[a.num_states :]
        ]
        for step in range(length):
            slices = [
                array[length - 1 - step if backward else step]
                for array, backward in zip(scanned, a.input_directions, strict=True)
            ]
            values = dict(zip(a.body.inputs, (*states, *slices, *invariants), strict=True))
            found = evaluate(a.body, values, table())
            results = [found[name] for name in a.body.outputs]
            states = results[: a.num_states]
            for array, value, backward in zip(
                stacked, results[a.num_states :], a.output_directions, strict=True
            ):
                array[length - 1 - step if backward else step] = value
        return (*states, *stacked)

    return reference


def ops(table: Callable[[], Mapping[str, Op]]) -> tuple[Op, ...]:
    """The family's records.

    Args:
        table: gives the whole op table, which the references of bodies need and which
            these records are part of.
    """
    return (
        Op(
            name="Scan",
            inputs=(Param("inputs", variadic=True),),
            infer=_infer_scan,
            reference=_reference_scan(table),
            compute=Control("body"),
            grad=NoGrad("gradients come with autodiff"),
            attributes=ScanAttributes,
            implied={
                "scan_input_directions": lambda call: call.attributes.input_directions,
                "scan_output_directions": lambda call: call.attributes.output_directions,
            },
            outputs=(Param("outputs", variadic=True),),
            doc="Runs a body once for each index of the first axis, handing on states.",
        ),
    )
