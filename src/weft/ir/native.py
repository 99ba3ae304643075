"""The native file format: one zip archive, stored, of the graph's text and its weights.

``graph.txt`` is what ``weft.ir.text.show`` prints, ``weights.safetensors`` holds the
constants that it refers to.  Nothing in a file is ever executed.  A file is written whole
or not at all, and equal graphs give equal bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import error as StructError
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from weft.atomic import replacing
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.safetensors import read_tensors, write_tensors
from weft.ir.text import AttributeClass, parse, references, show

_FORMAT = "// weft graph, format 1\n"
_TEXT = "graph.txt"
_WEIGHTS = "weights.safetensors"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph to a file, which is replaced if there is one."""
    text = _FORMAT + show(graph, defaults=True)
    weights = references(graph)
    with replacing(path) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(_TEXT, _EPOCH), text.encode("utf-8", "surrogatepass"))
        with archive.open(ZipInfo(_WEIGHTS, _EPOCH), "w", force_zip64=True) as member:
            write_tensors(weights, member)


def load(path: str | os.PathLike[str], attribute_class: AttributeClass) -> Graph:
    """Read a graph from a file that ``save`` wrote.

    Args:
        path: the file.
        attribute_class: the attribute class of an op's name.
    """
    path = Path(path)
    try:
        text, weights = _read(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (BadZipFile, StructError, EOFError, RuntimeError, ValueError, OverflowError) as error:
        raise UserError(f"{path} is not a valid .weft file", got=str(error)) from None
    if not text.startswith(_FORMAT):
        raise UserError(
            f"{path} has a format that this version of Weft does not support",
            got=text.split("\n", 1)[0][:60],
        )
    return parse(text, attribute_class, weights)


def _read(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    limit = path.stat().st_size
    with ZipFile(path) as archive:
        for info in archive.infolist():
            # Stored, so that no small file becomes a large one.
            if info.compress_type != ZIP_STORED or info.file_size > limit:
                raise BadZipFile(f"{info.filename} is compressed or larger than the file")
        names = sorted(archive.namelist())
        if names != [_TEXT, _WEIGHTS]:
            raise BadZipFile(f"it holds {', '.join(names)[:200] or 'nothing'}")
        text = archive.read(_TEXT).decode("utf-8", "surrogatepass")
        weights = read_tensors(archive.read(_WEIGHTS))
    return text, weights
