"""What the importer says about damaged and hostile files."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.frontends.litert.against import imported
from tests.frontends.litert.builder import Op, Sub, T, const, file, flatbuffers, schema
from tests.frontends.litert.cases import CASES, x
from tests.frontends.litert.test_states import counter, loop, refused, signed
from weft.errors import UserError
from weft.frontends.litert import reading

SEEDS = (
    *"CONV_2D STRIDED_SLICE SVDF CONCATENATION FULLY_CONNECTED RESIZE_BILINEAR".split(),
    *"GATHER PAD SPACE_TO_BATCH_ND MEAN SPLIT MAX_POOL_2D ONE_HOT TOPK_V2 TILE RANGE".split(),
    "TRANSPOSE_CONV",
    *"SCATTER_ND BATCH_MATMUL UNPACK DEPTH_TO_SPACE FILL ARG_MAX MIRROR_PAD SLICE".split(),
)
MUTATIONS = 6000
WORDS = (0, 1, 255, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def small() -> bytes:
    """A sound file of one operator with a constant."""
    op = Op("ADD", (0, 1), (2,), "AddOptions")
    weight = const(np.arange(6).reshape(2, 3), "float32")
    return file([Sub((x(2, 3), weight, x(2, 3)), (op,), (0,), (2,))])


def said(content: bytes) -> str:
    with pytest.raises(UserError) as error:
        imported(content)
    return str(error.value)


def changed(change) -> bytes:
    """The sound file after a change of the schema's objects."""
    model = schema.ModelT.InitFromPackedBuf(small(), 0)
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes, bits or words exchanged, or the end cut off."""
    made, kind = bytearray(content), rng.integers(4)
    if kind == 3:
        return bytes(made[: rng.integers(8, len(made))])
    for at in rng.integers(8, len(made), rng.integers(1, 4)):
        if kind == 0:
            made[at] = rng.integers(256)
        elif kind == 1:
            made[at] ^= 1 << rng.integers(8)
        else:
            at -= at % 4
            made[at : at + 4] = int(rng.choice(WORDS)).to_bytes(4, "little")
    return bytes(made)


def test_mutations_are_read_or_refused() -> None:
    files = [next(each for each in CASES if each.name == name).content() for name in SEEDS]
    files += [next(each for each in CASES if each.id.startswith("CONV_2D-int8")).content()]
    files += [counter(1.0), loop(3), signed()]
    rng = np.random.default_rng(16)
    read = 0
    for place in range(MUTATIONS):
        try:
            imported(mutated(files[place % len(files)], rng))
            read += 1
        except UserError:
            pass
    assert MUTATIONS // 20 < read < MUTATIONS // 2


def test_every_truncation_is_refused() -> None:
    content = small()
    for end in range(8, len(content) - 8, 4):
        with pytest.raises(UserError):
            imported(content[:end])


def test_identifier(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL2" + bytes(64))
    with pytest.raises(UserError) as error:
        weft.load(path)
    assert str(error.value) == (
        "litert: a file must have the identifier TFL3 at byte 4; got b'TFL2' (file net.tflite)"
    )


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        weft.load(tmp_path / "net.tflite")
    assert str(error.value) == (
        "litert: the file cannot be read; got No such file or directory (file net.tflite)"
    )


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "installed", lambda package: False)
    assert said(small()) == (
        "LiteRT files need the package tflite; got no such package. pip install weft[litert]"
    )


def test_version() -> None:
    def older(model) -> None:
        model.version = 2

    assert said(changed(older)) == "litert: version 3 of the format is supported; got 2"


def test_no_graph() -> None:
    def empty(model) -> None:
        model.subgraphs = []

    assert said(changed(empty)) == "litert: the file holds no graph"


def test_tensor_that_does_not_exist() -> None:
    def other(model) -> None:
        model.subgraphs[0].operators[0].inputs = [0, 77]

    text = "litert: an index of a tensor must exist; got 77 of 3 (subgraph 0)"
    assert said(changed(other)) == text


def test_code_that_does_not_exist() -> None:
    def other(model) -> None:
        model.subgraphs[0].operators[0].opcodeIndex = 5

    text = "litert: an operator must have a code; got 5 of 1 (subgraph 0, operator 0)"
    assert said(changed(other)) == text


def test_buffer_that_does_not_exist() -> None:
    def other(model) -> None:
        model.subgraphs[0].tensors[1].buffer = 9

    assert said(changed(other)) == "litert: a tensor's buffer must exist; got 9 of 2 (tensor 1, t1)"


def test_buffer_beyond_the_file() -> None:
    def outside(model) -> None:
        model.buffers[1].offset, model.buffers[1].size = 1 << 40, 24

    assert said(changed(outside)).startswith("litert: a buffer must lie within the file; got bytes")


def test_buffer_of_another_size() -> None:
    def shorter(model) -> None:
        model.buffers[1].data = model.buffers[1].data[:-4]

    assert refused(changed(shorter)).endswith(
        "litert: a constant must have as many bytes as its type and shape need; "
        "got 20 instead of 24 for FLOAT32[2, 3]"
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, -3], "litert: a size must not be negative; got [2, -3] (tensor 0, t0)"),
        (
            [1 << 30] * 3,
            f"litert: a tensor has at most 1024 GiB; got {[1 << 30] * 3} (tensor 0, t0)",
        ),
        ([1] * 17, "litert: a tensor has at most 16 axes; got 17 (tensor 0, t0)"),
    ],
)
def test_shapes(shape, message) -> None:
    def other(model) -> None:
        model.subgraphs[0].tensors[0].shape = shape

    assert said(changed(other)) == message


def test_scales() -> None:
    given = replace(x(2, 3, dtype="int8"), scale=[0.1, 0.2, 0.3], zero=[0, 0, 0], axis=0)
    op = Op("NEG", (0,), (1,), "NegOptions")
    assert said(file([Sub((given, x(2, 3)), (op,), (0,), (1,))])) == (
        "litert: there must be one scale for each position along an axis; "
        "got 3 scales along axis 0 of [2, 3] (tensor 0, t0)"
    )


def test_sparse_weights() -> None:
    def sparse(model) -> None:
        model.subgraphs[0].tensors[1].sparsity = schema.SparsityParametersT()

    assert "a sparse constant is not supported" in refused(changed(sparse))


def test_operator_before_its_input() -> None:
    ops = (Op("RELU", (1,), (2,)), Op("RELU", (0,), (1,)))
    content = file([Sub((x(2), x(2), x(2)), ops, (0,), (2,))])
    assert "tensor 1 must be made before it is read" in refused(content)


def test_records_that_share_bytes_are_not_unpacked() -> None:
    """A vector of many subgraphs that are all the same bytes."""
    content = bytearray(small())
    model = schema.Model.GetRootAs(bytes(content), 0)
    at = model._tab.Vector(model._tab.Offset(8))
    target = model._tab.Indirect(at)
    base = len(content)
    count = 200_000
    content += count.to_bytes(4, "little") + bytes(4 * count)
    for place in range(0, count, 1000):
        here = base + 4 + 4 * place
        # Offsets are unsigned and point forwards only: these point to nothing sound.
        content[here : here + 4] = ((target - here) & 0xFFFFFFFF).to_bytes(4, "little")
    slot = model._tab.Pos + model._tab.Offset(8)
    content[slot : slot + 4] = (base - slot).to_bytes(4, "little")
    tracemalloc.start()
    with pytest.raises(UserError):
        imported(bytes(content))
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_huge_results_take_no_memory() -> None:
    op = Op("FILL", (0, 1), (2,), "FillOptions")
    big = T((1,), "float32")
    tensors = (const([1 << 16, 1 << 14]), T((), "float32"), big)
    tracemalloc.start()
    made = imported(file([Sub(tensors, (op,), (1,), (2,))]))
    assert made.graph.types[made.graph.outputs[0]].dims == (1 << 16, 1 << 14)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_loops_within_loops_end() -> None:
    """Both loops count constants, which become no nodes."""
    number = T((), "int32")
    less = Op("LESS", (0, 1), (2,), "LessOptions")
    condition = Sub((number, const(1000), T((), "bool")), (less,), (0,), (2,))
    count = Op("ADD", (0, 1), (2,), "AddOptions")
    inner = Sub((number, const(1), number), (count,), (0,), (2,))
    again = Op(
        "WHILE", (3,), (4,), "WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    )
    outer = Sub((number, const(1), number, const(0), number), (count, again), (0,), (2,))
    first = Op(
        "WHILE", (0,), (1,), "WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 3}
    )
    content = file([Sub((const(0), number), (first,), (), (1,)), condition, inner, outer])
    assert "loops must run at most 20,000 operators" in refused(content)
