"""Records: what was built is found again, whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.dtypes import DType
from weft.plan.program import Port
from weft.runtime.cache import Cache
from weft.runtime.record import Built, forget, read_record, recall, remember, write_record

KEY = "k" * 40


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def entry(cache: Cache, name: str) -> Path:
    def make(path: Path) -> None:
        path.write_bytes(b"content of " + name.encode())

    return cache.get(name, make)


@pytest.fixture
def built(cache: Cache) -> Built:
    library, weights = entry(cache, "net.so"), entry(cache, "w.bin")
    inputs = (Port("x", DType.F32, (1, 3)), Port("n", DType.I64, ()))
    return Built(
        "net", "net_run", inputs, (Port("y", DType.BF16, (2,)),), 64, 2, library, True, weights
    )


def test_recalled_as_remembered(cache: Cache, built: Built) -> None:
    assert recall(cache, KEY) is None
    remember(cache, KEY, built)
    assert recall(cache, KEY) == built
    assert recall(cache, "another") is None


def test_without_weights(cache: Cache, built: Built) -> None:
    plain = Built("net", "net_run", (), built.outputs, 0, 1, built.library, False, None)
    remember(cache, KEY, plain)
    assert recall(cache, KEY) == plain


def test_recalling_is_a_use(cache: Cache, built: Built) -> None:
    remember(cache, KEY, built)
    other = entry(cache, "other.so")
    recall(cache, KEY)
    assert cache.entries()[0].path == other


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\n\xff")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: list[tuple[str, Callable[[Path], None], set[str]]] = [
    ("net.so", Path.unlink, {"w.bin"}),
    ("net.so", cut, {"w.bin"}),
    ("net.so", flip, {"w.bin"}),
    (f"{KEY}.net", cut, {"net.so", "w.bin"}),
    (f"{KEY}.net", flip, {"net.so", "w.bin"}),
    (f"{KEY}.net", empty, {"net.so", "w.bin"}),
    (f"{KEY}.net", garble, {"net.so", "w.bin"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "left"), DAMAGES)
def test_what_is_damaged_goes(
    cache: Cache, built: Built, name: str, damage: Callable[[Path], None], left: set[str]
) -> None:
    remember(cache, KEY, built)
    damage(cache.root / name)
    assert recall(cache, KEY) is None
    assert {path.name for path in cache.root.iterdir()} == left


def test_what_is_forgotten_goes(cache: Cache, built: Built) -> None:
    remember(cache, KEY, built)
    assert built.weights is not None
    forget(cache, KEY, built.weights)
    assert recall(cache, KEY) is None
    assert {path.name for path in cache.root.iterdir()} == {"net.so"}


def test_records_hold_plain_data(cache: Cache) -> None:
    write_record(cache, "a.file", {"name": "net"})
    assert read_record(cache, "a.file") == {"name": "net"}
    assert read_record(cache, "b.file") is None
