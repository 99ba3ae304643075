"""Files and folders are written whole or not at all, and all of Weft writes them so."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from weft import atomic
from weft.atomic import (
    replacing,
    replacing_all,
    replacing_folder,
    write_bytes,
    write_files,
    write_text,
)
from weft.errors import UserError

SOURCES = Path(atomic.__file__).parent
# The first writes for all others, the second ends a file that nobody else sees yet.
WRITERS = {"atomic.py", "runtime/seal.py"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail(replacing: AbstractContextManager[Any], error: BaseException) -> None:
    """Begins to write, and fails."""
    with replacing as opened:
        match opened:
            case Path():
                write_files(opened, [("new", b"new")])
            case list():
                opened[0].write(b"new")
            case _:
                opened.write(b"new")
        raise error


# --- files ----------------------------------------------------------------------------------


def test_new_and_replaced_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "löng " * 100)
    write_text(str(path), "short")
    assert path.read_text() == "short"
    assert names(tmp_path) == ["file"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    link.symlink_to(Path("folder") / "file")
    for text in ("new", "newer"):
        write_text(link, text)
        assert (target.read_text(), link.is_symlink()) == (text, True)
    assert (names(tmp_path), names(tmp_path / "folder")) == (["folder", "link"], ["file"])


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    for error in (KeyboardInterrupt(), ValueError("no value")):
        with pytest.raises(type(error)):
            fail(replacing(path), error)
        assert (path.read_text(), names(tmp_path)) == ("old", ["file"])


def test_several_files_are_replaced_together(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    with replacing_all(*paths) as files:
        for file in files:
            file.write(b"old")
    with pytest.raises(UserError):
        fail(replacing_all(*paths), OSError("the second cannot be written"))
    assert [path.read_text() for path in paths] == ["old", "old"]
    assert names(tmp_path) == ["one", "two"]


def test_devices_are_written_in_place() -> None:
    write_bytes("/dev/null", b"nothing")
    assert not Path("/dev/null").is_file()


def test_reasons_are_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    cases = {
        tmp_path: "Is a directory",
        tmp_path / "none" / "file": "No such file or directory",
        tmp_path / "file" / "file": "Not a directory",
        tmp_path / ("n" * 300): "File name too long",
    }
    for path, reason in cases.items():
        with pytest.raises(UserError) as error:
            write_text(path, "new")
        assert str(error.value) == f"the output must be writable; got {path}: {reason}"
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write all
    with pytest.raises(UserError) as error:
        write_text(tmp_path / "file", "new")
    assert (
        str(error.value)
        == f"the output must be writable; got {tmp_path / 'file'}: Permission denied"
    )
    assert (names(tmp_path), (tmp_path / "file").read_text()) == (["file"], "old")


# --- folders --------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["exchange", "rename"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a system that can exchange two names at once."""
    if not request.param:
        monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)


@pytest.mark.usefixtures("exchange")
def test_folders_are_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "folder"
    with replacing_folder(folder) as fresh:
        assert write_files(fresh, [("a", b"1"), (Path("b") / "c", [b"2", b"3"])]) == ["a", "b/c"]
    folder.chmod(0o750)
    assert (folder / "b" / "c").read_text() == "23"
    with replacing_folder(folder) as fresh:
        write_files(fresh, [("d", b"4")])
    assert (names(folder), names(tmp_path / "above")) == (["d"], ["folder"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


@pytest.mark.usefixtures("exchange")
def test_a_folder_stays_where_its_successor_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        fail(replacing_folder(folder), KeyboardInterrupt())
    with pytest.raises(UserError):
        fail(replacing_folder(tmp_path / "above" / "folder"), OSError())
    rename = os.rename

    def refuse(one: Path, other: Path) -> None:
        if Path(other) == folder and names(Path(one)) == ["new"]:
            raise KeyboardInterrupt
        rename(one, other)

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    with pytest.raises(KeyboardInterrupt), replacing_folder(folder) as fresh:
        write_files(fresh, [("new", b"new")])
    assert (names(tmp_path), names(folder)) == (["folder"], ["old"])


def test_the_system_exchanges_names(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (one / "file").write_text("")
    if not atomic._exchanged(one, other):
        pytest.skip("this system cannot exchange two names")
    assert (names(one), names(other)) == ([], ["file"])


# --- nothing else writes --------------------------------------------------------------------

_ALWAYS = re.compile(
    r"write_text|write_bytes|tofile|savez|savez_compressed|savetxt|mkstemp|fdopen|"
    r"NamedTemporaryFile|copy|copy2|copyfile|copytree|move|make_archive"
)
_MODULES = {"os", "shutil", "np", "tempfile"}


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a file to write, or writes it at once."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == "open" and _mode(call.args[1:], call) != "r"
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if owner == "atomic":
        return False
    if function.attr == "open":
        return _mode(call.args[: 1 if owner != "os" else 0], call) != "r"
    path = function.attr in ("write_text", "write_bytes", "tofile")
    return bool(_ALWAYS.fullmatch(function.attr)) and (path or owner in _MODULES)


def _mode(arguments: list[ast.expr], call: ast.Call) -> str:
    """``r``, or what else a file is opened for."""
    given = [each.value for each in call.keywords if each.arg == "mode"] or arguments[:1]
    found = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
    return "w" if isinstance(found, str) and set(found) & set("wax+") else "r"


def found_writes(source: str) -> Iterator[int]:
    """Lines that write files."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _writes(node):
            yield node.lineno


def test_what_writes_is_recognised() -> None:
    lines = [
        "open(path, 'w')",
        "open(path, mode='ab')",
        "path.open('r+b')",
        "path.open(mode='x')",
        "path.write_text(text)",
        "(folder / name).write_bytes(data)",
        "np.savez(path, a=a)",
        "array.tofile(path)",
        "tempfile.mkstemp()",
        "shutil.copy(one, other)",
    ]
    assert list(found_writes("\n".join(lines))) == list(range(1, len(lines) + 1))
    harmless = ["open(path)", "path.open('rb')", "write_text(path, text)", "array.copy()"]
    assert list(found_writes("\n".join(harmless))) == []


def test_nothing_else_writes_files() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in sorted(SOURCES.rglob("*.py"))
        if str(path.relative_to(SOURCES)) not in WRITERS
        for line in found_writes(path.read_text())
    ]
    assert found == []
