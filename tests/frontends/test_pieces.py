"""Pieces of files: read when they are needed, never mapped."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from weft.errors import UserError
from weft.frontends import pieces
from weft.frontends.pieces import FilePiece, OpenFile, Section, Window

DATA = bytes(np.arange(3 * 4096 * 4, dtype=np.uint32).view(np.uint8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "model.bin").write_bytes(DATA)
    return tmp_path / "model.bin"


@pytest.mark.parametrize("own", [1, 1 << 30])
def test_a_piece_is_aligned(path: Path, own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_OWN_PAGES", own)
    found = FilePiece(OpenFile(path), 5, 40_000).read()
    assert found.tobytes() == DATA[5:40_005]
    assert found.ctypes.data % 16 == 0
    found[0] = 1  # its memory is its own
    assert path.read_bytes() == DATA


def test_a_file_that_becomes_shorter_is_told(path: Path) -> None:
    piece = FilePiece(OpenFile(path), 0, len(DATA))
    os.truncate(path, 5000)
    with pytest.raises(UserError) as error:
        piece.read()
    assert str(error.value) == (
        "the file of a network must not change while it is read; "
        "got model.bin, which has become shorter (file model.bin)"
    )


def test_a_file_that_is_replaced_is_read_to_the_end(path: Path) -> None:
    piece = FilePiece(OpenFile(path), 0, len(DATA))
    path.with_suffix(".new").write_bytes(b"")
    path.with_suffix(".new").replace(path)
    assert piece.read().tobytes() == DATA


def test_a_folder_is_no_file(path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        OpenFile(path.parent)


def test_a_window_has_the_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_WINDOW", 100)
    window = Window(OpenFile(path))
    assert len(window) == len(DATA)
    for place in (0, 99, 100, 50, 7000, len(DATA) - 1):
        assert window.byte(place) == DATA[place]
    for start, stop in ((0, 0), (10, 20), (150, 900), (10, 20), (len(DATA) - 3, len(DATA))):
        assert window.bytes(start, stop) == DATA[start:stop]
    assert window.piece(3, 9).read().tobytes() == DATA[3:9]


def test_a_section_is_a_file(path: Path) -> None:
    section = Section(FilePiece(OpenFile(path), 1000, 5000))
    assert section.read(10) == DATA[1000:1010]
    assert section.tell() == 10
    assert section.seek(-4, os.SEEK_END) == 4996
    assert section.read() == DATA[5996:6000]
    assert section.read(1) == b""
    assert section.seek(3, os.SEEK_CUR) == 5003
    assert section.read(1) == b""
    assert section.seek(2) == 2
    assert section.readall() == DATA[1002:6000]
