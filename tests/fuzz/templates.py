"""Uses of ONNX's ops that ``growing`` draws from: elements, shapes, indices and reductions.

A template may propose what is not valid: it is tried, and drawn anew.  Most of what changed
from operator set to operator set is an attribute that became an input: ``late``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.growing import Garden, Proposal, Template

FLOATS = "float32 float32 float32 float64"
NUMBERS = "float32 float32 float64 int32 int64 int8 uint8"
INTEGERS = "int32 int64 int8 uint8"
ANY = f"{NUMBERS} bool"


def late(
    g: Garden, since: int, inputs: list[str], attributes: dict[str, Any], **values: Sequence[int]
) -> tuple[list[str], dict[str, Any]]:
    """Arguments that are attributes before an operator set, and inputs from there on."""
    if g.opset < since:
        return inputs, {**attributes, **values}
    return [*inputs, *(g.constant(list(each)) for each in values.values())], attributes


# --- elements -----------------------------------------------------------------------------------

UNARY = """
Abs Neg Exp Sigmoid Tanh Relu LeakyRelu Elu Selu HardSigmoid Softplus Softsign Erf Sin Cos Atan
Sinh Cosh Asinh Floor Ceil Sign Identity Round Celu HardSwish Gelu Mish ThresholdedRelu Shrink
Sqrt Log Reciprocal Tan Asin Acos Acosh Atanh
""".split()
ALPHAS = {"LeakyRelu", "Elu", "Celu", "ThresholdedRelu"}


def unary(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        attributes: dict[str, Any] = {}
        if op in ALPHAS and g.maybe():
            attributes["alpha"] = g.chance.choice((0.1, 0.5, 2.0))
        if op == "Gelu" and g.maybe():
            attributes["approximate"] = "tanh"
        if op == "Shrink":
            attributes = {"lambd": 0.3, "bias": 0.1}
        return Proposal(op, [g.value(FLOATS)], attributes)

    return template


def integer_unary(op: str) -> Template:
    return lambda g: Proposal(op, [g.value(INTEGERS)])


def binary(op: str, dtypes: str) -> Template:
    def template(g: Garden) -> Proposal:
        left = g.value(dtypes)
        pair = [left, g.beside(left)]
        if g.maybe() and op != "Div":
            pair.reverse()
        return Proposal(op, pair)

    return template


def several(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        first = g.value(FLOATS)
        return Proposal(op, [first, *(g.beside(first) for _ in range(g.chance.randint(0, 3)))])

    return template


def modulo(g: Garden) -> Proposal:
    left = g.value("float32 int32 int64")
    whole = g.look(left).dtype.kind == "i"
    right = np.full(g.look(left).shape[-1:], g.chance.choice((3, -3, 2)), g.look(left).dtype)
    return Proposal("Mod", [left, g.constant(right)], {"fmod": 0 if whole and g.maybe() else 1})


def power(g: Garden) -> Proposal:
    base = g.value(FLOATS)
    exponent = np.asarray(g.chance.choice((2.0, 3.0, 1.0, 0.5, -1.0)), g.look(base).dtype)
    return Proposal("Pow", [base, g.constant(exponent)])


def prelu(g: Garden) -> Proposal:
    x = g.value("float32")
    return Proposal("PRelu", [x, g.beside(x, one_way=True)])


def where(g: Garden) -> Proposal:
    x = g.value("float32 int64 float64")
    condition = g.value("bool") if g.maybe() else g.weight(g.look(x).shape, "bool")
    return Proposal("Where", [condition, x, g.beside(x)])


def compare(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        left = g.value("float32 int64 int32")
        return Proposal(op, [left, g.beside(left)])

    return template


def clip(g: Garden) -> Proposal:
    x = g.value("float32 float64" if g.opset >= 11 else "float32")
    low, high = g.chance.choice(((-1.0, 1.0), (0.0, 6.0), (-0.5, 0.25)))
    if g.opset < 11:
        return Proposal("Clip", [x], {"min": low, "max": high})
    dtype = g.look(x).dtype
    low, high = (g.constant(np.asarray(each, dtype)) for each in (low, high))
    return Proposal("Clip", [x, *g.chance.choice(([low, high], ["", high], [low]))])


def cast(g: Garden) -> Proposal:
    to = g.chance.choice("FLOAT FLOAT DOUBLE INT32 INT64 INT8 UINT8 BOOL FLOAT16".split())
    x = g.value(f"{ANY} float16")
    if to in {"INT8", "UINT8"} and np.abs(g.look(x).astype(np.float64)).max(initial=0) > 100:
        to = "INT32"  # what lies outside the type is undefined
    if to == "UINT8" and g.look(x).astype(np.float64).min(initial=0) <= -1:
        to = "INT8"
    return Proposal("Cast", [x], {"to": TensorProto.DataType.Value(to)})


def shift(g: Garden) -> Proposal:
    x = g.value("uint8")
    amount = g.constant(np.asarray(g.chance.randint(0, 7), np.uint8))
    return Proposal("BitShift", [x, amount], {"direction": g.chance.choice(("LEFT", "RIGHT"))})


def bitwise(op: str) -> Template:
    return binary(op, "int32 int64 uint8 int8")


# --- shapes -------------------------------------------------------------------------------------


def reshape(g: Garden) -> Proposal:
    x = g.value(ANY)
    sizes = list(g.look(x).shape)
    if len(sizes) > 1 and g.maybe():
        place = g.chance.randrange(len(sizes) - 1)
        sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
    else:
        sizes.insert(g.chance.randint(0, len(sizes)), 1)
    for place, size in enumerate(sizes):
        if size % 2 == 0 and g.maybe(0.3):
            sizes[place : place + 1] = [2, size // 2]
            break
    if g.maybe():
        sizes[g.chance.randrange(len(sizes))] = -1
    return Proposal("Reshape", [x, g.constant(sizes)])


def flatten(g: Garden) -> Proposal:
    x = g.value(ANY)
    return Proposal("Flatten", [x], {"axis": g.chance.randint(0, g.look(x).ndim)})


def transpose(g: Garden) -> Proposal:
    x = g.value(ANY, 2)
    axes = list(range(g.look(x).ndim))
    g.chance.shuffle(axes)
    return Proposal("Transpose", [x], {"perm": axes} if g.maybe(0.9) else {})


def squeeze(g: Garden) -> Proposal:
    x = g.value(ANY, 1, where=lambda each: 1 in each.shape)
    ones = [axis for axis, size in enumerate(g.look(x).shape) if size == 1]
    axes = g.chance.sample(ones, g.chance.randint(1, len(ones)))
    return Proposal("Squeeze", *late(g, 13, [x], {}, axes=axes))


def unsqueeze(g: Garden) -> Proposal:
    x = g.value(ANY, 0, 3)
    rank = g.look(x).ndim
    axes = g.chance.sample(range(rank + 2), 2) if g.maybe(0.3) else [g.chance.randint(0, rank)]
    return Proposal("Unsqueeze", *late(g, 13, [x], {}, axes=axes))


def concat(g: Garden) -> Proposal:
    x = g.value(ANY, 1)
    shape, axis = g.look(x).shape, g.axis(g.look(x).ndim)
    parts = [x]
    for _ in range(g.chance.randint(0, 3)):
        other = list(shape)
        other[axis] = g.chance.choice((1, 2, 3, 5))
        fit = [
            name
            for name, value in g.values.items()
            if value.dtype == g.look(x).dtype and _but(value.shape, axis) == _but(shape, axis)
        ]
        take = fit and g.maybe(0.7)
        parts.append(g.chance.choice(fit) if take else g.weight(other, str(g.look(x).dtype)))
    g.chance.shuffle(parts)
    return Proposal("Concat", parts, {"axis": axis})


def _but(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    axis %= max(1, len(shape)) if axis < 0 else 99
    return (*shape[:axis], -1, *shape[axis + 1 :]) if axis < len(shape) else None


def split(g: Garden) -> Proposal:
    x = g.value(NUMBERS, 1, where=lambda each: max(each.shape, default=0) > 1)
    axis = g.axis(g.look(x).ndim)
    size = g.look(x).shape[axis]
    if size < 2:
        axis = int(np.argmax(g.look(x).shape))
        size = g.look(x).shape[axis]
    if g.opset >= 18 and g.maybe(0.3):
        return Proposal("Split", [x], {"axis": axis, "num_outputs": 2}, 2)
    cut = g.chance.randint(1, size - 1)
    sizes = [cut, size - cut]
    return Proposal("Split", *late(g, 13, [x], {"axis": axis}, split=sizes), len(sizes))


def slices(g: Garden) -> Proposal:
    x = g.value(ANY, 1)
    axes = g.chance.sample(range(g.look(x).ndim), g.chance.randint(1, g.look(x).ndim))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = g.look(x).shape[axis]
        start = g.chance.randrange(size)
        end = g.chance.choice((size, start + 1, 2**31 - 1, g.chance.randint(start + 1, size)))
        step = g.chance.choice((1, 1, 2, 3))
        if g.opset >= 10 and g.maybe(0.2):
            start, end, step = size - 1, -size - 1, -g.chance.choice((1, 2))
        elif start and g.maybe(0.3):
            start -= size
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
    if g.opset < 10:
        return Proposal("Slice", [x], {"starts": starts, "ends": ends, "axes": axes})
    return Proposal("Slice", [x, *(g.constant(each) for each in (starts, ends, axes, steps))])


def expand(g: Garden) -> Proposal:
    x = g.value(NUMBERS, 0, 4)
    sizes = [size if size > 1 else g.chance.choice((1, 3, 4)) for size in g.look(x).shape]
    return Proposal("Expand", [x, g.constant([*g.shape(0, 1), *sizes])])


def tile(g: Garden) -> Proposal:
    x = g.value(NUMBERS, 1)
    return Proposal(
        "Tile", [x, g.constant([g.chance.choice((1, 1, 2, 3)) for _ in g.look(x).shape])]
    )


def pad(g: Garden) -> Proposal:
    x = g.value("float32 float64", 1)
    shape = g.look(x).shape
    mode = g.chance.choice(("constant", "edge", "reflect", "wrap" if g.opset >= 19 else "constant"))
    most = [min(3, size - 1) if mode == "reflect" else 3 for size in shape]
    pads = [g.chance.randint(0, size) if g.maybe() else 0 for size in (*most, *most)]
    if mode == "constant" and g.maybe(0.2):
        pads[0] = -1 if shape[0] > 1 else 0
    if g.opset < 11:
        value = {"value": 1.5} if g.maybe() else {}
        return Proposal("Pad", [x], {"mode": mode, "pads": pads, **value})
    inputs = [x, g.constant(pads)]
    if mode == "constant" and g.maybe():
        inputs.append(g.constant(np.asarray(-0.5, g.look(x).dtype)))
    return Proposal("Pad", inputs, {"mode": mode})


def depth_to_space(g: Garden) -> Proposal:
    x = g.weight((g.chance.randint(1, 2), 4 * g.chance.randint(1, 4), 3, 5))
    found = g.value("float32", 4, 4, lambda each: each.shape[1] % 4 == 0) if g.maybe(0.3) else x
    mode = {"mode": g.chance.choice(("DCR", "CRD"))} if g.opset >= 11 else {}
    return Proposal("DepthToSpace", [found], {"blocksize": 2, **mode})


def space_to_depth(g: Garden) -> Proposal:
    x = g.value("float32", 4, 4, lambda each: each.shape[2] % 2 == each.shape[3] % 2 == 0)
    return Proposal("SpaceToDepth", [x], {"blocksize": 2})


def triangle(g: Garden) -> Proposal:
    x = g.value("float32 int64", 2)
    inputs = [x, g.constant(g.chance.randint(-2, 2))] if g.maybe() else [x]
    return Proposal("Trilu", inputs, {"upper": g.chance.randint(0, 1)})


# --- indices ------------------------------------------------------------------------------------


def gather(g: Garden) -> Proposal:
    x = g.value(ANY, 1)
    axis = g.axis(g.look(x).ndim)
    size = g.look(x).shape[axis]
    low = -size if g.opset >= 11 else 0
    indices = g.numbers.integers(low, size, g.shape(0, 2)).astype(g.chance.choice(("i4", "i8")))
    return Proposal("Gather", [x, g.constant(indices)], {"axis": axis})


def gather_elements(g: Garden) -> Proposal:
    x = g.value(NUMBERS, 1)
    axis = g.axis(g.look(x).ndim)
    shape = list(g.look(x).shape)
    size, shape[axis] = shape[axis], g.chance.choice((1, 2, 4))
    indices = g.numbers.integers(-size, size, shape)
    return Proposal("GatherElements", [x, g.constant(indices)], {"axis": axis})


def gather_nd(g: Garden) -> Proposal:
    x = g.value(NUMBERS, 1)
    shape = g.look(x).shape
    depth = g.chance.randint(1, len(shape))
    columns = [g.numbers.integers(-size, size, (3, 1)) for size in shape[:depth]]
    return Proposal("GatherND", [x, g.constant(np.concatenate(columns, axis=1))])


def scatter_elements(g: Garden) -> Proposal:
    x = g.value("float32 int64", 1)
    shape, axis = list(g.look(x).shape), g.axis(g.look(x).ndim)
    size = shape[axis]
    shape[axis] = g.chance.randint(1, size)
    order = np.argsort(g.numbers.random(g.look(x).shape), axis=axis)  # no index twice
    indices = np.take(order, range(shape[axis]), axis=axis).astype(np.int64)
    attributes: dict[str, Any] = {"axis": axis}
    if g.opset >= 16 and g.maybe():
        attributes["reduction"] = g.chance.choice(("add", "mul"))
    op = "ScatterElements" if g.opset >= 11 else "Scatter"
    updates = g.weight(shape, str(g.look(x).dtype))
    return Proposal(op, [x, g.constant(indices), updates], attributes)


def scatter_nd(g: Garden) -> Proposal:
    x = g.value("float32 int64", 1)
    shape = g.look(x).shape
    rows = g.numbers.permutation(shape[0])[: g.chance.randint(1, shape[0])].reshape(-1, 1)
    updates = g.weight((len(rows), *shape[1:]), str(g.look(x).dtype))
    return Proposal("ScatterND", [x, g.constant(rows.astype(np.int64)), updates])


def one_hot(g: Garden) -> Proposal:
    indices = g.value("int64 int32", 0, 2)
    values = g.constant(np.array([0.25, 1.5], np.float32))
    return Proposal(
        "OneHot", [indices, g.constant([5]), values], {"axis": g.chance.choice((-1, 0))}
    )


def constant_of_shape(g: Garden) -> Proposal:
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [g.chance.choice((0.0, 2.5))])
    return Proposal("ConstantOfShape", [g.constant(list(g.shape(1, 3)))], {"value": value})


def shape_of(g: Garden) -> Proposal:
    return Proposal(g.chance.choice(("Shape", "Size")), [g.value(ANY, 1)])


def cumulative(g: Garden) -> Proposal:
    x = g.value("float32 int64 int32", 1)
    axis = g.constant(np.asarray(g.axis(g.look(x).ndim), np.int64))
    return Proposal(
        "CumSum",
        [x, axis],
        {"exclusive": g.chance.randint(0, 1), "reverse": g.chance.randint(0, 1)},
    )


def reverse_sequence(g: Garden) -> Proposal:
    x = g.value("float32", 2)
    steps, batch = g.look(x).shape[:2]
    lengths = g.constant(g.numbers.integers(1, steps + 1, batch))
    return Proposal("ReverseSequence", [x, lengths], {"batch_axis": 1, "time_axis": 0})


def top_k(g: Garden) -> Proposal:
    x = g.value("float32 int64" if g.opset >= 11 else "float32", 1)
    axis = g.axis(g.look(x).ndim)
    count = g.chance.randint(1, g.look(x).shape[axis])
    attributes: dict[str, Any] = {"axis": axis}
    if g.opset >= 11:
        attributes["largest"] = g.chance.randint(0, 1)
    if g.opset < 10:
        return Proposal("TopK", [x], {**attributes, "k": count}, 2)
    return Proposal("TopK", [x, g.constant([count])], attributes, 2)


# --- reductions ---------------------------------------------------------------------------------

REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()


def reduction(kind: str) -> Template:
    def template(g: Garden) -> Proposal:
        dtypes = "float32 float32 float64"
        if kind in {"Max", "Min", "Sum", "Prod"}:
            dtypes += " int32 int64"
        x = g.value(dtypes, 1)
        attributes: dict[str, Any] = {"keepdims": g.chance.randint(0, 1)}
        axes = g.chance.sample(range(g.look(x).ndim), g.chance.randint(1, g.look(x).ndim))
        if g.maybe(0.15):
            return Proposal(f"Reduce{kind}", [x], attributes)
        since = 13 if kind == "Sum" else 18
        return Proposal(f"Reduce{kind}", *late(g, since, [x], attributes, axes=axes))

    return template


def argument(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        x = g.value("float32 int32", 1)
        attributes = {"axis": g.axis(g.look(x).ndim), "keepdims": g.chance.randint(0, 1)}
        if g.opset >= 12:
            attributes["select_last_index"] = g.chance.randint(0, 1)
        return Proposal(op, [x], attributes)

    return template


def along(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        x = g.value("float32", 1)
        attributes: dict[str, Any] = {"axis": g.axis(g.look(x).ndim)} if g.maybe(0.9) else {}
        if op == "LpNormalization":
            attributes["p"] = g.chance.randint(1, 2)
        return Proposal(op, [x], attributes)

    return template


TEMPLATES: tuple[Template, ...] = (
    *map(unary, UNARY),
    *map(integer_unary, ("Abs", "Neg", "Sign", "Identity", "BitwiseNot")),
    *(binary(op, NUMBERS) for op in ("Add", "Sub", "Mul", "Add", "Mul", "Max", "Min")),
    binary("Div", FLOATS),
    *map(several, ("Max", "Min", "Sum", "Mean")),
    *map(compare, "Equal Greater Less GreaterOrEqual LessOrEqual".split()),
    *(binary(op, "bool") for op in ("And", "Or", "Xor")),
    *map(bitwise, ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(modulo, power, prelu, where, where, clip, cast, cast, cast, shift),
    lambda g: Proposal("Not", [g.value("bool")]),
    lambda g: Proposal(g.chance.choice(("IsNaN", "IsInf")), [g.value("float32")]),
    *(reshape, reshape, flatten, transpose, transpose, squeeze, unsqueeze, concat, concat),
    *(split, split, slices, slices, expand, tile, pad, pad, depth_to_space, space_to_depth),
    *(triangle, gather, gather, gather_elements, gather_nd, scatter_elements, scatter_nd),
    *(one_hot, constant_of_shape, shape_of, cumulative, reverse_sequence, top_k),
    *map(reduction, REDUCTIONS),
    *map(argument, ("ArgMax", "ArgMin")),
    *map(along, ("Softmax", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization")),
)
