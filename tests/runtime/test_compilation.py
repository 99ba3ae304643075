"""Compiling sources while others are still written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.codegen import emit as writing
from weft.codegen.emit import emit
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.compilation import Compilation
from weft.runtime.compiler import Compiler, find_compiler


def functions(text: str) -> set[str]:
    """The definitions in a source, which end with a brace in the first column."""
    found: set[str] = set()
    lines: list[str] = []
    for line in text.splitlines():
        lines = [] if line == "" else [*lines, line]
        if line == "}":
            found.add("\n".join(lines))
    return found


def test_sources_are_sent_off_before_all_are_written(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SOURCE_CHARACTERS", 2000)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    net = weft.load(digits)
    program = net.program()
    sent: list[tuple[str, str]] = []
    files = emit(program, "gnu", "blob", 2, early=lambda name, text: sent.append((name, text)))
    assert [name for name, _ in sent] == [f"digits_{i + 1}.c" for i in range(len(sent))]
    assert len(sent) > 2
    assert list(files.sources[1:]) == sent
    whole = emit(program, "gnu", "blob", 2)
    assert files.header == whole.header
    assert files.sources[0] == whole.sources[0]
    one, other = (
        set[str]().union(*(functions(text) for _, text in each.sources[1:]))
        for each in (files, whole)
    )
    assert one == other
    monkeypatch.setattr("weft.runtime.build._MANY", 1)
    (got,) = build(program)(np.ones((1, 1, 8, 8), np.float32))
    (wanted,) = net.reference(np.ones((1, 1, 8, 8), np.float32))
    assert np.allclose(got, wanted, atol=1e-5)


def test_objects_come_in_the_order_of_their_sources(tmp_path: Path) -> None:
    with Compilation(find_compiler(), [], tmp_path, 2) as compilation:
        for name in ("b", "a"):
            compilation.start(f"{name}.c", f"int {name};\n")
        assert compilation.started("a.c")
        assert not compilation.started("c.c")
        objects = compilation.objects(["b.c", "a.c"])
    assert objects == [tmp_path / "b.o", tmp_path / "a.o"]
    assert all(each.exists() for each in objects)


def test_there_is_time_for_other_work_when_a_compiler_less_runs(tmp_path: Path) -> None:
    with Compilation(find_compiler(), [], tmp_path, 2) as compilation:
        for name in "abcde":
            compilation.start(f"{name}.c", f"int {name};\n")
        compilation.ease()
        assert len(list(tmp_path.glob("*.o"))) >= 4


def test_an_error_ends_compilers(tmp_path: Path) -> None:
    script, started = tmp_path / "slow", tmp_path / "started"
    script.write_text(
        '#!/bin/sh\necho $$ > "$TMPDIR/draft"\nmv "$TMPDIR/draft" started\nsleep 60\n'
    )
    script.chmod(0o755)

    def fail() -> None:
        slow = Compiler((str(script),), "other", "")
        with Compilation(slow, [], tmp_path, 1) as compilation:
            compilation.start("a.c", "")
            compilation.start("b.c", "")
            while not started.exists():
                time.sleep(0.01)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_no_compiler_is_started_for_what_the_cache_has(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SOURCE_CHARACTERS", 2000)
    monkeypatch.setattr("weft.runtime.build._MANY", 1)
    started: list[str] = []
    start = Compilation.start

    def counted(self: Compilation, name: str, text: str) -> None:
        started.append(name)
        start(self, name, text)

    monkeypatch.setattr(Compilation, "start", counted)
    program, cache = weft.load(digits).program(), Cache(tmp_path)
    first = build(program, cache=cache)
    assert len(started) == len(set(started)) == len(first.files.sources)
    started.clear()
    assert build(program, cache=cache).path == first.path
    assert not started
    first.path.unlink()
    assert build(program, cache=cache).path == first.path
    assert len(started) == len(first.files.sources)
    started.clear()
    # Another library of the same first source: found out late, and compiled all the same.
    first.path.rename(first.path.with_stem(first.path.stem[:-4] + "0000"))
    assert build(program, cache=cache).path == first.path
    assert len(started) == len(first.files.sources)
