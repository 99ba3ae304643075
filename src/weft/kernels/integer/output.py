"""What kernels of integer contractions share: their constants, and what follows the sum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.integer.folding import foldable, folded, interval
from weft.kernels.integer.requantize import ROUNDING, requantized, rounding, saturated, undivided
from weft.kernels.integer.sums import IntegerContraction, constants_of
from weft.kernels.writer import for_lanes
from weft.loops.fixed_point import requantization_of, shifts
from weft.loops.instruction import Instruction, instruction
from weft.loops.nodes import Binary, Buffer, Cast, Const, Expr, Load, Stmt, Store, Var
from weft.loops.statements import rename_buffers, substitute_stmts
from weft.loops.walk import children, dtype_of, free_vars, loads, map_expr, with_children
from weft.plan.implementation import Folded, Operand
from weft.records import dataclass

ACCUMULATOR = "acc"
_I32 = DType.I32


def fits(found: IntegerContraction, row: Instruction) -> int | None:
    """What is added to activations so that they are of the instruction's type; ``None``: nothing.

    The weights must be of its type as they are.
    """
    sum, lhs, rhs = row.meaning.params
    if sum.dtype is not found.sums:
        return None
    low, high = interval(found.activation)
    first, last = lhs.dtype.limits
    lowest, highest = rhs.dtype.limits
    if found.weights.min() < lowest or found.weights.max() > highest:
        return None
    shift = 0 if first <= low and high <= last else first - low
    return shift if high + shift <= last else None


def beside(found: IntegerContraction) -> list[DType]:
    """Types of what outputs read beside their sums and constants, each once."""
    zero, task = Const(0, _I32), found.task
    rest = map_expr(task.compute.value, lambda node: zero if node == found.whole else node)
    read = {(load.buffer, load.dtype) for load in loads(rest)}
    return [dtype for name, dtype in sorted(read, key=str) if name not in task.constants]


def largest_sum(found: IntegerContraction) -> int:
    """What no sum exceeds in magnitude, its bias included."""
    largest = max(map(abs, interval(found.activation)))
    sums = np.abs(found.weights.astype(np.int64)).sum(1) * largest
    return int((sums + np.abs(found.bias.astype(np.int64))).max())


@dataclass
class IntegerOutput:
    """The outputs of a contraction as a function of its sums.

    Attributes:
        found: the contraction.
        start: what the sums of each channel begin with.
        sums: their type, if it is not the contraction's: ``f32`` where that holds all of them.
        held: their type.
        value: the definition of an output, with its sum in ``acc[]`` and what constants alone
            decide by channel read from arrays.
        arrays: these, with ``start``; kernels add their weights.
        inputs: buffers that activations and outputs read; values: what stands for them.
    """

    found: IntegerContraction
    start: np.ndarray
    sums: DType | None = None

    def __post_init__(self) -> None:
        self.held: DType = self.sums or self.found.sums
        self.arrays: dict[str, np.ndarray] = {"start": self.start.astype(self.held.numpy)}
        self.value = self._value()
        task = self.found.task
        read = {load.buffer for load in (*loads(self.found.activation), *loads(self.value))}
        chosen = [
            (buffer, Operand(value))
            for buffer, value in zip(task.inputs, task.values, strict=True)
            if buffer.name in read
        ]
        self.inputs = tuple(buffer for buffer, _ in chosen)
        self.values = tuple(operand for _, operand in chosen)

    def _value(self) -> Expr:
        found, constants = self.found, constants_of(self.found.task)
        sum = Load(ACCUMULATOR, (), self.held)
        seen: dict[Expr, str] = {}
        done: dict[int, Expr] = {}
        kept: set[Expr] = set()

        def fold(node: Expr) -> Expr:
            if id(node) not in done:
                done[id(node)] = visit(node)
            return done[id(node)]

        def visit(node: Expr) -> Expr:
            if node == found.whole:
                return sum if self.held is found.sums else Cast(found.sums, sum)
            if isinstance(node, Cast) and (node.dtype, node.x) == (self.held, found.whole):
                return sum
            if isinstance(node, Cast) and (made := requantization_of(node)) is not None:
                kept.update(shifts(made))
            constant = node not in kept and foldable(node, constants) and any(loads(node))
            if isinstance(node, Cast) and node.dtype.bytes > dtype_of(node.x).bytes:
                # What is made wider is kept narrow.
                constant = False
            if not constant or not free_vars(node) <= {found.channel.var}:
                return with_children(node, tuple(map(fold, children(node))))
            name = seen.setdefault(node, f"factor{len(seen)}")
            self.arrays[name] = np.ascontiguousarray(folded(node, (found.channel,), constants))
            dtype = DType.of(self.arrays[name].dtype)
            return Load(name, (Var(found.channel.var),), dtype)

        return fold(found.task.compute.value)

    def store(self, at: tuple[Expr, ...] = (), value: Expr | None = None) -> Stmt:
        """Stores the output of a position and a channel, whose sum is in ``acc[at]``.

        ``value`` is the definition, as something else than ``self.value`` has it.
        """
        task, value = self.found.task, value or self.value
        index = tuple(Var(axis.var) for axis in task.compute.axes)

        def place(node: Expr) -> Expr:
            return _placed(node, at)

        if instruction(ROUNDING).needs in task.target.features:
            made = requantized(value)
            if made is not None and self._fits(made.scaled):
                return replace(made, scaled=map_expr(made.scaled, place)).store(
                    task.output.name, index
                )
        return Store(task.output.name, index, map_expr(value, place))

    def lanes(
        self, width: int, sums: str, at: tuple[Expr, ...], places: Mapping[str, Expr]
    ) -> tuple[Stmt, ...]:
        """Stores the outputs of a vector's lanes.

        Args:
            width: how many.
            sums: the buffer that holds their sums.
            at: where that of ``LANE`` is.
            places: where the output of ``LANE`` is, by axis.
        """
        task = self.found.task
        row, made = rounding(task.target.features, width), saturated(self._undivided)
        if row is None or made is None or not self._fits(made.scaled):
            stmts: tuple[Stmt, ...] = (for_lanes(width, self.store(at, self._undivided)),)
        else:
            scaled = map_expr(made.scaled, lambda node: _placed(node, at))
            index = tuple(Var(axis.var) for axis in task.compute.axes)
            stmts = replace(made, scaled=scaled).lanes(row, width, task.output.name, index)
        return rename_buffers(substitute_stmts(stmts, places), {ACCUMULATOR: sums})

    @cached_property
    def _undivided(self) -> Expr:
        """The definition with products where it quantizes sums of bytes by quotients."""
        return undivided(self.value)

    def _fits(self, scaled: Expr) -> bool:
        """Whether a scaled sum is a number far inside of what ``i32`` holds."""
        most = self._most(scaled)
        return most is not None and most < 1 << 30

    def _most(self, value: Expr) -> float | None:
        """What a float does not exceed in magnitude, where that is easily told."""
        match value:
            case Const(value=number):
                return abs(float(number))
            case Load(name) if name in self.arrays:
                return float(np.abs(self.arrays[name]).max())
            case Cast(DType.F32, Load(buffer)) if buffer == ACCUMULATOR:
                total = largest_sum(self.found)
                return float(total) if total < 1 << 31 else None
            case Cast(DType.F32, x) if dtype_of(x).is_integer:
                return float(max(map(abs, interval(x))))
            case Binary("add" | "sub" | "mul" | "max" | "min" as op, lhs, rhs):
                left, right = self._most(lhs), self._most(rhs)
                if left is None or right is None:
                    return None
                return left * right if op == "mul" else left + right
            case Binary("div", lhs, Const(value=number)) if number:
                most = self._most(lhs)
                return None if most is None else most / abs(float(number))
            case _:
                return None

    def read_only(self, name: str) -> None:
        """Leaves a single input: what outputs read beside it is in arrays now."""
        kept = [at for at, each in enumerate(self.inputs) if each.name == name]
        self.inputs = tuple(self.inputs[at] for at in kept)
        self.values = tuple(self.values[at] for at in kept)

    # --- constants as parameters ----------------------------------------------------------------

    def buffers(self) -> tuple[Buffer, ...]:
        """The constants as parameters."""
        return tuple(
            Buffer(name, DType.of(array.dtype), array.shape) for name, array in self.arrays.items()
        )

    def operands(self, packed: Callable[[str, np.ndarray], np.ndarray]) -> tuple[Operand, ...]:
        """What stands for all parameters but the output, constants as ``packed`` lays them out."""
        task = self.found.task
        # Named after the weights, the largest of them.
        known = [each.name for each in task.inputs if each.name in task.constants]
        constant = max(known, key=lambda name: task.arrays[name].size)
        value, shape = task.value_of(constant), task.arrays[constant].shape
        arrays = [packed(name, array) for name, array in self.arrays.items()]
        made = (Operand(value, Folded(_digest(each), each, shape)) for each in arrays)
        return (*self.values, *made)


def _placed(node: Expr, at: tuple[Expr, ...]) -> Expr:
    """A sum where it is; anything else as it is."""
    is_sum = isinstance(node, Load) and node.buffer == ACCUMULATOR
    return replace(node, index=at) if is_sum else node


def _digest(array: np.ndarray) -> str:
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()
