"""Reading past protobuf: the same model, whatever the file is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.frontends.models import model, node
from weft.errors import UserError
from weft.frontends.onnx import load
from weft.frontends.onnx.wire import without_large
from weft.frontends.pieces import OpenFile, Window

WEIGHTS = np.arange(4096, dtype=np.float32)


def heavy() -> onnx.ModelProto:
    return model(
        [node("Add", "x w", "t"), node("Mul", "t k", "y")],
        {"x": [4096]},
        constants={"k": np.float32([2]), "w": WEIGHTS},
    )


def window_of(path: Path, data: bytes) -> Window:
    path.write_bytes(data)
    return Window(OpenFile(path))


def test_large_bytes_are_left_out(tmp_path: Path) -> None:
    source = heavy()
    text, large = without_large(window_of(tmp_path / "model.onnx", source.SerializeToString()))
    assert len(text) < 1000
    np.testing.assert_array_equal(large[1].read().view(np.float32), WEIGHTS)
    wanted = heavy()
    wanted.graph.initializer[1].ClearField("raw_data")
    assert onnx.ModelProto.FromString(text) == wanted


def test_weights_come_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(heavy().SerializeToString())
    found = load(path).constants["w"]
    path.unlink()
    np.testing.assert_array_equal(found, WEIGHTS)
    assert found.flags.aligned
    assert not found.flags.writeable


def test_merged_graphs(tmp_path: Path) -> None:
    """A field that stands twice is one message to protobuf, its lists joined."""
    extra = onnx.ModelProto()
    extra.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS + 1, "more"))
    extra.graph.output.add(name="more")
    path = tmp_path / "model.onnx"
    path.write_bytes(heavy().SerializeToString() + extra.SerializeToString())
    graph = load(path)
    np.testing.assert_array_equal(graph.constants["more"], WEIGHTS + 1)
    np.testing.assert_array_equal(graph.constants["w"], WEIGHTS)


@pytest.mark.parametrize("length", [8, 100, 5000, 16000])
def test_truncated(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(heavy().SerializeToString()[:length])
    with pytest.raises(UserError, match=r"^onnx: the file "):
        load(path)


def test_shape_that_the_bytes_do_not_fill(tmp_path: Path) -> None:
    source = heavy()
    source.graph.initializer[1].dims[0] = 4097
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value) == (
        "onnx: 1 node cannot be imported:\n"
        "  w (initializer): onnx: the shape of the tensor needs 16388 bytes; got 16384 bytes"
    )
