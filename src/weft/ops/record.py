"""The record that holds all there is to know of an op.

An op is one ``Op`` in the table of its family's file.  How it is computed is exactly one
of ``Define`` (an index expression), ``Expand`` (a small graph of other ops), ``Extern``
(a C body) and ``Control`` (runs a body graph); what its derivative is, a function or
``NoGrad`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from dataclasses import replace as changed
from typing import Any, Protocol, TypeAlias

import numpy as np

from weft.errors import UserError
from weft.ir.foreign import NOTHING_FOREIGN, Foreign
from weft.ir.graph import Attributes, Graph
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr, Load
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Param:
    """A formal input or output.

    Attributes:
        name: as ONNX calls it, lower case (``x``, ``w``, ``b``).
        optional: may be absent.
        variadic: stands for any number of inputs; only the last may.
        role: what generated code calls it where that says more (``filter``).
    """

    name: str
    optional: bool = False
    variadic: bool = False
    role: str = ""


@dataclass(frozen=True)
class Call:
    """One use of an op, as its functions are asked about it.

    Attributes:
        op: the op's name, for errors.
        attributes: the node's attribute record.
        inputs: types of the inputs in order; ``None`` where absent.
        outputs: how many outputs the node has (for ops with a variable number).
        where: the place in the model, for errors (``node /stem/conv``).
    """

    op: str
    attributes: Any
    inputs: tuple[TensorType | None, ...]
    outputs: int = 1
    where: str = ""

    def type(self, position: int) -> TensorType:
        """Type of a present input; a ``UserError`` if it is absent."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if found is None:
            raise self.error(f"input {position} is required", got="none")
        return found

    def has(self, position: int) -> bool:
        """Whether the input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def load(self, position: int, *index: Expr) -> Load:
        """An element of an input, for definitions: reads the buffer ``inN``."""
        return Load(f"in{position}", index, self.type(position).dtype)

    def error(self, rule: str, *, got: str = "", fix: str = "") -> UserError:
        """A ``UserError`` that names the op and the place."""
        name = self.op.lower()
        if not got:
            got = ", ".join(str(each) for each in self.inputs if each is not None)
        return UserError(f"{name}: {rule}", got=got, fix=fix, where=self.where)


@dataclass(frozen=True, slots=True)
class Define:
    """Computed by an index expression for each output; reads ``in0``, ``in1``, ..."""

    function: Callable[[Call], tuple[Compute, ...]]


class Builder(Protocol):
    """What an expansion adds nodes to; ``GraphBuilder`` describes its members."""

    ops: Mapping[str, Op]
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]

    def input(self, name: str, type: TensorType) -> str:
        """Adds an input of the graph."""
        ...

    def constant(self, array: np.ndarray, name: str = "constant") -> str:
        """Adds a constant."""
        ...

    def op(
        self, op: str, *inputs: str, attributes: Any = None, output: str = "", name: str = ""
    ) -> str:
        """Adds a node with one output."""
        ...

    def nodes_of(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Any = None,
        *,
        outputs: Sequence[str] | int = 1,
    ) -> tuple[str, ...]:
        """Adds a node with any number of outputs."""
        ...

    def graph(self, outputs: Sequence[str]) -> Graph:
        """What was built so far, with these outputs."""
        ...


@dataclass(frozen=True, slots=True)
class Expand:
    """Computed by other ops: adds nodes to the builder, returns the outputs' names.

    The inputs are value names of the builder's graph, ``""`` where absent.
    """

    function: Callable[[Call, Builder, tuple[str, ...]], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ExternBody:
    """The body of a C function with parameters ``in0``.., ``out0``.. and ``scratch``.

    Sizes are literals in the text: it is written for one use.  The pointers have the C
    types of the inputs and outputs (``const`` for inputs); packed row-major.

    Attributes:
        body: statements, C89 (declarations first), no allocation, no statics.
        scratch_bytes: size of ``scratch`` (``unsigned char *``, 64-byte aligned).
        stack_bytes: a bound on what it takes of the stack.
        foreign: what it calls.
        prepare: a function ``int f(void)`` of ``foreign`` that must have returned 0 before.
    """

    body: str
    scratch_bytes: int = 0
    stack_bytes: int = 1024
    foreign: Foreign = NOTHING_FOREIGN
    prepare: str = ""


@dataclass(frozen=True, slots=True)
class Extern:
    """Computed by a C body, for what is not a loop nest.

    Attributes:
        function: gives the body.
        along_axis: elements of the first input meet along the attribute ``axis`` alone, or not
            at all where there is none; index expressions say so of themselves.
    """

    function: Callable[[Call], ExternBody]
    along_axis: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """Runs a body graph held in the attributes (``Scan``); planned as a nested plan."""

    body: str = "body"


Computation: TypeAlias = Define | Expand | Extern | Control


@dataclass(frozen=True, slots=True)
class NoGrad:
    """There is no derivative, and why."""

    why: str


WITH_AUTODIFF = NoGrad("gradients come with autodiff")

Infer: TypeAlias = Callable[[Call], tuple[TensorType, ...]]
Implied: TypeAlias = Callable[[Call], Any]
"""``implied(call) -> value``: what an attribute is that was not given; asked of sound calls."""
Reference: TypeAlias = Callable[..., Sequence[np.ndarray]]
"""``reference(call, *inputs) -> outputs``: NumPy arrays, ``None`` for absent inputs."""
Grad: TypeAlias = Callable[..., tuple[str, ...]]
"""``grad(call, builder, inputs, outputs, gradients) -> input gradients``: value names of the
builder's graph; ``gradients`` are those of the present outputs, and a gradient that is zero or
does not exist is ``""``."""


@dataclass(frozen=True)
class Op:
    """All there is to know of an op.

    Attributes:
        name: ONNX's name wherever ONNX has the operation.
        infer: types of the outputs, with the error wording.
        reference: the oracle, in NumPy.
        compute: how it is computed.
        doc: one sentence for the reference pages.
        inputs: formal inputs; outputs: formal outputs.
        grad: how its inputs' gradients are built, or why there are none.
        attributes: the attribute class.
        implied: by name, what attributes are that were not given (``None``, ``()``, 0), where
            ranks, weights or other attributes decide it.  Nodes hold these values, so that
            queries and rules need not know of defaults.  What follows the sizes and element
            types of the data stays open: it is to follow them when they change.
        domain: the ONNX operator set of nodes that mean this op, for an op that the ONNX
            standard does not have; without one, no ONNX file can hold it.
        onnx_name: what ONNX files call it; its name if that is not given.
        rounding: whose rounding of quantized values it has: ``onnx`` or ``litert``, or neither.
    """

    name: str
    infer: Infer
    reference: Reference
    compute: Computation
    doc: str
    inputs: tuple[Param, ...] = field(default=(Param("x"),))
    grad: Grad | NoGrad = WITH_AUTODIFF
    attributes: type = Attributes
    outputs: tuple[Param, ...] = field(default=(Param("y"),))
    implied: Mapping[str, Implied] = field(default_factory=dict[str, Implied], hash=False)
    domain: str = ""
    onnx_name: str = ""
    rounding: str = ""

    def resolved(self, call: Call) -> Any:
        """The attributes of a call as a node holds them: what is implied filled in."""
        given = call.attributes
        missing = [name for name in self.implied if not getattr(given, name)]
        found = {name: self.implied[name](call) for name in missing}
        new = {name: value for name, value in found.items() if value != getattr(given, name)}
        return changed(given, **new) if new else given
