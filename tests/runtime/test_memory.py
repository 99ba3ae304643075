"""Memory of networks: aligned, private, zero at first, and shared where it is the same."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from weft.errors import UserError
from weft.runtime.memory import HUGE_PAGE, MappedFile, Memory, content


@pytest.mark.parametrize("size", [1, 4096, HUGE_PAGE // 2, HUGE_PAGE + 1, 3 * HUGE_PAGE])
def test_memory_is_zero_writeable_and_aligned(size: int) -> None:
    memory = Memory(size)
    array = np.frombuffer(memory.view(), np.uint8)
    assert array.size == size
    assert not array.any()
    assert array.ctypes.data == memory.address
    array[:] = 7
    assert ctypes.string_at(memory.address + size - 1, 1) == b"\7"
    assert memory.address % (HUGE_PAGE if size >= HUGE_PAGE // 2 else 4096) == 0


@pytest.mark.parametrize("size", [100, 5 * HUGE_PAGE + 3])
def test_content_is_that_of_the_file_and_private(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8).tobytes()
    path = tmp_path / "weights.bin"
    path.write_bytes(data)
    found = content(path)
    assert ctypes.string_at(found.address, size) == data
    assert bytes(found.view()) == data
    found.view()[:4] = b"\1\2\3\4"
    assert path.read_bytes() == data
    assert isinstance(found, Memory if size > HUGE_PAGE else MappedFile)


def test_those_who_ask_for_a_file_share_its_content(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"abc")
    first, second = content(path), content(path)
    assert first is second
    del first, second
    gc.collect()
    path.unlink()
    path.write_bytes(b"defg")
    assert bytes(content(path).view()) == b"defg"


def test_a_file_that_shrinks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(5 * HUGE_PAGE))
    longer = os.stat_result([*path.stat()[:6], 6 * HUGE_PAGE, *path.stat()[7:]])
    monkeypatch.setattr(Path, "stat", lambda *_args, **_options: longer)
    with pytest.raises(UserError, match="became shorter while it was read"):
        content(path)
