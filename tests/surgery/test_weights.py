"""Weights: exchanged, and to and from files with their names."""

from __future__ import annotations

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

import weft
from tests.surgery.nets import block, check, image, run
from weft import layers
from weft.errors import UserError
from weft.surgery.exchange_weights import load_weights

X = image(1, 3, 8, 8)


def test_swapping_weights() -> None:
    net = block()
    w = image(4, 3, 3, 3, seed=9)
    done = net.with_weights({"conv.weight": w})
    check(done.graph)
    np.testing.assert_array_equal(done.weights["conv.weight"], w)
    assert done.weights["conv2.weight"] is net.weights["conv2.weight"]
    assert not np.array_equal(run(done.graph, X)[0], run(net.graph, X)[0])
    assert str(done.history[-1]) == "exchange constants conv.weight"


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_files_keep_names_types_and_elements(tmp_path: Path, suffix: str) -> None:
    arrays = {
        "/stem/conv.weight": image(4, 3, 3, 3),
        "file": np.arange(4, dtype=np.int8),
        "half": image(3).astype(np.float16),
        "brain": image(3).astype(ml_dtypes.bfloat16),
        "flag": np.array([True, False]),
        "scalar": np.array(3.5, np.float32),
    }
    x = weft.input("x", "f32[1]")
    values = [weft.ops.identity(weft.constant(array, name)) for name, array in arrays.items()]
    net = weft.net([x], [x, *values])
    assert {*net.weights} == {*arrays}
    path = tmp_path / f"weights{suffix}"
    net.save_weights(path)
    zeros = net.with_weights({name: np.zeros_like(array) for name, array in arrays.items()})
    again = zeros.with_weights(path, partial=False)
    assert again.graph == net.graph
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_other_readers_read_the_files(tmp_path: Path) -> None:
    net = block()
    net.save_weights(tmp_path / "w.safetensors")
    net.save_weights(tmp_path / "w.npz")
    with np.load(tmp_path / "w.npz", allow_pickle=False) as archive:
        for read in (load_file(tmp_path / "w.safetensors"), archive):
            assert {*read} == {*net.weights}
            for name, array in net.weights.items():
                np.testing.assert_array_equal(read[name], array)


def test_refusals_tell_all_that_is_wrong() -> None:
    net = block()
    with pytest.raises(UserError) as caught:
        net.with_weights(
            {
                "conv.wieght": X,
                "conv.bias": np.zeros(4),
                "conv2.weight": np.zeros((4, 4, 3, 3), np.float32),
                "conv2.bias": np.zeros(5, np.float32),
            }
        )
    assert str(caught.value) == (
        "weights: 3 of 4 do not fit graph net; got there is no constant conv.wieght "
        "(did you mean conv.weight?); conv.bias is f32[4], not f64[4]; "
        "conv2.bias is f32[4], not f32[5]"
    )
    with pytest.raises(UserError) as caught:
        net.with_weights({"conv.bias": np.zeros(4, np.float32)}, partial=False)
    assert str(caught.value) == (
        "weights: 3 do not fit graph net; got conv.weight is not given; "
        "conv2.weight is not given; conv2.bias is not given"
    )


def test_files_that_are_not_sound(tmp_path: Path) -> None:
    net = weft.trace(layers.Linear(2), "f32[1,3]")
    hostile = io.BytesIO()
    np.savez(hostile, **{"gemm.weight": np.array([{}], dtype=object)})
    for name, data, message in (
        ("w.npz", b"PK broken", "is not a valid weights file"),
        ("pickle.npz", hostile.getvalue(), "Object arrays cannot be loaded"),
        ("w.safetensors", b"\xff" * 9, "the header of the weights is longer than the weights"),
        ("w.bin", b"", "weights files must be .safetensors or .npz; got w.bin"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=message):
            net.with_weights(tmp_path / name)
    with pytest.raises(UserError) as caught:
        load_weights(tmp_path / "none.npz")
    assert str(caught.value) == f"cannot read {tmp_path / 'none.npz'}: No such file or directory"
    path = tmp_path / "nowhere" / "w.npz"
    with pytest.raises(UserError) as caught:
        net.save_weights(path)
    assert (
        str(caught.value) == f"the output must be writable; got {path}: No such file or directory"
    )
