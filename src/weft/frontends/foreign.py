"""Files that Weft does not read: what they are, and what converts them to ONNX.

They are known by their content before their names.  Nothing in them is executed, unpickled or
decompressed: only the first bytes and the names in an archive are looked at.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from weft.errors import UserError

_HEAD = 1 << 16
_KERAS_HEAD = 1 << 24  # where HDF5 files have the attribute that says which layers there are


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is not read.

    Attributes:
        name: what a file is.
        fix: what gives an ONNX file of it; ``{path}``, ``{onnx}`` and ``{out}`` stand for the
            file, the one to be made and a folder to be made, as words of a shell; ``{folder}``
            for the file's folder; ``{py}`` and ``{py_onnx}`` for the first two as strings of
            Python.
    """

    name: str
    fix: str


_LITERT = Format(
    "a LiteRT (TensorFlow Lite) model",
    "Convert it: python -m tf2onnx.convert --tflite {path} --output {onnx}",
)
_SAVED_MODEL = Format(
    "a TensorFlow SavedModel",
    "Convert it: python -m tf2onnx.convert --saved-model {path} --output {onnx}",
)
_GRAPH_DEF = Format(
    "a frozen TensorFlow graph",
    "Convert it: python -m tf2onnx.convert --graphdef {path} --inputs INPUT:0 "
    "--outputs OUTPUT:0 --output {onnx}",
)
_KERAS_MODEL = Format(
    "a Keras model",
    'Convert it, in Python: keras.models.load_model({py}).export({py_onnx}, format="onnx")',
)
_KERAS_WEIGHTS = Format(
    "an HDF5 file of arrays, such as weights of Keras without the network",
    "Build the network in Keras, then in Python: model.load_weights({py}); "
    'model.export({py_onnx}, format="onnx")',
)
_TORCH_SCRIPT = Format(
    "a TorchScript module",
    "Convert it, in Python: torch.onnx.export(torch.jit.load({py}), (EXAMPLE_INPUT,), {py_onnx}, "
    "dynamo=False)",
)
_TORCH_PROGRAM = Format(
    "a program of torch.export",
    "Convert it, in Python: torch.onnx.export(torch.export.load({py}), f={py_onnx}, dynamo=True)",
)
_TORCH_PICKLE = Format(
    "a PyTorch checkpoint, a pickle of weights or of a module, which Weft does not execute",
    "Make the module in Python, model.load_state_dict(torch.load({py})), then: "
    "torch.onnx.export(model.eval(), (EXAMPLE_INPUT,), {py_onnx}, dynamo=True)",
)
_PICKLE = Format(
    "a Python pickle, which Weft does not execute",
    "Export the network with the framework that made it, for example: "
    "torch.onnx.export(model.eval(), (EXAMPLE_INPUT,), {py_onnx}, dynamo=True)",
)
_SAFETENSORS = Format(
    "safetensors: weights without a network",
    "Give them to a network, in Python: net.with_weights({py}); of a Hugging Face model: "
    "optimum-cli export onnx --model FOLDER {out}",
)
_GGUF = Format(
    "GGUF: weights for llama.cpp, without a network",
    "Export the model that it was made from: optimum-cli export onnx --model NAME {out}",
)
_HUGGING_FACE = Format(
    "the folder of a Hugging Face model",
    "Convert it: optimum-cli export onnx --model {path} {out}",
)
_CAFFE = Format(
    "a Caffe model",
    "Convert it: python -m caffe2onnx.convert --prototxt NETWORK.prototxt --caffemodel {path} "
    "--onnx {onnx}",
)
_CORE_ML = Format(
    "a Core ML model", "Export the model that it was made from to ONNX; Core ML has no way back"
)
_ORT = Format("a model in onnxruntime's own format", "Give the ONNX file that it was made from")
_OPENVINO = Format(
    "an OpenVINO network", "Export the model that it was made from to ONNX; there is no way back"
)
_PADDLE = Format(
    "a Paddle model",
    "Convert it: paddle2onnx --model_dir {folder} --model_filename {out}.pdmodel "
    "--params_filename {out}.pdiparams --save_file {onnx}",
)
_TFJS = Format(
    "a TensorFlow.js model",
    "Convert it: python -m tf2onnx.convert --tfjs {path} --output {onnx}",
)
_LFS = Format("a Git LFS pointer instead of the file", "Fetch the file: git lfs pull")
_HTML = Format("a web page instead of a model", "Download the file itself")
_GZIP = Format("compressed by gzip", "Unpack it first: gunzip {path}")
_ARRAYS = Format("an archive of NumPy arrays", "Give the model; arrays are data for `weft run`")
_ZIP = Format("a zip archive", "Unpack it, and give the ONNX file in it")
_WEFT = Format("a .weft file under another name", "Rename it so that it ends in .weft")
_EMPTY = Format("empty", "Download or export it again")

_BY_SUFFIX = {
    ".tflite": _LITERT,
    ".h5": _KERAS_MODEL,
    ".hdf5": _KERAS_MODEL,
    ".keras": _KERAS_MODEL,
    ".pt": _TORCH_PICKLE,
    ".pth": _TORCH_PICKLE,
    ".ckpt": _TORCH_PICKLE,
    ".pt2": _TORCH_PROGRAM,
    ".pb": _GRAPH_DEF,
    ".safetensors": _SAFETENSORS,
    ".gguf": _GGUF,
    ".caffemodel": _CAFFE,
    ".prototxt": _CAFFE,
    ".mlmodel": _CORE_ML,
    ".mlpackage": _CORE_ML,
    ".ort": _ORT,
    ".pdmodel": _PADDLE,
    ".pdiparams": _PADDLE,
    ".pkl": _PICKLE,
}


def refused(path: Path, error: UserError) -> UserError:
    """The error for a file or folder that is no ONNX model: what it is, or what went wrong."""
    found = format_of(path)
    if found is None or (found in (_WEFT, _ZIP) and path.suffix == ".weft"):
        return error
    if found is _SAVED_MODEL and path.is_file():
        path = path.parent
    made = path.with_suffix(".onnx").name if path.suffix else f"{path.name}.onnx"
    fix = found.fix.format(
        path=shlex.quote(str(path)),
        folder=shlex.quote(str(path.parent)),
        onnx=shlex.quote(made),
        out=shlex.quote(path.stem),
        py=_python(str(path)),
        py_onnx=_python(made),
    )
    return UserError(
        "a network is read from an ONNX file, or from a .weft file of Weft's own",
        got=f"{path}, which is {found.name}",
        fix=fix,
    )


def _python(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def format_of(path: Path) -> Format | None:
    """What a file or folder is, by its content, else by its name; nothing if nobody knows."""
    if path.is_dir():
        return _of_folder(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return None
    if size == 0:
        return _EMPTY
    for test, found in _BY_CONTENT:
        if test(head, size):
            return found if isinstance(found, Format) else found(path)
    return _BY_SUFFIX.get(path.suffix.lower())


# --- content --------------------------------------------------------------------------------


def _starts(*magic: bytes) -> Callable[[bytes, int], bool]:
    return lambda head, size: head.startswith(magic)


def _at_four(magic: bytes) -> Callable[[bytes, int], bool]:
    """FlatBuffers have the format's name behind their first offset."""
    return lambda head, size: head[4:8] == magic


def _is_safetensors(head: bytes, size: int) -> bool:
    """The length of a header in JSON, then the header."""
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length <= size - 8


def _is_legacy_torch(head: bytes, size: int) -> bool:
    """A pickle that begins with PyTorch's magic number."""
    return head[:1] == b"\x80" and b"l\xfc\x9cF\xf9 j\xa8P\x19" in head[:64]


def _is_pickle(head: bytes, size: int) -> bool:
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _is_saved_model(head: bytes, size: int) -> bool:
    """Schema version 1, then a graph with its tags, of which ``serve`` is the usual one."""
    return head.startswith(b"\x08\x01\x12") and b"serve" in head


def _is_graph_def(head: bytes, size: int) -> bool:
    """Nodes one after the other, of which the first ones are inputs or constants."""
    ops = (b"\x12\x0bPlaceholder", b"\x12\x05Const")
    return head[:1] == b"\n" and any(each in head[:4096] for each in ops)


def _is_html(head: bytes, size: int) -> bool:
    return head[:64].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _is_openvino(head: bytes, size: int) -> bool:
    return head.lstrip().startswith(b"<") and b"<net " in head[:1024]


def _is_tfjs(head: bytes, size: int) -> bool:
    return head[:1] == b"{" and (b'"modelTopology"' in head or b'"layers-model"' in head)


def _of_hdf5(path: Path) -> Format:
    """Keras writes the network as an attribute of this name."""
    with path.open("rb") as stream:
        return _KERAS_MODEL if b"model_config" in stream.read(_KERAS_HEAD) else _KERAS_WEIGHTS


def _of_zip(path: Path) -> Format:
    """By the names in the archive."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return _BY_SUFFIX.get(path.suffix.lower(), _ZIP)
    for test, found in _BY_NAMES:
        if test(names):
            return found
    return _ZIP


def _ends(*tails: str) -> Callable[[Sequence[str]], bool]:
    """Whether some name in an archive has each of the tails."""
    return lambda names: all(any(each.endswith(tail) for each in names) for tail in tails)


def _parts(*parts: str) -> Callable[[Sequence[str]], bool]:
    """Whether some name in an archive has one of the parts."""
    return lambda names: any(part in f"/{each}" for each in names for part in parts)


_BY_NAMES: tuple[tuple[Callable[[Sequence[str]], bool], Format], ...] = (
    (_ends("graph.txt", "weights.safetensors"), _WEFT),
    (_ends("config.json", "model.weights.h5"), _KERAS_MODEL),
    (_parts("/serialized_exported_program.json", "/archive_format"), _TORCH_PROGRAM),
    (_parts("/code/__torch__"), _TORCH_SCRIPT),
    (_ends("data.pkl"), _TORCH_PICKLE),
    (_ends("constants.pkl"), _TORCH_SCRIPT),
    (lambda names: bool(names) and all(each.endswith(".npy") for each in names), _ARRAYS),
)

_BY_CONTENT: tuple[tuple[Callable[[bytes, int], bool], Format | Callable[[Path], Format]], ...] = (
    (_starts(b"\x89HDF\r\n\x1a\n"), _of_hdf5),
    (_starts(b"PK\x03\x04", b"PK\x05\x06"), _of_zip),
    (_at_four(b"TFL3"), _LITERT),
    (_at_four(b"ORTM"), _ORT),
    (_starts(b"GGUF", b"ggjt", b"lmgg"), _GGUF),
    (_is_safetensors, _SAFETENSORS),
    (_is_legacy_torch, _TORCH_PICKLE),
    (_is_pickle, _PICKLE),
    (_starts(b"version https://git-lfs"), _LFS),
    (_starts(b"\x1f\x8b"), _GZIP),
    (_is_html, _HTML),
    (_is_openvino, _OPENVINO),
    (_is_tfjs, _TFJS),
    (_is_saved_model, _SAVED_MODEL),
    (_is_graph_def, _GRAPH_DEF),
)


# --- folders --------------------------------------------------------------------------------


def _of_folder(path: Path) -> Format | None:
    try:
        names = sorted(each.name for each in path.iterdir())
    except OSError:
        return None
    if "saved_model.pb" in names or "saved_model.pbtxt" in names:
        return _SAVED_MODEL
    models = [name for name in names if name.endswith(".onnx")]
    if models:
        inner = " or ".join(str(path / name) for name in models[:3])
        return Format("a folder", f"Give the file in it: {_braced(inner)}")
    if path.suffix == ".mlpackage":
        return _CORE_ML
    if "config.json" in names and any(each.endswith((".safetensors", ".bin")) for each in names):
        return _HUGGING_FACE
    return Format("a folder", "Give the file of a model")


def _braced(text: str) -> str:
    """Text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
