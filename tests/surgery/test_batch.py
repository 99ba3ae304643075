"""Another batch: every member is computed as it was alone, whatever holds the old batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.surgery.nets import check, image, run
from weft import layers
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Node
from weft.ir.types import parse_type
from weft.ops.control import ScanAttributes
from weft.ops.table import OPS
from weft.surgery.members import MemberAt, MemberPlace, carried, placed

Function = Callable[[weft.Value], weft.Value]


def attention(x: weft.Value, heads: int = 2, batch: int = 1) -> weft.Value:
    """As PyTorch exports it: rows first, heads and batch as one, everything a literal."""
    _, rows, width = (int(dim) for dim in x.type.dims)
    per = width // heads
    first = weft.ops.transpose(x, (1, 0, 2))
    qkv = weft.ops.matmul(first, image(width, 3 * width, seed=5))
    split = weft.ops.unsqueeze(weft.ops.reshape(qkv, (rows, batch, 3, width)), (0,))
    parts = weft.ops.squeeze(weft.ops.transpose(split, (3, 1, 2, 0, 4)), (3,))
    q, k, v = (
        weft.ops.transpose(
            weft.ops.reshape(
                weft.ops.gather(parts, np.array(n), axis=0), (rows, batch * heads, per)
            ),
            (1, 0, 2),
        )
        for n in range(3)
    )
    scores = weft.ops.matmul(q, weft.ops.transpose(k, (0, 2, 1)))
    mixed = weft.ops.matmul(weft.ops.softmax(scores, axis=-1), v)
    flat = weft.ops.reshape(weft.ops.transpose(mixed, (1, 0, 2)), (rows * batch, width))
    done = weft.ops.gemm(flat, image(width, width, seed=6))
    return x + weft.ops.transpose(weft.ops.reshape(done, (rows, batch, width)), (1, 0, 2))


def alone(net: weft.Net, x: np.ndarray, axis: int = 0) -> np.ndarray:
    """The members one by one."""
    parts = [run(net.graph, x.take([n], axis))[0] for n in range(x.shape[axis])]
    return np.concatenate(parts, axis)


@pytest.mark.parametrize("simplified", [False, True])
def test_attention_as_it_is_exported(simplified: bool) -> None:
    def function(x: weft.Value) -> weft.Value:
        return attention(layers.LayerNorm()(attention(x)))

    net = weft.trace(function, "f32[1,5,8]")
    net = net.simplified() if simplified else net
    x = image(3, 5, 8)
    many = net.with_shapes({"x": (3, 5, 8)})
    check(many.graph)
    np.testing.assert_allclose(run(many.graph, x)[0], alone(net, x), rtol=1e-5, atol=1e-5)
    for batch in (2, 1):
        fewer = many.with_shapes({"x": (batch, 5, 8)})
        check(fewer.graph)
        np.testing.assert_allclose(
            run(fewer.graph, x[:batch])[0], alone(net, x[:batch]), rtol=1e-5, atol=1e-5
        )


def test_a_larger_batch_as_it_is_exported() -> None:
    net = weft.trace(lambda x: attention(x, batch=4), "f32[4,5,8]")
    one = net.with_shapes({"x": (1, 5, 8)})
    check(one.graph)
    x = image(4, 5, 8)
    np.testing.assert_allclose(alone(one, x), run(net.graph, x)[0], rtol=1e-5, atol=1e-5)


# Functions of f32[1,6,4] (or another shape) that hold the batch, or look as if they did.
KEPT: list[tuple[str, str, Function]] = [
    ("flattened", "1,6,4", lambda x: weft.ops.reshape(x, (1, 24))),
    ("rows and back", "1,6,4", lambda x: rows_and_back(x)),
    ("a transpose that is a view", "1,6,4", lambda x: weft.ops.reshape(x, (6, 1, 4))),
    ("time first", "6,1,4", lambda x: weft.ops.softmax(x, axis=-1)),
    ("a class token", "1,6,4", lambda x: weft.ops.concat(image(1, 1, 4), x, axis=1)),
    ("positions of one element", "1,6,4", lambda x: as_strided(x)),
    ("a running sum", "1,6,4", lambda x: weft.ops.cumsum(x, axis=1)),
    ("the largest", "1,6,4", lambda x: weft.ops.topk(x, k=2)[0]),
    ("a mask of windows", "1,4,6", lambda x: windows(x)),
    ("a fixed shape", "1,6,4", lambda x: weft.ops.expand(weft.ops.relu(x), (3, 1, 6, 4))),
    ("a word's row", "1,6,4", lambda x: words(x)),
]


def rows_and_back(x: weft.Value) -> weft.Value:
    rows = weft.ops.gemm(weft.ops.reshape(x, (6, 4)), image(4, 4, seed=2))
    return weft.ops.reshape(rows, (1, 6, 4))


def as_strided(x: weft.Value) -> weft.Value:
    """As PyTorch's newer exporter writes a mean that is kept."""
    mean = weft.ops.reduce_mean(x, axes=(1,), keepdims=1)
    return weft.ops.gather(weft.ops.reshape(mean, (4,)), np.arange(4).reshape(1, 1, 4), axis=0)


def windows(x: weft.Value) -> weft.Value:
    """Windows before the batch's place, each with a mask of its own."""
    split = weft.ops.reshape(x, (4, 3, 2))
    masked = split + image(4, 3, 2, seed=3)
    return weft.ops.reshape(weft.ops.softmax(masked, axis=-1), (1, 4, 6))


def words(x: weft.Value) -> weft.Value:
    places = weft.ops.cast(weft.ops.abs(x * 2), to=DType.I64)
    return weft.ops.gather(image(40, 3, seed=4), weft.ops.mod(places, np.array(40)), axis=0)


@pytest.mark.parametrize(("shape", "function"), [k[1:] for k in KEPT], ids=[k[0] for k in KEPT])
def test_members_are_computed_as_they_were(shape: str, function: Function) -> None:
    net = weft.trace(function, f"f32[{shape}]")
    dims = [int(dim) for dim in shape.split(",")]
    axis = dims.index(1)
    for batch in (3, 2):
        dims[axis] = batch
        many = net.with_shapes({"x": dims})
        check(many.graph)
        x = image(*dims)
        (found,) = run(many.graph, x)
        (one,) = run(net.graph, x.take([0], axis))
        where = [n for n, dim in enumerate(found.shape) if dim != one.shape[n]]
        assert len(where) == 1
        parts = [run(net.graph, x.take([n], axis))[0] for n in range(batch)]
        np.testing.assert_allclose(found, np.concatenate(parts, where[0]), rtol=1e-5, atol=1e-5)
        dims[axis] = 1
        back = many.with_shapes({"x": dims})
        check(back.graph)
        np.testing.assert_allclose(run(back.graph, x.take([0], axis))[0], one, rtol=1e-5, atol=1e-5)


def test_a_batch_that_left_no_trace() -> None:
    def function(x: weft.Value) -> weft.Value:
        return weft.ops.reshape(weft.ops.relu(weft.ops.reshape(x, (2, 2, 36))), (4, 6, 6))

    kept = weft.trace(lambda x: weft.ops.reshape(function(x), (1, 4, 36)), "f32[1,4,6,6]")
    many = kept.with_shapes({"x": (2, 4, 6, 6)})
    check(many.graph)
    x = image(2, 4, 6, 6)
    np.testing.assert_array_equal(run(many.graph, x)[0], alone(kept, x))


def test_what_is_given_to_all_members() -> None:
    x, mask = weft.input("x", "f32[1,5,8]"), weft.input("mask", "f32[5,1]")
    net = weft.net([x, mask], [attention(x) * mask]).with_shapes({"x": (3, 5, 8)})
    check(net.graph)
    assert str(net.inputs["mask"]) == "f32[5,1]"
    given, held = image(3, 5, 8), image(5, 1, seed=1)
    single = weft.net([x, mask], [attention(x) * mask])
    wanted = [run(single.graph, given[n : n + 1], held)[0] for n in range(3)]
    np.testing.assert_allclose(
        run(net.graph, given, held)[0], np.concatenate(wanted), rtol=1e-5, atol=1e-5
    )


# --- where members are ----------------------------------------------------------------------


def at(
    op: str, inputs: dict[str, str], output: str, place: MemberPlace, **attributes: object
) -> MemberAt:
    record = OPS[op]
    types = {name: parse_type(type) for name, type in {**inputs, "y": output}.items()}
    node = Node("node", op, tuple(inputs), ("y",), record.attributes(**attributes))
    return MemberAt(node, types, 2, {"x": place})


KEEPS = [
    ("Relu", {"x": "f32[24,5]"}, "f32[24,5]", MemberPlace(0, 4), {}, MemberPlace(0, 4)),
    ("Transpose", {"x": "f32[24,5]"}, "f32[5,24]", MemberPlace(0, 4), {}, MemberPlace(1, 4)),
    ("Softmax", {"x": "f32[4,5]"}, "f32[4,5]", MemberPlace(0, 1), {"axis": 1}, MemberPlace(0, 1)),
    (
        "ReduceMean",
        {"x": "f32[4,5]"},
        "f32[4,1]",
        MemberPlace(0, 1),
        {"axes": (1,)},
        MemberPlace(0, 1),
    ),
    (
        "MatMul",
        {"x": "f32[4,2,3]", "w": "f32[3,5]"},
        "f32[4,2,5]",
        MemberPlace(0, 2),
        {},
        MemberPlace(0, 2),
    ),
    (
        "Reshape",
        {"x": "f32[3,8,5]"},
        "f32[24,5]",
        MemberPlace(1, 4),
        {"shape": (24, 5)},
        MemberPlace(0, 4),
    ),
    ("Shape", {"x": "f32[2,5]"}, "i64[1]", MemberPlace(0, 1), {"start": 1}, None),
]


@pytest.mark.parametrize(("op", "inputs", "output", "place", "attributes", "wanted"), KEEPS)
def test_where_members_go(
    op: str,
    inputs: dict[str, str],
    output: str,
    place: MemberPlace,
    attributes: dict[str, object],
    wanted: MemberPlace | None,
) -> None:
    found = carried(at(op, inputs, output, place, **attributes))
    assert found == ({} if wanted is None else {"y": wanted})


MEET = [
    ("Softmax", {"x": "f32[4,5]"}, "f32[4,5]", MemberPlace(0, 1), {"axis": 0}, "would meet"),
    ("ReduceMean", {"x": "f32[4,5]"}, "f32[1,5]", MemberPlace(0, 1), {"axes": (0,)}, "would meet"),
    ("CumSum", {"x": "f32[4,5]"}, "f32[4,5]", MemberPlace(0, 1), {"axis": 0}, "would meet"),
    ("Add", {"x": "f32[4,5]", "w": "f32[4,5]"}, "f32[4,5]", MemberPlace(0, 1), {}, "treated alike"),
    (
        "Shape",
        {"x": "f32[2,5]"},
        "i64[2]",
        MemberPlace(0, 1),
        {},
        "depends on the size of the batch",
    ),
    (
        "Reshape",
        {"x": "f32[2,6]"},
        "f32[3,4]",
        MemberPlace(0, 1),
        {"shape": (3, 4)},
        "would be split",
    ),
    ("NonZero", {"x": "f32[2,5]"}, "i64[2,10]", MemberPlace(0, 1), {}, "it cannot be told"),
]


@pytest.mark.parametrize(("op", "inputs", "output", "place", "attributes", "reason"), MEET)
def test_what_does_not_keep_members_apart(
    op: str,
    inputs: dict[str, str],
    output: str,
    place: MemberPlace,
    attributes: dict[str, object],
    reason: str,
) -> None:
    with pytest.raises(UserError, match=f"shapes: {op.lower()}: .*{reason}") as caught:
        carried(at(op, inputs, output, place, **attributes))
    assert "(node node)" in str(caught.value)


def test_a_scan_over_the_members() -> None:
    body = weft.trace(lambda s, x: (s + x, weft.ops.relu(x)), "f32[3]", "f32[3]").graph
    types = {"s": "f32[3]", "x": "f32[2,3]", "t": "f32[3]", "y": "f32[2,3]"}
    node = Node("scan", "Scan", ("s", "x"), ("t", "y"), ScanAttributes(body, 1, 1))
    known = {name: parse_type(type) for name, type in types.items()}
    with pytest.raises(UserError, match="one by one"):
        carried(MemberAt(node, known, 2, {"x": MemberPlace(0, 1)}))
    with pytest.raises(UserError, match="members of the batch would not be treated alike"):
        carried(MemberAt(node, known, 3, {"x": MemberPlace(1, 1)}))
    found = carried(MemberAt(node, known, 3, {"x": MemberPlace(1, 1)}, {"s"}))
    assert found == {"t": MemberPlace(0, 1), "y": MemberPlace(1, 1)}


def test_the_place_in_another_shape() -> None:
    assert placed((3, 8, 5), behind=20, batch=2) == MemberPlace(1, 4)
    assert placed((24, 5), behind=20, batch=2) == MemberPlace(0, 4)
    assert placed((6, 20), behind=20, batch=2) == MemberPlace(0, 1)
    assert placed((2, 2, 5), behind=5, batch=4) is None
    assert placed((1, 4), behind=4, batch=1) is None
