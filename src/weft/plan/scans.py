"""Scans: which operand of the node stands for which input or output of its body."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ops.control import ScanAttributes, scan_length
from weft.ops.evaluate import call_of
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ScanState:
    """A value handed from iteration to iteration.

    Attributes:
        initial: what it is before the first one.
        final: what it is after the last one, empty where nobody asks.
        before: the body's input; after: the body's output.
    """

    initial: str
    final: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A value of the body that is one part of a value outside.

    Attributes:
        inner: inside the body.
        outer: outside, with one more dimension in front; empty where nobody asks.
        backward: whether the last part comes first.
    """

    inner: str
    outer: str
    backward: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """The operands of a scan.

    Attributes:
        count: number of iterations.
        states: values handed on.
        read: slices that the body reads; written: those that it makes.
        invariants: (inner, outer) of what every iteration reads.
    """

    count: int
    states: tuple[ScanState, ...]
    read: tuple[Slice, ...]
    written: tuple[Slice, ...]
    invariants: tuple[tuple[str, str], ...]


def scan_of(node: Node, body: Graph, types: Mapping[str, TensorType]) -> Scan:
    """Pairs a node's operands with the inputs and outputs of its body, as planned."""
    a: ScanAttributes = node.attributes
    states, end = a.num_states, a.num_states + a.num_scan_inputs
    inputs, outputs = body.inputs, body.outputs
    made = (*node.outputs, *([""] * (len(outputs) - len(node.outputs))))
    return Scan(
        scan_length(call_of(node, types)),
        tuple(
            ScanState(*each)
            for each in zip(
                node.inputs[:states], made[:states], inputs[:states], outputs[:states], strict=True
            )
        ),
        _slices(inputs[states:end], node.inputs[states:end], a.input_directions),
        _slices(outputs[states:], made[states:], a.output_directions),
        tuple(zip(inputs[end:], node.inputs[end:], strict=True)),
    )


def _slices(
    inner: tuple[str, ...], outer: tuple[str, ...], directions: tuple[int, ...]
) -> tuple[Slice, ...]:
    return tuple(
        Slice(name, value, bool(backward))
        for name, value, backward in zip(inner, outer, directions, strict=True)
    )
