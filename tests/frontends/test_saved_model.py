"""SavedModels: TensorFlow converts them; what it cannot convert is refused with its reason."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import UserError
from weft.frontends import saved_model

needs_tensorflow = pytest.mark.skipif(
    not saved_model.has_tensorflow(), reason="TensorFlow is not installed"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "saved"
    made.mkdir()
    (made / "saved_model.pb").write_bytes(b"\x08\x01\x12\x05serve")
    return made


def _python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Has other code run in place of Python with TensorFlow: "$3" is the folder, "$4" the file."""
    script = tmp_path / "python"
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr("weft.frontends.saved_model.has_tensorflow", lambda: True)


def test_what_tensorflow_converts_is_read(
    folder: Path, tmp_path: Path, shared_models: Path, monkeypatch
):
    shutil.copy(shared_models / "tiny" / "ad_float.tflite", tmp_path / "ad.tflite")
    _python(tmp_path, monkeypatch, f'test "$3" = "{folder}" && cp "{tmp_path}/ad.tflite" "$4"')
    for path in (folder, folder / "saved_model.pb"):
        net = weft.load(path)
        assert net.graph.name == "saved"
        assert len(net.inputs) == len(net.outputs) == 1
    assert not list(tmp_path.glob("weft-*"))


def test_what_tensorflow_cannot_convert_is_refused(folder: Path, tmp_path: Path, monkeypatch):
    _python(tmp_path, monkeypatch, "echo 'loading ...' >&2", "echo 'no such op: Foo' >&2", "exit 1")
    with pytest.raises(UserError) as caught:
        weft.load(folder)
    assert str(caught.value) == (
        f"TensorFlow must be able to convert a SavedModel to LiteRT; got no such op: Foo ({folder})"
    )
    _python(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(UserError) as caught:
        weft.load(folder)
    assert caught.value.got == "exit code 0"


@needs_tensorflow
def test_a_function_of_tensorflow(tmp_path: Path):
    import tensorflow as tf  # noqa: PLC0415

    weight = np.random.default_rng(0).standard_normal((3, 3, 2, 4)).astype(np.float32)

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, 8, 8, 2], tf.float32)])
        def run(self, x):
            return tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME"))

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "net"), signatures=model.run)
    net = weft.load(tmp_path / "net")
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 2)).astype(np.float32)
    expected = model.run(tf.constant(x)).numpy()
    np.testing.assert_allclose(net.compile()(x), expected, atol=1e-5)
    assert "Transpose" not in {node.op for node in net.graph.nodes}
