"""Memory of networks: aligned, private, zero at first, and shared where it is the same."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from weft.runtime.cache import Damaged
from weft.runtime.memory import HUGE_PAGE, RunMemory, content
from weft.runtime.seal import seal


@pytest.mark.parametrize("size", [1, 4096, HUGE_PAGE // 2, HUGE_PAGE + 1, 3 * HUGE_PAGE])
def test_memory_is_zero_writeable_and_aligned(size: int) -> None:
    memory = RunMemory(size)
    array = np.frombuffer(memory.view(), np.uint8)
    assert array.size == size
    assert not array.any()
    assert array.ctypes.data == memory.address
    array[:] = 7
    assert ctypes.string_at(memory.address + size - 1, 1) == b"\7"
    assert memory.address % (HUGE_PAGE if size >= HUGE_PAGE // 2 else 4096) == 0


def sealed(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    seal(path)


@pytest.mark.parametrize("size", [100, 5 * HUGE_PAGE + 3])
def test_content_is_that_of_the_file_and_private(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8).tobytes()
    path = tmp_path / "weights.bin"
    sealed(path, data)
    found = content(path)
    assert found.size == size
    assert ctypes.string_at(found.address, size) == data
    assert bytes(found.view()) == data
    found.view()[:4] = b"\1\2\3\4"
    assert path.read_bytes()[:size] == data


def test_content_stays_when_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    sealed(path, b"abc" * 5000)
    found = content(path)
    os.truncate(path, 0)  # whoever had mapped the file would die of a bus error
    assert bytes(found.view()) == b"abc" * 5000


def test_those_who_ask_for_a_file_share_its_content(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    sealed(path, b"abc")
    first, second = content(path), content(path)
    assert first is second
    del first, second
    gc.collect()
    path.unlink()
    sealed(path, b"defg")
    assert bytes(content(path).view()) == b"defg"


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    sealed(path, b"abc")
    path.write_bytes(b"abd" + path.read_bytes()[3:])
    with pytest.raises(Damaged) as error:
        content(path)
    assert str(error.value) == (
        f"a file of the cache must stay as it was written; got {path}, which is damaged. "
        "It will be made anew; run again."
    )
