"""Files that Weft does not read: what they are, and what converts them to what it reads.

They are known by their content before their names.  Nothing in them is executed, unpickled or
decompressed: only the first bytes and the names in an archive are looked at.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from weft.errors import UserError
from weft.records import dataclass

_HEAD = 1 << 16
_HDF5, _ZIPS = b"\x89HDF\r\n\x1a\n", (b"PK\x03\x04", b"PK\x05\x06")
_KERAS_HEAD = 1 << 24  # where HDF5 files have the attribute that says which layers there are


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is not read: a row of ``formats.toml``, which says what the fields mean."""

    name: str
    fix: str
    suffixes: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()
    fifth: str = ""

    def begins_as(self, head: bytes) -> bool:
        """Whether a file's first bytes are those of this format."""
        begins = tuple(each.encode("latin-1") for each in self.begins)
        return head.startswith(begins) or head[4:8] == self.fifth.encode() != b""


@cache
def _formats() -> Mapping[str, Format]:
    text = files("weft.frontends").joinpath("formats.toml").read_text(encoding="utf-8")
    return {name: Format(**row) for name, row in tomllib.loads(text).items()}


def _by_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return next((name for name, each in _formats().items() if suffix in each.suffixes), "")


def refused(path: Path, error: UserError) -> UserError:
    """The error for a file or folder without a readable model: what it is, or what went wrong."""
    found, formats = format_of(path), _formats()
    if found is None or (found in (formats["weft"], formats["zip"]) and path.suffix == ".weft"):
        return error
    if found is formats["saved_model"] and path.is_file():
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
        "a network must be in a format that Weft reads",
        got=f"{path}, which is {found.name}",
        fix=fix,
    )


def _python(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def format_of(path: Path) -> Format | None:
    """What a file or folder is, by its content, else by its name; nothing if nobody knows."""
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    return found if isinstance(found, Format) else _formats().get(found)


def _of_file(path: Path) -> str:
    """The name of a format; empty if nobody knows."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return ""
    if size == 0:
        return "empty"
    if head.startswith(_HDF5):
        return _of_hdf5(path)
    if head.startswith(_ZIPS):
        return _of_zip(path)
    declared = (name for name, each in _formats().items() if each.begins_as(head))
    tested = (name for name, test in _TESTS.items() if test(head, size))
    return next(declared, "") or next(tested, "") or _by_suffix(path)


# --- content --------------------------------------------------------------------------------


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


def _is_tfjs(head: bytes, size: int) -> bool:
    return head[:1] == b"{" and (b'"modelTopology"' in head or b'"layers-model"' in head)


def _of_hdf5(path: Path) -> str:
    """Keras writes the network as an attribute of this name."""
    with path.open("rb") as stream:
        return "keras_model" if b"model_config" in stream.read(_KERAS_HEAD) else "keras_weights"


def _of_zip(path: Path) -> str:
    """By the names in the archive."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return _by_suffix(path) or "zip"
    return next((found for test, found in _BY_NAMES if test(names)), "zip")


def _ends(*tails: str) -> Callable[[Sequence[str]], bool]:
    """Whether some name in an archive has each of the tails."""
    return lambda names: all(any(each.endswith(tail) for each in names) for tail in tails)


def _parts(*parts: str) -> Callable[[Sequence[str]], bool]:
    """Whether some name in an archive has one of the parts."""
    return lambda names: any(part in f"/{each}" for each in names for part in parts)


_BY_NAMES: tuple[tuple[Callable[[Sequence[str]], bool], str], ...] = (
    (_ends("graph.txt", "weights.safetensors"), "weft"),
    (_ends("config.json", "model.weights.h5"), "keras_model"),
    (_parts("/serialized_exported_program.json", "/archive_format"), "torch_program"),
    (_parts("/code/__torch__"), "torch_script"),
    (_ends("data.pkl"), "torch_pickle"),
    (_ends("constants.pkl"), "torch_script"),
    (lambda names: bool(names) and all(each.endswith(".npy") for each in names), "arrays"),
)

_TESTS: Mapping[str, Callable[[bytes, int], bool]] = {
    "safetensors": _is_safetensors,
    "torch_pickle": _is_legacy_torch,
    "pickle": _is_pickle,
    "html": lambda head, size: head[:64].lstrip().lower().startswith((b"<!doctype html", b"<html")),
    "openvino": lambda head, size: head.lstrip().startswith(b"<") and b"<net " in head[:1024],
    "tfjs": _is_tfjs,
    "saved_model": _is_saved_model,
    "graph_def": _is_graph_def,
}


# --- folders --------------------------------------------------------------------------------


def _of_folder(path: Path) -> Format | str:
    try:
        names = sorted(each.name for each in path.iterdir())
    except OSError:
        return ""
    if "saved_model.pb" in names or "saved_model.pbtxt" in names:
        return "saved_model"
    models = [name for name in names if name.endswith(".onnx")]
    if models:
        inner = " or ".join(str(path / name) for name in models[:3])
        return Format("a folder", f"Give the file in it: {_braced(inner)}")
    if path.suffix == ".mlpackage":
        return "core_ml"
    if "config.json" in names and any(each.endswith((".safetensors", ".bin")) for each in names):
        return "hugging_face"
    return Format("a folder", "Give the file of a model")


def _braced(text: str) -> str:
    """Text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
