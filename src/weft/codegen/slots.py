"""Where the elements of a buffer live in C: memory, an array, or named registers."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

from weft.codegen.linear import ZERO, LinearAddress, scaled
from weft.codegen.naming import STORAGE
from weft.codegen.value import CValue
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import Access, Buffer
from weft.loops.python_arithmetic import HALVES
from weft.records import dataclass

"""Types that are held as ``float`` outside memory."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The home of a buffer.

    Attributes:
        buffer: the buffer.
        name: its C name (prefix of the names of registers).
        prefix: how many leading dimensions are part of a name: ``acc_0_3``.
        lanes: length of the vector that a register holds, 0 for none; the last dimension is
            then cut into vectors.
        private: whether each lane of the vector loop around has one.
        given: strides of a parameter that is told some of them.
    """

    buffer: Buffer
    name: str
    prefix: int = 0
    lanes: int = 0
    private: bool = False
    given: tuple[int | CValue, ...] = ()

    @property
    def local(self) -> bool:
        """Whether this is a local of the function, not a parameter."""
        return self.buffer.access is Access.LOCAL

    @property
    def constant(self) -> bool:
        """Whether this is a parameter that is only read."""
        return self.buffer.access is Access.READ

    @property
    def registers(self) -> bool:
        """Whether every element (or vector of elements) has a name of its own."""
        if not self.local:
            return False
        return self.prefix == len(self.buffer.shape) or bool(self.lanes)

    @property
    def dtype(self) -> DType:
        """The type that elements are held as; 16-bit floats are held unpacked in registers."""
        if self.buffer.dtype in HALVES and (self.registers or self.private):
            return DType.F32
        return self.buffer.dtype

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return STORAGE[self.dtype]

    def register(self, point: tuple[int, ...]) -> str:
        """The name of the register with these coordinates."""
        return "_".join([self.name, *map(str, point)])

    def points(self) -> list[tuple[int, ...]]:
        """Coordinates of all named parts."""
        extents = list(self.buffer.shape[: self.prefix])
        if self.chunks > 1:
            extents.append(self.chunks)
        return list(product(*map(range, extents)))

    @property
    def chunks(self) -> int:
        """How many vectors the last dimension is cut into."""
        return self.buffer.shape[-1] // self.lanes if self.lanes and not self.private else 1

    @property
    def inner(self) -> int:
        """Elements of the array that each name stands for, if it is an array."""
        size = 1
        for extent in self.buffer.shape[self.prefix :]:
            size *= extent
        return size


Place: TypeAlias = tuple[str, LinearAddress | None]
"""A C name and, for memory and arrays, the element's offset."""


def place(slot: Slot, index: list[LinearAddress]) -> Place:
    """The element at ``index``; of a vector register, the vector and the lane's offset."""
    if not slot.local:
        return slot.name, flatten(index, slot.given or slot.buffer.steps)
    point = tuple(_constant(slot, each) for each in index[: slot.prefix])
    if slot.private:
        return slot.register(point), None
    if slot.lanes:
        last = index[-1]
        chunk, lane = divmod(last.const, slot.lanes)
        point = (*point, chunk) if slot.chunks > 1 else point
        return slot.register(point), LinearAddress(lane, last.terms)
    if slot.registers:
        return slot.register(point), None
    shape = slot.buffer.shape[slot.prefix :]
    steps = Buffer("", slot.buffer.dtype, shape).steps
    return slot.register(point), flatten(index[slot.prefix :], steps)


def flatten(index: list[LinearAddress], steps: tuple[int | CValue, ...]) -> LinearAddress:
    """The offset in elements."""
    total = ZERO
    for each, step in zip(index, steps, strict=True):
        total = total.plus(each, step) if isinstance(step, int) else total.plus(scaled(each, step))
    return total


def _constant(slot: Slot, index: LinearAddress) -> int:
    value = index.constant
    if value is None:
        raise InternalError(f"an index of the registers {slot.name} is not constant")
    return value
