"""Seals: a file is what was written under its name, or it is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from weft.runtime.seal import SEAL_BYTES, seal, unsealed

SIZES = (0, 1, 1000, (1 << 20) - 1, 1 << 20, (3 << 20) + 5)


def sealed(path: Path, size: int) -> bytes:
    data = np.random.default_rng(size).bytes(size)
    path.write_bytes(data)
    seal(path)
    return data


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_is_read(tmp_path: Path, size: int) -> None:
    data = sealed(tmp_path / "entry", size)
    held = bytearray(size)
    assert unsealed(tmp_path / "entry") == data
    assert unsealed(tmp_path / "entry", lambda _: memoryview(held)) == data
    assert held == data
    assert (tmp_path / "entry").stat().st_size == size + SEAL_BYTES


@pytest.mark.parametrize("size", SIZES)
def test_damage_is_noticed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "entry"
    sealed(path, size)
    whole = path.read_bytes()
    generator = np.random.default_rng(size)
    for place in generator.integers(0, len(whole), 20).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        assert unsealed(path) is None
        path.write_bytes(whole[:place])
        assert unsealed(path) is None
        path.write_bytes(whole[:place] + b"\0" + whole[place:])
        assert unsealed(path) is None
    path.write_bytes(whole)
    assert unsealed(path) is not None


def test_pieces_in_another_order_are_noticed(tmp_path: Path) -> None:
    path, piece = tmp_path / "entry", 1 << 20
    data = sealed(path, 2 * piece)
    end = path.read_bytes()[2 * piece :]
    path.write_bytes(data[piece:] + data[:piece] + end)
    assert unsealed(path) is None


def test_another_file_under_its_name_is_noticed(tmp_path: Path) -> None:
    sealed(tmp_path / "one", 100)
    os.rename(tmp_path / "one", tmp_path / "two")
    assert unsealed(tmp_path / "two") is None


def test_what_cannot_be_read_is_not_sound(tmp_path: Path) -> None:
    assert unsealed(tmp_path / "absent") is None
    assert unsealed(tmp_path) is None
