"""The cache: one file per entry, whole or absent, safe to share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.errors import UserError
from weft.runtime.cache import Cache, default_root, digest
from weft.runtime.seal import SEAL_BYTES


def test_made_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    calls: list[Path] = []

    def make(path: Path) -> None:
        calls.append(path)
        path.write_text("made")

    first, second = cache.get("a.bin", make), cache.get("a.bin", make)
    assert first == second == tmp_path / "cache" / "a.bin"
    assert first.read_text().startswith("made\nweft seal ")
    assert cache.read("a.bin") == b"made"
    assert len(calls) == 1
    assert [each.name for each in cache.root.iterdir()] == ["a.bin"]


def test_a_damaged_entry_is_made_anew(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.get("a.bin", lambda path: path.write_text("made"))
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], b"Made" + whole[4:], whole + b"x"):
        path.write_bytes(damaged)
        assert cache.get("a.bin", lambda path: path.write_text("made")) == path
        assert path.read_bytes() == whole


def test_a_damaged_entry_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("a.bin", lambda path: path.write_text("made")).write_text("made")
    assert cache.read("a.bin") is None
    assert list(tmp_path.iterdir()) == []


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def make(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        cache.get("a.bin", make)
    assert list(tmp_path.iterdir()) == []


def test_prune_drops_the_least_recently_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for age, name in ((300, "old.so"), (200, "middle.bin"), (100, "new.so")):
        path = cache.get(name, lambda path: path.write_bytes(bytes(10)))
        os.utime(path, (time.time() - age, time.time() - age))
    cache.get("old.so", lambda _: None)  # a use makes it young
    assert [each.path.name for each in cache.entries()] == ["middle.bin", "new.so", "old.so"]
    size = 10 + SEAL_BYTES
    assert [each.bytes for each in cache.entries()] == [size, size, size]
    assert [each.path.name for each in cache.prune(keep_bytes=2 * size)] == ["middle.bin"]
    assert [each.path.name for each in cache.prune()] == ["new.so", "old.so"]
    assert cache.entries() == []


def test_prune_sweeps_what_the_dead_left(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    dead, busy = tmp_path / "making-dead", tmp_path / "making-busy"
    for folder in (dead, busy):
        folder.mkdir()
        (folder / "half.so").write_text("x")
    os.utime(dead, (0, 0))
    cache.prune()
    assert not dead.exists()
    assert busy.exists()


def test_absent_folder_is_empty(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "none")
    assert cache.entries() == []
    assert cache.prune() == []


def test_root_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", "/somewhere")
    assert default_root() == Path("/somewhere")
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_root() == Path("/caches/weft")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_root() == Path.home() / ".cache" / "weft"


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError) as error:
        Cache(tmp_path / "file" / "cache").get("a.so", lambda _: None)
    assert str(error.value) == (
        f"the cache folder must be writable; got {tmp_path / 'file' / 'cache'}: Not a directory. "
        "Set WEFT_CACHE to a writable folder."
    )


def test_digest_tells_parts_apart() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab"]) == digest([b"ab"]) == digest([memoryview(b"ab")])


_RACE = """
import sys
from pathlib import Path
from weft.runtime.cache import Cache
for number in range(40):
    path = Cache(Path(sys.argv[1])).get(f"{number}.bin", lambda p: p.write_bytes(b"x" * 50000))
    assert path.read_bytes()[:50000] == b"x" * 50000
"""


def test_processes_at_once(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", _RACE, str(tmp_path)]] * 4
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".bin"] * 40
