"""Subgraphs of LiteRT into nodes of Weft, operator by operator.

An operator that no row imports, or that its row refuses, is noted, and the import goes on
without its outputs: one pass tells of all such operators.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from math import prod
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.emit import Tensor
from weft.frontends.litert.model import ModelInfo, OperatorInfo, SubgraphInfo, TensorInfo
from weft.frontends.litert.naming import operator_names, scope_of, shortest
from weft.frontends.litert.reading import elements, undamaged
from weft.frontends.litert.record import (
    COMPLEX,
    Complex,
    Emit,
    Function,
    Kind,
    Made,
    Resource,
    Row,
    Value,
)
from weft.ir.graph import Origin
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.records import dataclass

MOST_DEPTH = 16
MOST_OPERATORS = 20_000
"""Operators in loops and subgraphs beyond those of the file, each as often as it is run."""
MOST_NUMBERS = 1 << 16
"""In an option."""
_SLACK = 64 << 20
_MOST_INITIAL = 1 << 22


@dataclass(frozen=True)
class Refusal:
    """Why an operator cannot be imported."""

    name: str
    operator: str
    where: str
    reason: str


@dataclass
class Variable:
    """A value that a run hands to the next one.

    Attributes:
        port: the graph's input that brings it; ``None`` while nothing reads it.
        value: its value after the operators so far.
        initial: before the first run; zeros if not given.
        assigned: whether an operator changes it.
    """

    port: Tensor | None = None
    value: Tensor | None = None
    initial: np.ndarray | None = None
    assigned: bool = False


@dataclass
class Frame:
    """A use of a subgraph: its values by tensor; those that are missing were refused."""

    graph: SubgraphInfo
    names: Sequence[str]
    values: dict[int, Value] = field(default_factory=dict[int, Value])


class Importer:
    """Imports the subgraphs of a file.

    Args:
        model: the file.
        name: of the graph.
        table: rows by the names of operators.
        float_activations: whether layers whose weights alone are integers compute in float.
    """

    def __init__(
        self,
        model: ModelInfo,
        name: str,
        table: Mapping[str, Row],
        *,
        float_activations: bool = False,
    ) -> None:
        self.table = table
        self.model = model
        self.builder = GraphBuilder(OPS, name)
        self.emit = Emit(
            self.builder,
            float_activations=float_activations,
            limit=16 * model.size + _SLACK,
            importer=self,
        )
        self.refusals: list[Refusal] = []
        self.variables: dict[str, Variable] = {}
        self.initializing = False
        self.depth = 0
        self.scope = scope_of(model.subgraphs[0])
        self.left = MOST_OPERATORS + sum(len(each.operators) for each in model.subgraphs)
        with undamaged():
            self.initializers = frozenset(
                each.options.InitSubgraphIndex()
                for graph in model.subgraphs
                for each in graph.operators
                if each.name == "CALL_ONCE" and hasattr(each.options, "InitSubgraphIndex")
            )
        self._constants: dict[Any, Tensor] = {}
        self._numbers: dict[Any, Tensor] = {}
        self.tensors: dict[str, int] = {}
        self.meanings: dict[str, TensorInfo] = {}

    # --- values -------------------------------------------------------------------------------

    def frame(self, index: int) -> Frame:
        """A use of a subgraph, to be run."""
        if not 0 <= index < len(self.model.subgraphs):
            self.emit.refuse(f"subgraph {index} must exist")
        graph = self.model.subgraphs[index]
        return Frame(graph, operator_names(graph))

    def constant(self, info: TensorInfo) -> Tensor:
        """A constant of the file; those of the same elements are one."""
        key = (info.buffer, info.kind, info.shape)
        if key not in self._constants:
            wish = _wish(info.name, self.scope)
            self._constants[key] = self.emit.constant(elements(info), wish)
        return self._constants[key]

    def value(self, frame: Frame, index: int) -> Value | None:
        """A tensor as it is stored; ``None`` if what makes it was refused."""
        if index in frame.values:
            return frame.values[index]
        info = frame.graph.tensors[index]
        if info.variable:
            return self.variable(f"{info.name or 'state'}", info)
        if info.data is not None or 0 in info.shape:
            return self.constant(info)
        return None

    def variable(self, name: str, info: TensorInfo) -> Tensor:
        """The value of a variable."""
        found = self.variables.setdefault(name, Variable())
        if found.value is None:
            if info.dtype is None:
                self.emit.refuse(f"a variable of {info.kind} is not supported")
            if found.initial is None and info.quantization is not None:
                zero = info.quantization.zero_point
                if zero.any() and prod(info.shape) > _MOST_INITIAL:
                    self.emit.refuse("a variable must not be so large")
                if zero.any():
                    found.initial = np.full(info.shape, zero[0], info.dtype.numpy)
            if self.initializing:
                self.emit.refuse("a variable must be given a constant before the first run")
            port = self.builder.input(
                f"state/{_wish(name, self.scope)}", TensorType(info.dtype, info.shape)
            )
            found.port = found.value = self.emit.of(port)
            if found.initial is not None and found.initial.any():
                found.value = self._begun(found.value, found.initial)
        return found.value

    def _begun(self, value: Tensor, initial: np.ndarray) -> Tensor:
        """A state that does not begin as zeros: they count before the first run is over."""
        flag = self.variables.setdefault("started", Variable())
        if flag.port is None:
            port = self.builder.input("state/started", TensorType(DType.BOOL, (1,)))
            flag.port = self.emit.of(port)
            flag.assigned = True
            self.emit.base = "started"
            # Not a constant: an output is made by a node.
            flag.value = self.emit("Or", flag.port, self.emit.constant(np.ones(1, np.bool_)))
        if initial.shape != value.shape:
            self.emit.refuse(f"a variable of {value.type} begins as {list(initial.shape)}")
        given = self.emit.constant(np.ascontiguousarray(initial), f"{value.name}/initial")
        return self.emit("Where", flag.port, value, given)

    def assigns(self) -> bool:
        """Whether operators outside of the initialization assign variables."""
        return any(
            each.name == "ASSIGN_VARIABLE" and graph.index not in self.initializers
            for graph in self.model.subgraphs
            for each in graph.operators
        )

    def assign(self, name: str, value: Tensor) -> None:
        """Gives a variable its next value."""
        found = self.variables.setdefault(name, Variable())
        if self.initializing:
            array = self.emit.array(value)
            if array is None:
                self.emit.refuse("a variable must be given a constant before the first run")
            found.initial = array
            return
        if found.port is not None and found.port.type != value.type:
            self.emit.refuse(f"a variable must keep its type {found.port.type}, got {value.type}")
        found.value, found.assigned = value, True

    # --- operators ----------------------------------------------------------------------------

    def run(self, frame: Frame) -> list[Value | None]:
        """Imports a subgraph's operators; its outputs."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.depth -= 1
            self.emit.refuse(f"subgraphs must call each other at most {MOST_DEPTH} deep")
        try:
            for operator in frame.graph.operators:
                self._operator(frame, operator)
            return [self.value(frame, index) for index in frame.graph.outputs]
        finally:
            self.depth -= 1

    def _operator(self, frame: Frame, operator: OperatorInfo) -> None:
        self.left -= 1
        if self.left < 0:
            raise UserError(f"loops must run at most {MOST_OPERATORS:,} operators")
        emit = self.emit
        outer = (emit.base, emit.operator, emit.taken, emit.given, emit.raw, self.builder.origin)
        graph = frame.graph
        emit.base, emit.operator = frame.names[operator.index], operator
        emit.taken = tuple(graph.tensors[at] if at >= 0 else None for at in operator.inputs)
        emit.given = tuple(graph.tensors[at] for at in operator.outputs)
        emit.inside = tuple(graph.tensors[at] for at in operator.intermediates)
        sources = tuple(each.name for each in emit.given if each.name)
        self.builder.origin = Origin(sources or (operator.name,))
        count = len(self.builder.nodes)
        try:
            with undamaged():
                self._import(frame, operator)
        except UserError as error:
            del self.builder.nodes[count:]
            reason = error.rule + (f"; got {error.got}" if error.got else "")
            where = f"operator {operator.index} of subgraph {graph.index}"
            self.refusals.append(Refusal(emit.base, operator.name, where, reason))
        (emit.base, emit.operator, emit.taken, emit.given, emit.raw, self.builder.origin) = outer

    def _import(self, frame: Frame, operator: OperatorInfo) -> None:
        values = [self.value(frame, at) if at >= 0 else None for at in operator.inputs]
        of_complex = any(isinstance(each, Complex) for each in values)
        row = complex_row_of(operator) if of_complex else row_of(operator, self.table)
        for value, at in zip(values, operator.inputs, strict=True):
            if value is None and at >= 0:
                if not self.refusals:
                    self.emit.refuse(f"tensor {at} must be made before it is read")
                return  # what makes it was refused, which is told already
        self.emit.raw = tuple(each if isinstance(each, Tensor) else None for each in values)
        stored = row.kind is Kind.RAW or (row.kind is Kind.STORED and _alike(self.emit))
        if not stored:
            values = [
                self._as_numbers(value, info)
                for value, info in zip(values, self.emit.taken, strict=True)
            ]
        options = _options(row.function, operator)
        _check_inputs(row.function, len(values))
        made = row.function(self.emit, *values, **options)
        found = _each(made)
        if len(found) < len(operator.outputs):
            self.emit.refuse(f"it has {len(operator.outputs)} outputs, and gives {len(found)}")
        for index, value, info in zip(operator.outputs, found, self.emit.given, strict=False):
            if isinstance(value, Tensor):
                value = value if stored else self.emit.quantized(value, info)
                if info.dtype is not None and value.dtype != info.dtype:
                    self.emit.refuse(f"it gives {value.type}, and the file says {info.kind}")
                if self.depth == 1:
                    self.tensors[value.name] = index
            frame.values[index] = value

    def _as_numbers(self, value: Value | None, info: TensorInfo | None) -> Value | None:
        """A value dequantized; once for each."""
        if not isinstance(value, Tensor) or info is None or info.quantization is None:
            return value
        if not value.dtype.is_integer:
            return value
        meaning = info.quantization
        key = (value.name, meaning.scale.tobytes(), meaning.zero_point.tobytes(), meaning.axis)
        if key not in self._numbers:
            self._numbers[key] = self.emit.dequantized(value, meaning)
            if self.depth == 1:
                self.meanings[self._numbers[key].name] = info
        return self._numbers[key]


def _wish(name: str, scope: str) -> str:
    """The short name of a constant or variable."""
    part = name.split(";")[-1].removeprefix(scope)
    return shortest(re.sub(r"/ReadVariableOp(/resource)?|:\d+$", "", part)) or "constant"


def _each(made: Made) -> list[Value]:
    if made is None:
        return []
    return [made] if isinstance(made, Tensor | Resource | Complex) else list(made)


def _alike(emit: Emit) -> bool:
    """Whether all that an operator reads and makes is quantized in the same way."""
    infos = [each for each in (*emit.taken, *emit.given) if each is not None]
    found = [each.quantization for each in infos if each.quantization is not None]
    floats = any(each.dtype is not None and each.dtype.is_float for each in infos)
    return not found or (not floats and all(each == found[0] for each in found))


def row_of(operator: OperatorInfo, table: Mapping[str, Row]) -> Row:
    """The row that imports an operator.

    Raises:
        UserError: there is none.
    """
    if operator.custom:
        kind = "a TensorFlow (flex) operator" if operator.name.startswith("Flex") else "custom"
        raise UserError(f"{operator.name} is {kind}, which Weft does not know")
    row = table.get(operator.name)
    if row is None:
        raise UserError(f"{operator.name} is not supported")
    return row


def complex_row_of(operator: OperatorInfo) -> Row:
    """The row that imports an operator that takes complex numbers.

    Raises:
        UserError: there is none.
    """
    row = COMPLEX.get(operator.name)
    if row is None:
        raise UserError(f"{operator.name} of complex numbers is not supported")
    return row


@cache
def _parameters(function: Function) -> tuple[int, float, Mapping[str, inspect.Parameter]]:
    """How few and how many inputs a row takes, and its options."""
    each = list(inspect.signature(function).parameters.values())[1:]
    inputs = [one for one in each if one.kind is one.POSITIONAL_OR_KEYWORD]
    least = sum(one.default is one.empty for one in inputs)
    endless = any(one.kind is one.VAR_POSITIONAL for one in each)
    most = float("inf") if endless else len(inputs)
    return least, most, {one.name: one for one in each if one.kind is one.KEYWORD_ONLY}


def _check_inputs(function: Function, count: int) -> None:
    least, most, _ = _parameters(function)
    if not least <= count <= most:
        raise UserError(f"it takes {least} to {most} inputs", got=str(count))


def _options(function: Function, operator: OperatorInfo) -> dict[str, Any]:
    """The options that a row asks for, by name."""
    found: dict[str, Any] = {}
    for name, parameter in _parameters(function)[2].items():
        attribute = "".join(part.capitalize() for part in name.split("_"))
        options = operator.options
        if options is not None and hasattr(options, f"{attribute}AsNumpy"):
            empty = getattr(options, f"{attribute}IsNone")()
            array = np.zeros(0, np.int64) if empty else getattr(options, f"{attribute}AsNumpy")()
            if len(array) > MOST_NUMBERS:
                rule = f"the option {name} has at most {MOST_NUMBERS:,} numbers"
                raise UserError(rule, got=f"{len(array):,}")
            found[name] = tuple(array.tolist())
        elif options is not None and hasattr(options, attribute):
            found[name] = getattr(options, attribute)()
        elif parameter.default is parameter.empty:
            raise UserError(f"{operator.name} must have the option {name}")
    return found
