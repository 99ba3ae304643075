"""The database of choices: what goes in comes out, for its context alone."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import UserError
from weft.runtime.choices import Choice, Choices, context_of
from weft.runtime.compiler import Compiler
from weft.runtime.identity import digest_of

CONV = Choice("conv", "tiled-6x4", 8.0, "tiled-14x2", 9.0, "Conv", "a processor", 1.0)
DENSE = Choice("dense", "tiled-1x8", 2.0, "tiled-1x8", 2.0, "Gemm", "a processor", 2.0)


def test_choices_are_kept_by_context(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    assert choices.known("one") == {}
    choices.keep("one", [CONV, DENSE])
    choices.keep("two", [replace(CONV, alternative="nest")])
    assert Choices(tmp_path).known("one") == {"conv": "tiled-6x4", "dense": "tiled-1x8"}
    assert choices.known("two") == {"conv": "nest"}
    assert choices.known("three") == {}


def test_later_choices_replace_earlier_ones(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    choices.keep("one", [CONV])
    choices.keep("one", [replace(CONV, alternative="nest", made=3.0)])
    assert choices.known("one") == {"conv": "nest"}
    assert [each.made for each in choices.all()] == [3.0]


def test_choices_are_listed_in_order_of_time(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    assert choices.all() == []
    choices.keep("one", [DENSE, CONV])
    choices.keep("two", [replace(CONV, made=0.0)])
    assert choices.all("one") == [CONV, DENSE]
    assert choices.all()[-1].made > 1e9


def test_choices_are_forgotten(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    assert choices.forget() == 0
    choices.keep("one", [CONV, DENSE])
    choices.keep("two", [CONV])
    assert choices.forget("one") == 2
    assert choices.known("two")
    assert choices.forget() == 1
    assert choices.all() == []


def test_many_may_write_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        Choices(tmp_path).keep("one", [replace(CONV, layer=f"layer {number}")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert len(Choices(tmp_path).known("one")) == 40


def test_what_is_no_database_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "tuning.sqlite"
    path.write_text("no database " * 100)
    assert Choices(tmp_path).known("one") == {}
    for schema in ("CREATE TABLE measured (other TEXT)", "CREATE VIEW measured AS SELECT 1"):
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute(schema)
        connection.close()
        Choices(tmp_path).keep("one", [CONV])
        assert Choices(tmp_path).known("one") == {"conv": "tiled-6x4"}


def test_what_was_changed_by_others_is_passed_over(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    choices.keep("one", [CONV, DENSE])
    path = tmp_path / "tuning.sqlite"
    path.write_bytes(path.read_bytes().replace(b"tiled-6x4", b"tiled-9x4"))
    assert choices.known("one") == {"dense": "tiled-1x8"}
    path.write_bytes(path.read_bytes().replace(b"tiled-1x8", b"\xfftiled-1x"))
    assert choices.known("one") == {}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as error:
        Choices(tmp_path / "file").keep("one", [CONV])
    path = tmp_path / "file" / "tuning.sqlite"
    assert str(error.value) == (
        "the tuning database must be a writable file; got "
        f"{path}: [Errno 17] File exists: '{path.parent}'. "
        "Remove it, or set WEFT_CACHE to another folder."
    )


def test_contexts_know_compilers_and_flags() -> None:
    gcc = Compiler(("gcc",), "gcc", "gcc 12.2")
    contexts = [
        context_of(gcc, ["-O2"]),
        context_of(gcc, ["-O3"]),
        context_of(replace(gcc, version="gcc 13.1"), ["-O2"]),
        context_of(replace(gcc, command=("other-gcc",)), ["-O2"]),
    ]
    assert len(set(contexts)) == len(contexts)
    assert context_of(gcc, ["-O2"]) == contexts[0]


def test_digests_of_choices_know_no_order() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    assert digest_of({"a": "1"}) != digest_of({"a": "2"}) != digest_of({})
