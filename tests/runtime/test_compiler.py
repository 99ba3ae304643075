"""Finding and calling C compilers."""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.codegen.flavours import FLAVOURS
from weft.errors import InternalError, UserError
from weft.runtime import compiler, threads
from weft.runtime.compiler import (
    Compiler,
    compile_object,
    find_compiler,
    host_flags,
    link_library,
    machine_flags,
    require_atomics,
    require_vectors,
)
from weft.targets.find import target


def program(folder: Path, name: str, says: str) -> Path:
    """An executable script that prints a version."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_cc_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = program(tmp_path, "mycc", "mycc 1.0 Free Software Foundation")
    monkeypatch.setenv("CC", f"{mine} -m64")
    found = find_compiler()
    assert found.command == (str(mine), "-m64")
    assert found.kind == "gcc"
    assert str(found) == f"{mine} -m64 (mycc 1.0 Free Software Foundation)"


def test_cc_may_be_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = program(tmp_path, "mycc", "mycc 1.0 Free Software Foundation")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", "./mycc -m64")
    assert find_compiler().command == (str(mine), "-m64")


def test_cc_must_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UserError) as error:
        find_compiler()
    assert str(error.value) == (
        "CC must name a C compiler that runs; got 'no-such-compiler'. "
        "Unset CC to let Weft look for one."
    )


def test_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "clang", "clang version 19")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(compiler, "_CANDIDATES", ("clang",))
    assert find_compiler().kind == "clang"


def test_zig_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_compiler()
    assert found.kind == "zig"
    assert found.command[1:] == ("-m", "ziglang", "cc")


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError) as error:
        find_compiler()
    assert str(error.value) == (
        "running a network needs a C compiler; got none of $CC, cc, gcc, clang and the ziglang "
        "package. Install one, for example with: pip install ziglang"
    )


def test_flags_never_loosen_arithmetic() -> None:
    for flavour in FLAVOURS.values():
        flags = host_flags(find_compiler(), flavour)
        assert f"-std={flavour.standard}" in flags
        assert not {"-ffast-math", "-Ofast", "-ffinite-math-only"} & set(flags)


@pytest.mark.parametrize("kind", ["gcc", "clang", "zig", "other"])
def test_only_gcc_is_told_to_leave_out_its_passes(kind: str) -> None:
    flags = host_flags(Compiler(("cc",), kind, "1.0"), FLAVOURS["gnu"])
    own = {"-fno-tree-pre", "-fno-code-hoisting", "-fno-tree-bit-ccp"}
    assert own & set(flags) == (own if kind == "gcc" else set())


def test_compiles_and_links(tmp_path: Path) -> None:
    found = find_compiler()
    source, library = tmp_path / "one.c", tmp_path / "one.so"
    source.write_text("int one(void) { return 1; }\n")
    compile_object(found, host_flags(found, FLAVOURS["c99"]), source, tmp_path / "one.o")
    link_library(found, [tmp_path / "one.o"], library)
    assert library.stat().st_size > 0


def test_broken_code_is_our_bug(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int one(void) { return undeclared; }\n")
    with pytest.raises(InternalError, match="failed on generated code") as error:
        compile_object(find_compiler(), [], source, tmp_path / "bad.o")
    assert "undeclared" in error.value.dump


@pytest.mark.parametrize("name", ["x86-sse2", "x86-avx2", "x86-avx512"])
def test_zig_takes_the_flags_of_targets(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang")
    if platform.machine() != "x86_64":
        pytest.skip("needs x86")
    monkeypatch.setenv("CC", f"{shlex.quote(sys.executable)} -m ziglang cc")
    found = find_compiler()
    machine = target(name)
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    flags = machine_flags(found, FLAVOURS["gnu"], machine)
    assert len([flag for flag in flags if flag.startswith("-march=")]) == 1
    compile_object(found, flags, source, tmp_path / "one.o")
    assert (tmp_path / "one.o").stat().st_size > 0


# --- compilers that know less -------------------------------------------------------------------

LESS = """#!/bin/sh
if [ "$1" = --version ]; then echo "lesscc 1"; exit; fi
if grep -q "vector_size\\|stdatomic" trial.c; then exit 1; fi
exec gcc "$@"
"""


@pytest.fixture
def less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler without GNU vectors and atomics, as tcc is one."""
    path = tmp_path / "lesscc"
    path.write_text(LESS)
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    return path


def test_vectors_are_refused_where_there_are_none(less: Path) -> None:
    found = find_compiler()
    require_vectors(found, FLAVOURS["c99"])
    with pytest.raises(UserError) as error:
        require_vectors(found, FLAVOURS["gnu"])
    assert str(error.value) == (
        f"the flavour gnu needs gcc or clang; got {less} (lesscc 1). "
        "Set CC to one of them, or choose plain C: flavour='c99', --flavour c99."
    )
    with pytest.raises(UserError) as error:
        require_atomics(found)
    assert str(error.value) == (
        f"running on several threads needs a compiler with <stdatomic.h>; got {less} (lesscc 1). "
        "Set CC to gcc or clang, or run on one thread: threads=1, --threads 1."
    )


@pytest.mark.skipif(not shutil.which("tcc"), reason="there is no tcc")
def test_tcc_runs_plain_c(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "tcc")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    # An earlier test may have loaded a pool that another compiler built.
    monkeypatch.setattr(threads, "_shared_pool", threads._shared_pool.__wrapped__)
    net, image = weft.load(digits), np.ones((1, 1, 8, 8), np.float32)
    with pytest.raises(UserError, match="the flavour gnu needs gcc or clang"):
        net.compile()
    with pytest.raises(UserError, match=r"several threads needs a compiler with <stdatomic\.h>"):
        net.compile(flavour="c99", threads=2)
    (expected,) = net.reference(image)
    found = net.compile(flavour="c99", threads=1)(image)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_compiler_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = program(tmp_path, "slowcc", "gcc (slow) 1")
    monkeypatch.setenv("CC", str(slow))
    found = find_compiler()
    slow.write_text("#!/bin/sh\nsleep 1000\n")
    monkeypatch.setattr("weft.runtime.compiler._SECONDS", 0.1)
    source = tmp_path / "one.c"
    source.write_text("int one;\n")
    with pytest.raises(UserError) as error:
        compile_object(found, ["-O2"], source, tmp_path / "one.o")
    assert str(error.value) == (
        f"a compiler must finish within 0.1 s; got {slow} -O2 -fPIC -c {source} "
        f"-o {tmp_path / 'one.o'}. "
        "Try another compiler (such as CC=clang), or a less busy machine."
    )


def test_a_full_disk_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "fullcc"
    full.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "gcc (full) 1"; exit; fi\n'
        "echo 'cc1: error: No space left on device' >&2; exit 1\n"
    )
    full.chmod(0o755)
    monkeypatch.setenv("CC", str(full))
    source = tmp_path / "one.c"
    source.write_text("int one;\n")
    with pytest.raises(UserError) as error:
        compile_object(find_compiler(), [], source, tmp_path / "one.o")
    assert str(error.value) == (
        f"compiling needs disk space; got No space left on device in {tmp_path}. "
        "Free some, or set WEFT_CACHE to a folder on another disk."
    )
