"""Files of other formats are named for what they are, with what converts them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import weft
from tests.cli.commands import bad
from weft.errors import UserError
from weft.frontends.foreign import format_of


def archive(*names: str) -> bytes:
    """A zip archive with files of these names, which hold nothing."""
    stream = io.BytesIO()
    with ZipFile(stream, "w") as made:
        for name in names:
            made.writestr(name, "")
    return stream.getvalue()


HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(100)
SAFETENSORS = (2).to_bytes(8, "little") + b"{}"
LEGACY_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
CASES: tuple[tuple[str, bytes, str, str], ...] = (
    (
        "lite.onnx",
        b"\x1c\0\0\0TFL3" + bytes(40),
        "a LiteRT model under another name",
        "Rename it so that it ends in .tflite",
    ),
    (
        "net.onnx",
        HDF5 + b"model_config",
        "a Keras model under another name",
        "Rename it so that it ends in .keras or .h5",
    ),
    (
        "renamed.onnx",
        archive("metadata.json", "config.json", "model.weights.h5"),
        "a Keras model under another name",
        "Rename it so that it ends in .keras or .h5",
    ),
    (
        "net.hdf",
        HDF5,
        "an HDF5 file of arrays, such as weights of Keras without the network",
        'Build the network in Keras, then in Python: model.load_weights("{path}"); '
        'model.save("MODEL.keras")',
    ),
    (
        "net.pt",
        archive("net/data.pkl", "net/data/0", "net/version"),
        "a PyTorch checkpoint, a pickle of weights or of a module, which Weft does not execute",
        'Make the module in Python, model.load_state_dict(torch.load("{path}")), then: '
        'torch.onnx.export(model.eval(), (EXAMPLE_INPUT,), "net.onnx", dynamo=True)',
    ),
    (
        "net.pth",
        LEGACY_TORCH,
        "a PyTorch checkpoint, a pickle of weights or of a module, which Weft does not execute",
        'Make the module in Python, model.load_state_dict(torch.load("{path}")), then: '
        'torch.onnx.export(model.eval(), (EXAMPLE_INPUT,), "net.onnx", dynamo=True)',
    ),
    (
        "script.pt",
        archive("net/data.pkl", "net/code/__torch__/net.py", "net/constants.pkl"),
        "a TorchScript module",
        'Convert it, in Python: torch.onnx.export(torch.jit.load("{path}"), (EXAMPLE_INPUT,), '
        '"script.onnx", dynamo=False)',
    ),
    (
        "net.pt2",
        archive("net/models/model.json", "net/archive_format"),
        "a program of torch.export",
        'Convert it, in Python: torch.onnx.export(torch.export.load("{path}"), f="net.onnx", '
        "dynamo=True)",
    ),
    (
        "frozen.pb",
        b"\n\x12\n\x01x\x12\x0bPlaceholder" + bytes(20),
        "a frozen TensorFlow graph",
        "Convert it: python -m tf2onnx.convert --graphdef {path} --inputs INPUT:0 "
        "--outputs OUTPUT:0 --output frozen.onnx",
    ),
    (
        "net.safetensors",
        SAFETENSORS,
        "safetensors: weights without a network",
        'Give them to a network, in Python: net.with_weights("{path}"); of a Hugging Face model: '
        "optimum-cli export onnx --model FOLDER net",
    ),
    (
        "net.gguf",
        b"GGUF\x03\0\0\0" + bytes(40),
        "GGUF: weights for llama.cpp, without a network",
        "Export the model that it was made from: optimum-cli export onnx --model NAME net",
    ),
    (
        "net.caffemodel",
        b"\n\x07net",
        "a Caffe model",
        "Convert it: python -m caffe2onnx.convert --prototxt NETWORK.prototxt "
        "--caffemodel {path} --onnx net.onnx",
    ),
    (
        "net.ort",
        b"\x1c\0\0\0ORTM" + bytes(40),
        "a model in onnxruntime's own format",
        "Give the ONNX file that it was made from",
    ),
    ("net.onnx", b"", "empty", "Download or export it again"),
    (
        "lfs.onnx",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
        "a Git LFS pointer instead of the file",
        "Fetch the file: git lfs pull",
    ),
    (
        "page.onnx",
        b"<!DOCTYPE html>\n<html>",
        "a web page instead of a model",
        "Download the file itself",
    ),
)


@pytest.mark.parametrize(("name", "data", "what", "fix"), CASES, ids=[case[0] for case in CASES])
def test_files_are_named_with_what_converts_them(tmp_path, name, data, what, fix):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        weft.load(path)
    error = caught.value
    assert error.rule == "a network must be in a format that Weft reads"
    assert error.got == f"{path}, which is {what}"
    assert error.fix == fix.replace("{path}", str(path))


@pytest.mark.parametrize(("name", "data", "what", "fix"), CASES[:8], ids=[c[0] for c in CASES[:8]])
def test_content_comes_before_the_name(tmp_path, name, data, what, fix):
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        weft.load(path)
    assert caught.value.got == f"{path}, which is {what}"


def test_the_name_says_what_content_does_not(tmp_path):
    for suffix, what in ((".pt2", "torch.export"), (".mlmodel", "Core ML")):
        path = tmp_path / f"odd{suffix}"
        path.write_bytes(b"\xff\xff nothing known")
        found = format_of(path)
        assert found is not None
        assert what in found.name


@pytest.mark.parametrize("ending", ["pdmodel", "pdiparams"])
def test_paddle_has_two_files_in_a_folder(tmp_path, ending):
    """Its converter takes the folder, and the names of both files in it."""
    path = tmp_path / "my net" / f"infer.{ending}"
    path.parent.mkdir()
    path.write_bytes(b"\x01 nothing to be known by")
    with pytest.raises(UserError) as error:
        weft.load(path)
    assert error.value.fix == (
        f"Convert it: paddle2onnx --model_dir '{path.parent}' --model_filename infer.pdmodel "
        "--params_filename infer.pdiparams --save_file infer.onnx"
    )


def test_nothing_is_unpickled(tmp_path):
    canary = tmp_path / "executed"

    class Harmful:
        def __reduce__(self):
            return Path.touch, (canary,)

    data = pickle.dumps(Harmful())
    (tmp_path / "net.pkl").write_bytes(data)
    with ZipFile(tmp_path / "net.pt", "w") as made:
        made.writestr("net/data.pkl", data)
    for name in ("net.pkl", "net.pt"):
        with pytest.raises(UserError, match="which Weft does not execute"):
            weft.load(tmp_path / name)
    assert not canary.exists()


def test_folders_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.frontends.saved_model.has_tensorflow", lambda: False)
    saved = tmp_path / "saved model"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"\x08\x01\x12\x05serve")
    fix = "Install TensorFlow, with which Weft reads it: pip install tensorflow 'weft[litert]'"
    for path in (saved, saved / "saved_model.pb"):
        with pytest.raises(UserError) as caught:
            weft.load(path)
        assert caught.value.got == f"{saved}, which is a TensorFlow SavedModel"
        assert caught.value.fix == fix
    assert bad("show", saved) == (
        "error: a network must be in a format that Weft reads\n"
        f"  got: {saved}, which is a TensorFlow SavedModel\n"
        f"  fix: {fix}\n"
    )
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "config.json").write_text("{}")
    (tmp_path / "hub" / "model.safetensors").write_bytes(SAFETENSORS)
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "hub")
    assert caught.value.fix == f"Convert it: optimum-cli export onnx --model {tmp_path / 'hub'} hub"
    (tmp_path / "hub" / "model.onnx").touch()
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "hub")
    assert caught.value.fix == f"Give the file in it: {tmp_path / 'hub' / 'model.onnx'}"


def test_a_weft_file_is_known_by_its_content(tmp_path):
    x = weft.input("x", "f32[2]")
    weft.net([x], [(x + 1).named("y")]).save(tmp_path / "net.weft")
    (tmp_path / "net.weft").rename(tmp_path / "net.onnx")
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "net.onnx")
    assert caught.value.fix == "Rename it so that it ends in .weft"
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    (tmp_path / "arrays.npz").rename(tmp_path / "arrays.weft")
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "arrays.weft")
    assert caught.value.got == f"{tmp_path / 'arrays.weft'}, which is an archive of NumPy arrays"


def test_damaged_onnx_files_stay_damaged_onnx_files(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x0a\xff\xff\xff")
    with pytest.raises(UserError, match="the file is damaged or not an ONNX model"):
        weft.load(path)
