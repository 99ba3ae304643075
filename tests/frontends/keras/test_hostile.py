"""Files that are broken or mean harm: refused with an error, whole, within bounds."""

from __future__ import annotations

import io
import json
import random
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from weft.errors import UserError
from weft.frontends.keras import load
from weft.frontends.keras.config import Config

h5py = pytest.importorskip("h5py")


def layer(kind, name, **config):
    return {
        "module": "keras.layers",
        "class_name": kind,
        "config": {"name": name, **config},
        "name": name,
    }


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"name": "net", "layers": list(layers)}}


DENSE = sequential(
    layer("InputLayer", "x", batch_shape=[None, 4]),
    layer("Dense", "y", units=3, activation="relu"),
)

SOUND = [layer("InputLayer", "x", batch_shape=[1, 64])]


def weights(**arrays):
    """An HDF5 file with these arrays; a path for each."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for path, array in arrays.items():
            file[path] = array
    return stream.getvalue()


def good():
    kernel = np.arange(12, dtype=np.float32).reshape(4, 3)
    return weights(**{"layers/dense/vars/0": kernel, "layers/dense/vars/1": np.ones(3, np.float32)})


def keras_file(path, config, data=None, *, compress=zipfile.ZIP_STORED, **more):
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.8.0"}))
        archive.writestr("model.weights.h5", good() if data is None else data)
        for name, text in more.items():
            archive.writestr(name.replace("__", "../"), text)
    return path


def refused(path: Path, match: str) -> None:
    with pytest.raises(UserError, match=match):
        load(path)


def test_the_good_one_is_read(tmp_path):
    graph = load(keras_file(tmp_path / "net.keras", DENSE))
    assert [node.op for node in graph.nodes] == ["MatMul", "Add", "Relu"]


@pytest.mark.parametrize("compress", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_weights_are_those_of_the_file(tmp_path, compress):
    path = keras_file(tmp_path / "net.keras", DENSE, compress=compress)
    kernel, bias = load(path).constants.values()
    path.write_bytes(bytes(path.stat().st_size))
    assert np.array_equal(kernel, np.arange(12).reshape(4, 3))
    assert np.array_equal(bias, np.ones(3))
    assert not kernel.flags.writeable


def test_stored_weights_have_a_checksum(tmp_path):
    path = keras_file(tmp_path / "net.keras", DENSE)
    kernel = np.arange(12, dtype=np.float32).tobytes()
    path.write_bytes(path.read_bytes().replace(kernel, kernel[:-1] + b"\0"))
    refused(path, "the file is broken; got BadZipFile: Bad CRC-32 for file 'model.weights.h5'")


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "which is no object"),
        ({"class_name": "Sequential"}, "a layer without class or configuration"),
        (sequential(), "a model without layers"),
        (sequential({"class_name": "Dense"}), "a layer without class"),
        (sequential(layer("InputLayer", "x", batch_shape=[None, -4])), "an input of shape"),
        (sequential(layer("InputLayer", "x", batch_shape=[None, 1 << 50])), "16 GiB"),
        (sequential(layer("InputLayer", "x\n", batch_shape=[1, 4])), "a layer whose name is"),
        (
            sequential(layer("InputLayer", "x", batch_shape=[1, 4], dtype="object")),
            "dtype must be that of an array of numbers",
        ),
        (
            sequential(*DENSE["config"]["layers"], layer("RepeatVector", "z", n=1 << 38)),
            r"z \(RepeatVector\): its output has more than 16 GiB",
        ),
        (
            sequential(DENSE["config"]["layers"][0], layer("Dense", "y", units="3", use_bias="no")),
            r"y \(Dense\): use_bias must be true or false; got no",
        ),
        (
            sequential(DENSE["config"]["layers"][0], layer("Dense", "y", units=3, magic=7)),
            r"y \(Dense\): magic=7 is not supported",
        ),
        (
            sequential(
                layer("InputLayer", "x", batch_shape=[1, 4]),
                layer("CategoryEncoding", "y", num_tokens=1 << 33),
            ),
            "there must be 1 to 16,777,216 categories, but are 8,589,934,592",
        ),
        (
            sequential(
                layer("InputLayer", "x", batch_shape=[1, 4, 3]),
                layer("AdaptiveMaxPooling1D", "y", output_size=(1 << 33) + 1),
            ),
            "more than 1024 windows of different sizes",
        ),
        (
            sequential(*SOUND, layer("MelSpectrogram", "y", fft_length=1 << 33)),
            r"sequence_length must be a whole number within \[1, 16777216\], but is 8589934592",
        ),
        (
            sequential(*SOUND, layer("MelSpectrogram", "y", fft_length=8, num_mel_bins=1 << 30)),
            "filters must have at most 16777216 elements",
        ),
        (
            sequential(*SOUND, layer("MelSpectrogram", "y", fft_length=8, window={"a": 1})),
            r"y \(MelSpectrogram\): its configuration, weights and inputs do not fit",
        ),
        (
            sequential(
                DENSE["config"]["layers"][0],
                layer("Dense", "y", units=3, dtype={"config": {"mode": "int8"}}),
            ),
            r"y \(Dense\): layers that Keras quantized \(int8\) are not supported",
        ),
        (
            sequential(layer("InputLayer", "x", batch_shape=[1, 5]), layer("Dense", "y", units=3)),
            r"y \(Dense\): matmul",
        ),
        (
            sequential(DENSE["config"]["layers"][0], layer("Lambda", "y", function="boom")),
            "it holds Python code, which is not executed",
        ),
    ],
)  # fmt: skip
def test_configurations_that_are_refused(config, match, tmp_path):
    refused(keras_file(tmp_path / "net.keras", config), match)


def test_fields_that_change_what_is_computed_are_not_ignored():
    fields = {"time_major": True, "trainable": True, "kernel_initializer": "zeros", "unroll": True}
    assert Config(fields).unread() == ["time_major=True"]


def functional(layers, inputs, outputs):
    config = {"name": "n", "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"class_name": "Functional", "config": config}


def test_connections_that_are_refused(tmp_path):
    x = {**layer("InputLayer", "x", batch_shape=[None, 4]), "inbound_nodes": []}

    def node(name, *refs):
        relu = layer("ReLU", name)
        return {**relu, "inbound_nodes": [[[*each, {}] for each in refs]]}

    cases = [
        (functional([x, node("y", ["y", 0, 0])], [["x", 0, 0]], [["y", 0, 0]]), "nothing makes: y"),
        (
            functional([x, node("y", ["z", 0, 0])], [["x", 0, 0]], [["y", 0, 0]]),
            "which is no layer",
        ),
        (functional([x, node("y", ["x", 0, 9])], [["x", 0, 0]], [["y", 0, 0]]), "does not have"),
        (functional([x, x], [["x", 0, 0]], [["x", 0, 0]]), "layers of the same name"),
        (functional([x], [["y", 0, 0]], [["x", 0, 0]]), "no input layer"),
        (functional([x], [["x", 0, 0]], "x"), "a list of tensors"),
        (functional([x], [["x", -1, 0]], [["x", 0, 0]]), "a tensor that is"),
    ]
    for config, match in cases:
        refused(keras_file(tmp_path / "net.keras", config), match)


def test_models_inside_of_models_without_end(tmp_path):
    inner = DENSE
    for _ in range(60):
        inner = sequential(layer("InputLayer", "x", batch_shape=[None, 4]), {**inner, "name": "m"})
    refused(keras_file(tmp_path / "net.keras", inner), "models in models without end")


def test_layers_and_arguments_inside_of_each_other_without_end(tmp_path):
    x = layer("InputLayer", "x", batch_shape=[1, 4])
    inner = layer("ReLU", "y")
    for _ in range(300):
        inner = layer("SpectralNormalization", "y", layer=inner)
    match = "layers or arguments in each other without end"
    refused(keras_file(tmp_path / "net.keras", sequential(x, inner)), match)
    nested = 0
    for _ in range(600):
        nested = [nested]
    call = {"args": [nested], "kwargs": {}}
    layers = [{**x, "inbound_nodes": []}, {**layer("ReLU", "y"), "inbound_nodes": [call]}]
    whole = functional(layers, [["x", 0, 0]], [["y", 0, 0]])
    refused(keras_file(tmp_path / "net.keras", whole), match)


# --- archives ----------------------------------------------------------------------------------


def test_bombs_and_names_outside(tmp_path):
    path = tmp_path / "net.keras"
    zeros = bytes(1 << 26)
    keras_file(path, DENSE, zeros, compress=zipfile.ZIP_DEFLATED)
    refused(path, "must not be larger than the file accounts for")
    refused(keras_file(path, DENSE, __evil="x"), "names in the file must stay inside it")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(DENSE))
    refused(path, "the weights must be one array file")


def test_weights_outside_of_the_file(tmp_path):
    secret = tmp_path / "secret.h5"
    secret.write_bytes(weights(kernel=np.ones((4, 3), np.float32)))
    for name in ("soft", "external", "storage", "virtual"):
        part = tmp_path / f"{name}.h5"
        with h5py.File(part, "w") as file:
            group = file.create_group("layers/dense/vars")
            group["1"] = np.ones(3, np.float32)
            if name == "soft":
                file["kernel"] = np.ones((4, 3), np.float32)
                group["0"] = h5py.SoftLink("/kernel")
            elif name == "external":
                group["0"] = h5py.ExternalLink(str(secret), "kernel")
            elif name == "storage":
                group.create_dataset("0", (4, 3), "f4", external=[(str(secret), 0, 48)])
            else:
                layout = h5py.VirtualLayout((4, 3), "f4")
                layout[:] = h5py.VirtualSource(str(secret), "kernel", (4, 3))
                group.create_virtual_dataset("0", layout)
        match = (
            "a link out of its place" if name in ("soft", "external") else "must lie in the model"
        )
        refused(keras_file(tmp_path / "net.keras", DENSE, part.read_bytes()), match)


def test_weights_that_declare_too_much_or_are_no_numbers(tmp_path):
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        # Never written, so the file is small.
        file.create_dataset("layers/dense/vars/0", (1 << 16, 1 << 16), "f4")
        file["layers/dense/vars/1"] = np.ones(3, np.float32)
    match = "must not be larger than their file accounts for"
    refused(keras_file(tmp_path / "net.keras", DENSE, stream.getvalue()), match)
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("layers/dense/vars/0", (4, 3), "f4", chunks=(4, 3))
        file["layers/dense/vars/1"] = np.array([b"a", b"b", b"c"])
    refused(keras_file(tmp_path / "net.keras", DENSE, stream.getvalue()), "arrays of numbers")
    empty = weights(other=np.ones(3, np.float32))
    refused(
        keras_file(tmp_path / "net.keras", DENSE, empty), "its weight kernel must be in the file"
    )


def h5_file(path):
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(DENSE)
        file.attrs["keras_version"] = "2.4.0"
        group = file.create_group("model_weights/y")
        group.attrs["weight_names"] = [b"y/kernel:0", b"y/bias:0"]
        group["y/kernel:0"] = np.ones((4, 3), np.float32)
        group["y/bias:0"] = np.ones(3, np.float32)
    return path


def test_the_good_h5_is_read_and_weights_alone_are_refused(tmp_path):
    assert len(load(h5_file(tmp_path / "net.h5")).nodes) == 3
    (tmp_path / "weights.h5").write_bytes(good())
    refused(tmp_path / "weights.h5", "must have its layers, not only weights")


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_cut_and_flipped_files_are_read_or_refused(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    data = (h5_file(path) if suffix == ".h5" else keras_file(path, DENSE)).read_bytes()
    numbers = random.Random(1)
    for turn in range(200):
        broken = bytearray(data)
        if turn % 4 == 0:
            del broken[numbers.randrange(len(data)) :]
        else:
            for _ in range(numbers.choice((1, 1, 2, 8))):
                broken[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
        path.write_bytes(broken)
        with suppress(UserError):
            load(path)


def test_configurations_with_fields_of_other_kinds_are_read_or_refused(tmp_path):
    """Every field of some layers becomes something else."""
    x = layer("InputLayer", "x", batch_shape=[None, 6, 6, 2])
    convolution = layer(
        "Conv2D", "c", filters=2, kernel_size=[3, 3], strides=[1, 1], padding="same",
        data_format="channels_last", dilation_rate=[1, 1], groups=1, activation="relu",
    )  # fmt: skip
    pool = layer("MaxPooling2D", "p", pool_size=[2, 2], padding="valid", strides=None)
    norm = layer("BatchNormalization", "b", axis=[3], epsilon=1e-3)
    shape = layer("Reshape", "r", target_shape=[-1])
    data = weights(
        **{
            "layers/conv2d/vars/0": np.ones((3, 3, 2, 2), np.float32),
            "layers/conv2d/vars/1": np.ones(2, np.float32),
            **{f"layers/batch_normalization/vars/{at}": np.ones(2, np.float32) for at in range(4)},
        }
    )
    layers = [x, convolution, pool, norm, shape]
    assert load(keras_file(tmp_path / "net.keras", sequential(*layers), data)).nodes
    others = [
        None,
        True,
        -1,
        0,
        1.5,
        1 << 70,
        "x",
        "",
        [],
        [0],
        [None],
        [[1]],
        {},
        {"a": 1},
        [9] * 9,
    ]
    read = 0
    for place, each in enumerate(layers):
        for name in each["config"]:
            for other in others:
                changed = {**each, "config": {**each["config"], name: other}}
                parts = [*layers[:place], changed, *layers[place + 1 :]]
                keras_file(tmp_path / "net.keras", sequential(*parts), data)
                with suppress(UserError):
                    load(tmp_path / "net.keras")
                    read += 1
    assert read > 20
