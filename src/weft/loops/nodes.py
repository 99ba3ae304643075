"""Kernel: one fused group as loops over buffers.  The whole grammar is on this page.

    kernel  = Kernel(name, params: Buffer*, body: stmt*)
    stmt    = For(var, start, stop, body: stmt*, kind)
            | Store(buffer, index*, value)
            | If(condition, then: stmt*, otherwise: stmt*)
            | Local(buffer: Buffer, body: stmt*)
            | Prefetch(buffer, index*)
            | Instruct(name, window*)
    expr    = Const(value, dtype) | Var(name) | Load(buffer, index*, dtype)
            | Unary(op, x) | Binary(op, lhs, rhs) | Select(condition, then, otherwise)
            | Cast(dtype, x) | Bits(dtype, x) | Reduce(op, axes, value)
    kind    = serial | unroll | vector | parallel | grid

Meaning, which the interpreter defines and everything else must agree with:

- Index expressions are ``i64``; a ``Var`` is always ``i64``.
- ``Select`` evaluates only the chosen side, so a load in it may be guarded by it.
- ``min(a, b)`` is ``b if b < a else a`` and ``max(a, b)`` is ``b if a < b else a``:
  a NaN on the left stays, a NaN on the right is passed over.
- ``floordiv`` and ``mod`` round towards minus infinity (Python's), ``div`` of integers
  truncates towards zero and ``fmod`` takes the sign of the dividend (C's).
  Integer arithmetic wraps.  ``shl`` and ``shr`` by the width of the type or more give 0.
- Comparisons give ``bool``; ``and``, ``or``, ``xor`` and ``not`` are logical on ``bool``
  and bitwise on integers.  ``round`` rounds half to even.
- Arithmetic on ``f16`` and ``bf16`` is done in ``f32`` and rounded at every operation.
- A ``vector`` loop has a constant extent (its lanes); its iterations, like those of
  ``parallel`` and ``grid`` loops, may run in any order or at once.
- ``Local`` gives uninitialised storage that lives during its body (registers or stack);
  a shape of ``()`` is a scalar temporary.
- ``Prefetch`` changes nothing: it says that an element will be loaded soon.
- ``Instruct`` means the loops of its instruction's row (``weft.loops.instruction``).
- ``Bits`` takes the bits of a number for one of another type of the same size: ``f32`` and
  the 32-bit integers, ``f64`` and the 64-bit ones.
- ``Reduce`` appears in definitions only (``weft.loops.definition``), never in a kernel.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from math import prod
from typing import TypeAlias

from weft.dtypes import DType
from weft.loops.values import value

FUNCTIONS = frozenset(
    "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc".split()
)
UNARY_OPS = FUNCTIONS | frozenset("neg abs sign not floor ceil round trunc isnan isinf".split())
COMPARISONS = frozenset("eq ne lt le gt ge".split())
BINARY_OPS = (
    frozenset("add sub mul div floordiv mod fmod pow min max and or xor shl shr".split())
    | COMPARISONS
)
REDUCTIONS = frozenset("sum prod min max and or".split())


@value
class Const:
    """A literal of a given type."""

    value: int | float | bool
    dtype: DType


@value
class Var:
    """A loop variable (``i64``)."""

    name: str


@value
class Load:
    """An element of a buffer; ``dtype`` is the buffer's."""

    buffer: str
    index: tuple[Expr, ...]
    dtype: DType


class Operation:
    """A value of operands that are all computed, whatever their values are."""

    __slots__ = ()


@value
class Unary(Operation):
    """One of ``UNARY_OPS``."""

    op: str
    x: Expr


@value
class Binary(Operation):
    """One of ``BINARY_OPS``; both sides have the same type (``shl``/``shr`` included)."""

    op: str
    lhs: Expr
    rhs: Expr


@value
class Select:
    """``then if condition else otherwise``; only the chosen side is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Conversion(Operation):
    """``x`` as a value of another type; arithmetic is that of the new type from here on."""

    __slots__ = ()
    dtype: DType
    x: Expr


@value
class Cast(Conversion):
    """Conversion with C's rules (float to integer truncates; to bool is ``!= 0``)."""

    dtype: DType
    x: Expr


@value
class Bits(Conversion):
    """The bits of a number taken for one of another type of the same size, 4 or 8 bytes."""

    dtype: DType
    x: Expr


@value
class Axis:
    """An index variable and its range ``0 <= var < extent``."""

    var: str
    extent: int


@value
class Reduce:
    """``op`` over all points of ``axes``, in row-major order; definitions only.

    The accumulator has the type of ``value`` and starts at the op's neutral element
    (for ``min``/``max`` the largest/smallest value of the type, infinities for floats).
    """

    op: str
    axes: tuple[Axis, ...]
    value: Expr


Expr: TypeAlias = Const | Var | Load | Unary | Binary | Select | Cast | Bits | Reduce


class LoopKind(Enum):
    """How the iterations of a loop are run."""

    __hash__ = object.__hash__  # at once, where an enumeration's is a call that hashes the name

    SERIAL = "serial"
    UNROLL = "unroll"
    VECTOR = "vector"
    PARALLEL = "parallel"
    GRID = "grid"


class Access(Enum):
    """What a kernel does with a parameter."""

    __hash__ = object.__hash__

    READ = "read"
    WRITE = "write"
    SCRATCH = "scratch"
    LOCAL = "local"


@value
class Buffer:
    """A multi-dimensional window on memory.

    Attributes:
        name: a C identifier.
        dtype: element type.
        shape: physical extents, outermost first.
        access: what the kernel does with it.
        strides: elements between neighbours in each dimension; ``None`` is packed
            row-major.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    access: Access = Access.READ
    strides: tuple[int, ...] | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements, given or row-major."""
        if self.strides is not None:
            return self.strides
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


@value
class For:
    """``for var in range(start, stop)``; empty when ``stop <= start``."""

    var: str
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    kind: LoopKind = LoopKind.SERIAL


@value
class Store:
    """``buffer[index] = value``."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr


@value
class If:
    """Runs one of two blocks."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@value
class Local:
    """Storage that lives while ``body`` runs."""

    buffer: Buffer
    body: tuple[Stmt, ...]


@value
class Prefetch:
    """Says that the memory around an element will be loaded soon.

    The index is in bounds, or steps past the end of a dimension onto another element.
    """

    buffer: str
    index: tuple[Expr, ...]


@value
class Instruct:
    """One use of an instruction on windows of buffers.

    A window is written as the load of its first element; it extends along the last
    dimensions of the buffer, as far as the instruction's operand has dimensions.  The first
    operand is stored to, and may be loaded, too; the others are only loaded.
    """

    name: str
    operands: tuple[Load, ...]


Leaf: TypeAlias = Prefetch | Instruct
"""Statements that ``weft.loops.instruction.expanded`` writes with the others."""
Stmt: TypeAlias = For | Store | If | Local | Prefetch | Instruct


@value
class Kernel:
    """A function over buffers.

    Attributes:
        name: a C identifier.
        params: the buffers.
        body: what it does.
        simple: whether it was simplified (``weft.loops.simplify``), which is not done again.
    """

    name: str
    params: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    simple: bool = field(default=False, compare=False, repr=False)

    def with_body(self, body: tuple[Stmt, ...]) -> Kernel:
        """The same function doing something else, which may not be simple."""
        return replace(self, body=body, simple=False)
