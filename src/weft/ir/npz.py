"""Read and write NumPy's files of arrays; nothing in them is executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib.format import write_array

_STARTS = b"\x93NUMPY", b"PK"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; ``""`` is the name of the only one of a ``.npy``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is none of NumPy's.
    """
    with path.open("rb") as file:
        head = file.read(len(_STARTS[0]))
    if head and not head.startswith(_STARTS):  # NumPy takes it for pickled data, and says so
        raise ValueError("its content is no array's")
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {"": found}
        with found:
            return {name: found[name] for name in found.files}
    except (EOFError, BadZipFile) as error:
        raise ValueError(str(error)) from error


def write_arrays(arrays: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    """Writes an ``.npz``, always the same for the same arrays."""
    # Not numpy.savez, to which an array called "file" could not be given.
    with ZipFile(file, "w", ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as member:
                write_array(member, np.asarray(array), allow_pickle=False)
