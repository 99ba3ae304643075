"""What tells layers apart for whom kernels are chosen: everything but their names."""

from __future__ import annotations

from typing import assert_never

from weft.kernels.products.packed import encoded_products
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.nodes import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Conversion,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.walk import children
from weft.plan.choice import MAX_ROUNDING


def layer_key(task: Task) -> str:
    """A text that two tasks share exactly if the same kernels can compute both, as fast.

    It has the definition with all extents and the epilogue, types, shapes and strides of
    all buffers, which of them are constant, the target, the number of threads, whether the
    kernel must be exact, whether a norm measures the output, how much it may round, and which
    libraries it may call; no names of values.
    """
    lines = [definition_key(task)]
    products = encoded_products(task)
    if not isinstance(products, Refusal):
        # Weights decide which encodings apply, and how long decoding takes.
        lines += [each.encoding.key for each in products]
    lines += [f"libraries {' '.join(task.libraries)}"] if task.libraries else []
    return "\n".join(lines)


def definition_key(task: Task) -> str:
    """``layer_key`` without what weights decide, and without libraries."""
    target = task.target
    lines = [
        f"out {_axes(task.compute.axes)}",
        *_Numbered().all(task.compute.value),
        *(_buffer(buffer, buffer.name in task.constants) for buffer in task.inputs),
        _buffer(task.output, False),
        f"vectors {target.vector_bytes} registers {target.registers} flavour {target.flavour}",
        f"caches {' '.join(map(str, target.caches))}",
        f"threads {task.threads}{' exact' if task.exact else ''}",
        *(["measured"] if task.measured else []),
        *([f"encoding {task.encoding}"] if task.encoding else []),
        *([f"rounding {task.max_rounding}"] if task.max_rounding != MAX_ROUNDING else []),
        *([f"optimize {task.optimize}"] if task.optimize != "speed" else []),
    ]
    return "\n".join(lines)


def _axes(axes: tuple[Axis, ...]) -> str:
    return " ".join(f"{axis.var}:{axis.extent}" for axis in axes)


def _buffer(buffer: Buffer, constant: bool) -> str:
    shape = "x".join(map(str, buffer.shape))
    steps = " ".join(map(str, buffer.steps))
    return (
        f"{buffer.name} {buffer.dtype.value}[{shape}] by {steps}{' constant' if constant else ''}"
    )


class _Numbered:
    """Expressions as numbered lines: what is shared, which may be much, stands once."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.numbers: dict[int, int] = {}

    def all(self, value: Expr) -> list[str]:
        """The lines of an expression, its own last."""
        self.number(value)
        return [f"{number} = {line}" for line, number in self.lines.items()]

    def number(self, node: Expr) -> int:
        """The number of the line of an expression."""
        found = self.numbers.get(id(node))
        if found is None:
            parts = [_label(node), *(str(self.number(child)) for child in children(node))]
            found = self.lines.setdefault(" ".join(parts), len(self.lines))
            self.numbers[id(node)] = found
        return found


def _label(node: Expr) -> str:
    """What an expression is, but for its operands."""
    match node:
        case Const(value, dtype):
            return f"{value!r}:{dtype.value}"
        case Var(name):
            return name
        case Load(buffer, _, dtype):
            return f"{buffer}:{dtype.value}"
        case Binary(op) | Unary(op):
            return op
        case Cast(dtype):
            return f"to {dtype.value}"
        case Conversion():
            return f"{type(node).__name__.lower()} as {node.dtype.value}"
        case Select():
            return "select"
        case Reduce(op, axes):
            return f"{op} over {_axes(axes)}"
        case _:
            assert_never(node)
