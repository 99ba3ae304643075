"""Kernels in C and C++ that users bring: for an op, behind a declared signature.

A kernel stands in the op table as an op of its own, which is computed by a call of the user's
function (``weft.ops.record.Extern``); ``weft.rewrite.natives`` puts it where it applies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatch
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.foreign import Foreign
from weft.ir.types import TensorType
from weft.ops.ctext import C_TYPES
from weft.ops.record import Call, Extern, ExternBody, NoGrad, Op
from weft.records import dataclass

_FUNCTION = re.compile(r"\s*void\s+([A-Za-z_]\w*)\s*\(([^()]*)\)\s*;?\s*")
_POINTER = re.compile(r"(const\s+)?([a-z]\w*(?:\s+char)?)\s*\*\s*([A-Za-z_]\w*)")
_VALUE = re.compile(r"(int|long|float|double|size_t|u?int(?:8|16|32|64)_t)\s+([A-Za-z_]\w*)")
_TENSOR = re.compile(r"(in|out)(\d+)")
_SUFFIXES = frozenset(".c .cc .cpp .cxx .h .hh .hpp .hxx .inc .o .a".split())
# The half types have no C type; their bits are passed.
_STORED: Mapping[DType, str] = {**C_TYPES, DType.F16: "uint16_t", DType.BF16: "uint16_t"}

Number: TypeAlias = Callable[[Call], int | float]
Condition: TypeAlias = Callable[[Call], str | None]


@dataclass(frozen=True, slots=True)
class NativeParameter:
    """A parameter of a kernel's function.

    Attributes:
        name: ``in0``, ``out0``, ``scratch`` or one of the kernel's values.
        ctype: of the elements or the value.
        pointer: whether it is a tensor or scratch memory.
        const: whether it is only read.
    """

    name: str
    ctype: str
    pointer: bool
    const: bool

    def __str__(self) -> str:
        star = " *" if self.pointer else " "
        return f"{'const ' if self.const else ''}{self.ctype}{star}{self.name}"

    @property
    def tensor(self) -> tuple[str, int] | None:
        """``in`` or ``out`` and the position, if it is a tensor."""
        found = _TENSOR.fullmatch(self.name) if self.pointer else None
        return (found[1], int(found[2])) if found else None


def _everywhere(_: Call) -> None:
    """The condition of a kernel that its signature says all about."""
    return


@dataclass(frozen=True)
class Native:
    """A function in C or C++ that computes an op.

    Attributes:
        op: the op's name.
        signature: as C declares it: ``void f(const float *in0, float *out0, int count)``.
            ``inN`` and ``outN`` are the op's inputs and outputs, whose element types must be
            these (absent inputs are null); ``unsigned char *scratch`` is memory to work in;
            everything else is in ``values``.  A function in C++ must be ``extern "C"``.
        files: paths of sources, headers, objects and static libraries.
        doc: one sentence for the reference pages.
        values: what is passed for the other parameters of a call of the op.
        layouts: the order in which the axes of a tensor lie in memory where it is not that of
            the op: ``{"in0": (0, 2, 3, 1)}`` for channels last.  Weft moves the elements.
        where: a sentence that says why not, for a call that it does not compute.
        targets: names of targets that it is for, ``*`` standing for any text; all if empty.
        exact: whether it rounds as the op's definition does, sums in another order apart;
            otherwise it is left out where users ask for that.
        scratch: bytes of scratch memory that a call needs.
        stack_bytes: a bound on what the function takes of the stack.
        flags: for compiling the sources.
        link: flags for linking (``-lstdc++`` for a static library that was C++).
    """

    op: str
    signature: str
    files: tuple[Traversable, ...]
    doc: str
    values: Mapping[str, Number] = field(default_factory=dict[str, Number])
    layouts: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    where: Condition = _everywhere
    targets: tuple[str, ...] = ()
    exact: bool = True
    scratch: Callable[[Call], int] | None = None
    stack_bytes: int = 1024
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    symbol: str = field(init=False)
    parameters: tuple[NativeParameter, ...] = field(init=False)

    def __post_init__(self) -> None:
        symbol, parameters = parse_signature(self.signature)
        object.__setattr__(self, "symbol", symbol)
        object.__setattr__(self, "parameters", parameters)
        wrong = next(_faults(self), "")
        if wrong:
            raise UserError(f"kernel {symbol}: {wrong}", got=self.signature)

    @property
    def prototype(self) -> str:
        """The declaration in C."""
        return f"void {self.symbol}({', '.join(map(str, self.parameters))})"


def parse_signature(text: str) -> tuple[str, tuple[NativeParameter, ...]]:
    """The name of a function and its parameters.

    Raises:
        UserError: the text is not such a declaration.
    """
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise UserError(
            "the signature of a kernel must declare a void function",
            got=text,
            fix="For example: void f(const float *in0, float *out0, int count)",
        )
    return found[1], tuple(_parameter(part.strip()) for part in found[2].split(","))


def _parameter(text: str) -> NativeParameter:
    pointer = _POINTER.fullmatch(text)
    if pointer is not None:
        return NativeParameter(pointer[3], pointer[2], True, bool(pointer[1]))
    value = _VALUE.fullmatch(text)
    if value is None:
        raise UserError(
            "a parameter of a kernel must be a pointer to elements or a number",
            got=text or "none",
            fix="For example: const float *in0, float *out0, int count",
        )
    return NativeParameter(value[2], value[1], False, False)


def _faults(native: Native) -> Iterator[str]:
    """What is wrong with a kernel's record."""
    names = [each.name for each in native.parameters]
    tensors = {each.name for each in native.parameters if each.tensor}
    values = {each.name for each in native.parameters if not each.pointer}
    found = [f"{name} stands twice" for name in names if names.count(name) > 1]
    found += [
        f"{each.name} must be a pointer to const"
        for each in native.parameters
        if each.tensor and each.tensor[0] == "in" and not each.const
    ]
    found += [
        f"{each.name} must not be const"
        for each in native.parameters
        if each.tensor and each.tensor[0] == "out" and each.const
    ]
    found += [
        f"{each.name} must be inN, outN or scratch"
        for each in native.parameters
        if each.pointer and not each.tensor and each.name != "scratch"
    ]
    found += [f"values must have {name}" for name in sorted(values - native.values.keys())]
    found += [f"there is no parameter {name}" for name in sorted(native.values.keys() - values)]
    found += [f"there is no tensor {name}" for name in sorted(native.layouts.keys() - tensors)]
    found += [
        f"the layout of {name} must hold every axis once"
        for name, order in native.layouts.items()
        if sorted(order) != list(range(len(order)))
    ]
    if ("scratch" in names) != (native.scratch is not None):
        found.append("the parameter scratch and its size must be given together")
    if not any(PurePath(each.name).suffix not in (".h", ".hh", ".hpp") for each in native.files):
        found.append("there must be a file with the function")
    found += [
        f"{each.name} must be a source, a header, an object or a static library"
        for each in native.files
        if PurePath(each.name).suffix not in _SUFFIXES
    ]
    return iter(found)


# --- where it applies -----------------------------------------------------------------------


def refusal(native: Native, call: Call, outputs: Sequence[TensorType], target: str) -> str | None:
    """Why a kernel is not for a call of its op on a target; ``None`` if it is."""
    if native.targets and not any(fnmatch(target, each) for each in native.targets):
        return f"it is for {', '.join(native.targets)}, not for {target}"
    for parameter in native.parameters:
        reason = _misfit(native, parameter, call.inputs, outputs)
        if reason:
            return reason
    return native.where(call)


def _misfit(
    native: Native,
    parameter: NativeParameter,
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType],
) -> str | None:
    if parameter.tensor is None:
        return None
    side, place = parameter.tensor
    types = inputs if side == "in" else outputs
    type = types[place] if place < len(types) else None
    if type is None:
        return None if side == "in" else f"the node has no output {place}"
    if _STORED[type.dtype] != parameter.ctype:
        return f"{parameter.name} is {type.dtype.value}, not {parameter.ctype}"
    layout = native.layouts.get(parameter.name)
    if layout is not None and len(layout) != len(type.shape):
        return f"{parameter.name} has {len(type.shape)} dimensions, its layout {len(layout)}"
    return None


# --- as an op ---------------------------------------------------------------------------------


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes an order of axes."""
    return tuple(int(place) for place in np.argsort(order))


def native_op(base: Op, native: Native, name: str) -> Op:
    """The op that a kernel computes, its tensors in the kernel's layouts.

    Args:
        base: the op that it computes.
        native: the kernel.
        name: of the new op.
    """

    def outputs(call: Call) -> tuple[TensorType, ...]:
        return base.infer(_logical(base, native, call))

    def infer(call: Call) -> tuple[TensorType, ...]:
        found = outputs(call)
        return tuple(_moved(type, native.layouts.get(f"out{n}")) for n, type in enumerate(found))

    def reference(call: Call, *inputs: np.ndarray | None) -> list[np.ndarray]:
        moved = (
            array if array is None else _moved_array(array, native.layouts.get(f"in{n}"), True)
            for n, array in enumerate(inputs)
        )
        found = base.reference(_logical(base, native, call), *moved)
        layouts = native.layouts
        return [_moved_array(array, layouts.get(f"out{n}")) for n, array in enumerate(found)]

    def body(call: Call) -> ExternBody:
        return _body(native, _logical(base, native, call))

    return replace(
        base,
        name=name,
        infer=infer,
        reference=reference,
        compute=Extern(body),
        grad=NoGrad("kernels are chosen after gradients are built"),
        doc=native.doc,
        domain="",
        onnx_name="",
    )


def _moved(type: TensorType, order: Sequence[int] | None) -> TensorType:
    if order is None:
        return type
    return TensorType(type.dtype, tuple(type.shape[axis] for axis in order))


def _moved_array(array: np.ndarray, order: Sequence[int] | None, back: bool = False) -> np.ndarray:
    if order is None:
        return array
    return np.ascontiguousarray(array.transpose(inverse(order) if back else order))


def _logical(base: Op, native: Native, call: Call) -> Call:
    """The call with its inputs as the op has them."""
    inputs = list(call.inputs)
    for place, type in enumerate(inputs):
        order = native.layouts.get(f"in{place}")
        if type is not None and order is not None:
            inputs[place] = _moved(type, inverse(order))
    return replace(call, op=base.name, inputs=tuple(inputs))


def _body(native: Native, call: Call) -> ExternBody:
    arguments = [_argument(native, each, call) for each in native.parameters]
    text = f"extern {native.prototype};\n{native.symbol}({', '.join(arguments)});\n"
    return ExternBody(
        text,
        native.scratch(call) if native.scratch is not None else 0,
        native.stack_bytes,
        Foreign(tuple(map(_content, native.files)), native.flags, native.link),
    )


def _argument(native: Native, parameter: NativeParameter, call: Call) -> str:
    """What is passed for a parameter."""
    if parameter.tensor is not None:
        side, place = parameter.tensor
        absent = side == "in" and not call.has(place)
        return f"({parameter.ctype} *)0" if absent else parameter.name
    if parameter.pointer:
        return parameter.name
    value = native.values[parameter.name](call)
    if not math.isfinite(value) or (parameter.ctype not in ("float", "double") and value % 1):
        raise call.error(
            f"kernel {native.symbol}: {parameter.name} must be a number of type {parameter.ctype}",
            got=repr(value),
        )
    return f"({parameter.ctype}){value!r}"


def _content(file: Traversable) -> tuple[str, bytes]:
    try:
        return file.name, file.read_bytes()
    except OSError as error:
        raise UserError(
            "a file of a kernel must be readable",
            got=f"{file}: {error.strerror or error}",
            fix="Reinstall its plugin with its data files.",
        ) from error


def identity(native: Native) -> list[str | bytes]:
    """All that decides what a kernel does, for caches."""
    parts: list[str | bytes] = [native.op, native.prototype, *native.flags, *native.link]
    for file in native.files:
        parts += _content(file)
    return parts
