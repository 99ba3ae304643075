"""C compilers: which one there is, what it is called with, what it says."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from weft.atomic import write_files
from weft.codegen.flavours import Dialect
from weft.errors import InternalError, UserError
from weft.records import dataclass
from weft.targets.target import Target

_CANDIDATES = ("cc", "gcc", "clang")
_SECONDS = 600
_DISK_FULL = "No space left on device"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler.

    Attributes:
        command: how it is started.
        kind: ``gcc``, ``clang``, ``zig`` or ``other``.
        version: the first line that it says of itself.
    """

    command: tuple[str, ...]
    kind: str
    version: str

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.version})"


def find_compiler() -> Compiler:
    """The compiler to use: ``$CC``, cc, gcc, clang, else zig from the ``ziglang`` wheel."""
    wanted = command_words("CC", os.environ.get("CC", ""))
    return _find(wanted, os.environ.get("PATH", ""))


def command_words(what: str, text: str) -> tuple[str, ...]:
    """The words of a compiler's command.

    Args:
        what: has the command, for people.
        text: as a shell takes it.

    Raises:
        UserError: a quotation does not end.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        rule = f"{what} must be a command as a shell takes it"
        raise UserError(rule, got=f"{text!r}: {error}") from None
    # Compilers are started in the folder of what they compile.
    if words and os.sep in words[0]:
        words[0] = os.path.abspath(words[0])
    return tuple(words)


@lru_cache(maxsize=8)
def _find(wanted: tuple[str, ...], path: str) -> Compiler:
    if wanted:
        found = probe(wanted)
        if found is None:
            raise UserError(
                "CC must name a C compiler that runs",
                got=repr(shlex.join(wanted)),
                fix="Unset CC to let Weft look for one.",
            )
        return found
    for name in _CANDIDATES:
        if shutil.which(name, path=path):
            found = probe((name,))
            if found is not None:
                return found
    if importlib.util.find_spec("ziglang") is not None:
        found = probe((sys.executable, "-m", "ziglang", "cc"))
        if found is not None:
            return found
    raise UserError(
        "running a network needs a C compiler",
        got="none of $CC, cc, gcc, clang and the ziglang package",
        fix="Install one, for example with: pip install ziglang",
    )


def probe(command: tuple[str, ...]) -> Compiler | None:
    """The compiler that answers to a command."""
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0 or not answer.stdout.strip():
        return None
    return Compiler(command, _kind(command, answer.stdout), answer.stdout.splitlines()[0])


def _kind(command: Sequence[str], version: str) -> str:
    if "ziglang" in command or Path(command[0]).name == "zig":
        return "zig"
    if "clang" in version:
        return "clang"
    if "Free Software Foundation" in version or "gcc" in version.lower():
        return "gcc"
    return "other"


def host_flags(compiler: Compiler, flavour: Dialect) -> list[str]:
    """Flags for code that runs on this machine only.

    Results may be contracted into fused multiply-adds; nothing else about arithmetic
    changes: infinities, NaNs and signed zeros stay.
    """
    flags = [f"-std={flavour.standard}", "-O2"]
    if compiler.kind == "other":
        return flags
    flags += ["-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
    if compiler.kind == "gcc":
        # It would move products that branches share in front of them, where they are not
        # contracted; whether it does depends on the code around them, so that the bits of
        # results would depend on how kernels are cut for threads.
        flags += ["-fno-tree-pre", "-fno-code-hoisting"]
        # What it takes to track the known bits of all integers is an eighth of its time, and
        # gains nothing here.
        flags.append("-fno-tree-bit-ccp")
    if compiler.kind == "zig":  # which turns sanitizers on by itself
        flags += ["-fno-sanitize=all", "-g0", "-Wno-unused-command-line-argument"]
    return flags


def machine_flags(compiler: Compiler, flavour: Dialect, machine: Target) -> list[str]:
    """``host_flags``, but with the instructions of a target that this machine can run."""
    flags = host_flags(compiler, flavour)
    if machine.name == "host" or compiler.kind == "other":
        return flags
    return [flag for flag in flags if flag != "-march=native"] + target_flags(compiler, machine)


def target_flags(compiler: Compiler, machine: Target) -> list[str]:
    """The flags that choose a target's instructions, as a compiler spells them."""
    if machine.name == "host":
        return ["-march=native"]
    if compiler.kind != "zig":
        return list(machine.flags)
    # Zig calls processors what gcc does, but with underscores.
    march = "-march="
    return [
        march + flag.removeprefix(march).replace("-", "_") if flag.startswith(march) else flag
        for flag in machine.flags
    ]


def unfused_flags(compiler: Compiler) -> list[str]:
    """Flags that keep products and sums apart, each with a rounding of its own."""
    return [] if compiler.kind == "other" else ["-ffp-contract=off"]


def sanitizer_flags(compiler: Compiler) -> list[str]:
    """Flags for the address and undefined-behaviour sanitizers; none where there are none."""
    if compiler.kind not in ("gcc", "clang"):
        return []
    return ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


_CXX: tuple[tuple[str, str], ...] = (("clang", "clang++"), ("gcc", "g++"), ("cc", "c++"))
_FOREIGN_C, _FOREIGN_CXX = "-std=gnu11", "-std=gnu++17"


def find_cxx(compiler: Compiler) -> Compiler:
    """The C++ compiler that goes with a C compiler: ``$CXX``, the same under its C++ name, or zig.

    Raises:
        UserError: there is none.
    """
    wanted = command_words("CXX", os.environ.get("CXX", ""))
    return _find_cxx(wanted, compiler, os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find_cxx(wanted: tuple[str, ...], compiler: Compiler, path: str) -> Compiler:
    candidates = [wanted] if wanted else _cxx_candidates(compiler)
    for command in candidates:
        found = probe(command) if shutil.which(command[0], path=path) else None
        if found is not None:
            return found
    raise UserError(
        "a kernel in C++ needs a C++ compiler",
        got=f"none of {', '.join(shlex.join(each) for each in candidates)}",
        fix="Install one, for example with: pip install ziglang",
    )


def _cxx_candidates(compiler: Compiler) -> list[tuple[str, ...]]:
    command, found = compiler.command, list[tuple[str, ...]]()
    folder, name = os.path.split(command[0])
    if "cc" in command[1:]:  # zig cc
        found.append(tuple("c++" if part == "cc" else part for part in command))
    else:
        for c, cxx in _CXX:
            if c in name:
                found.append((os.path.join(folder, name.replace(c, cxx)), *command[1:]))
                break
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found


_VECTORS = """\
typedef float vector __attribute__((vector_size(16)));
typedef char is_a_vector[sizeof(vector) == 16 ? 1 : -1];
vector square(vector x) { return x * x; }
"""
_ATOMICS = "#include <pthread.h>\n#include <stdatomic.h>\n"


def require_vectors(compiler: Compiler, flavour: Dialect) -> None:
    """Refuses a compiler that knows no GNU vectors, where the flavour has them."""
    if flavour.vectors and not _accepts(compiler, flavour.standard, _VECTORS):
        raise UserError(
            f"the flavour {flavour.name} needs gcc or clang",
            got=str(compiler),
            fix="Set CC to one of them, or choose plain C: flavour='c99', --flavour c99.",
        )


def require_atomics(compiler: Compiler) -> None:
    """Refuses a compiler that lacks what a pool of threads is written with."""
    if not _accepts(compiler, "gnu11", _ATOMICS):
        raise UserError(
            "running on several threads needs a compiler with <stdatomic.h>",
            got=str(compiler),
            fix="Set CC to gcc or clang, or run on one thread: threads=1, --threads 1.",
        )


@lru_cache(maxsize=16)
def _accepts(compiler: Compiler, standard: str, text: str) -> bool:
    """Whether a compiler takes a source; those that are known take all that Weft writes."""
    if compiler.kind != "other":
        return True
    with tempfile.TemporaryDirectory(prefix="weft-compiler-") as folder:
        write_files(Path(folder), [("trial.c", text.encode())])
        arguments = [f"-std={standard}", "-c", "trial.c", "-o", "trial.o"]
        return _started(compiler, arguments, Path(folder)).returncode == 0


def compile_foreign(
    compiler: Compiler, flags: Sequence[str], source: Path, target: Path, cxx: bool
) -> None:
    """Compiles a source that Weft did not write, which may be C++."""
    own = [flag for flag in flags if not flag.startswith("-std=")]
    standard = _FOREIGN_CXX if cxx else _FOREIGN_C
    arguments = [standard, *own, "-fPIC", "-c", str(source), "-o", str(target)]
    done = _started(compiler, arguments, source.parent)
    if done.returncode != 0:
        raise UserError(
            f"{source.name}, from a plugin, must compile",
            got=done.stderr[-4000:].strip(),
            where=shlex.join([*compiler.command, *arguments]),
        )


def compile_given(compiler: Compiler, flags: Sequence[str], source: Path, target: Path) -> None:
    """Compiles a generated source with flags that the user gave."""
    arguments = [*flags, "-c", source.name, "-o", target.name]
    done = _started(compiler, arguments, source.parent)
    if done.returncode != 0:
        raise UserError(
            "the compiler must compile the generated C with the flags given",
            got=done.stderr[-4000:].strip(),
            where=shlex.join([*compiler.command, *arguments]),
        )


def compile_object(compiler: Compiler, flags: Sequence[str], source: Path, target: Path) -> None:
    """Compiles one source to position-independent object code."""
    _run(compiler, [*flags, "-fPIC", "-c", str(source), "-o", str(target)], source)


def link_library(
    compiler: Compiler, objects: Sequence[Path], target: Path, flags: Sequence[str] = ()
) -> None:
    """Links objects to a shared library."""
    arguments = ["-shared", "-o", str(target), *map(str, objects), *flags, "-lm"]
    _run(compiler, arguments, objects[0])


def archive_library(compiler: Compiler, objects: Sequence[Path], target: Path) -> None:
    """Puts objects into a static library."""
    archiver = Compiler(archiver_of(compiler) or ("ar",), "other", "")
    _run(archiver, ["rcs", str(target), *map(str, objects)], objects[0])


def archiver_of(compiler: Compiler) -> tuple[str, ...]:
    """What archives the objects of a compiler for another machine.

    ``arm-none-eabi-ar`` goes with ``arm-none-eabi-gcc``, ``zig ar`` with ``zig cc``.

    Returns:
        Its command; nothing if it is not known or not there.
    """
    *driver, last = compiler.command
    if compiler.kind == "zig" and last == "cc":
        return *driver, "ar"
    name = re.sub(r"-(gcc|cc|clang)$", "-ar", Path(last).name)
    if driver or name == Path(last).name:
        return ()
    path = str(Path(last).with_name(name))
    return (path,) if shutil.which(path) else ()


def link_foreign(
    compiler: Compiler, objects: Sequence[Path], target: Path, flags: Sequence[str]
) -> None:
    """Links objects, some of which Weft did not write, to a shared library."""
    # What is missing must come up now and with its name, not when the library is loaded.
    strict = [] if sys.platform == "darwin" else ["-Wl,-z,defs"]
    arguments = ["-shared", "-o", str(target), *map(str, objects), *flags, *strict, "-lm"]
    done = _started(compiler, arguments, target.parent)
    if done.returncode != 0:
        raise UserError(
            "the kernels of plugins must link",
            got=done.stderr[-4000:].strip(),
            fix='A C++ function must be extern "C" and have the declared name.',
        )


# Compilers that run, and the folders they run in.
_RUNNING: dict[subprocess.Popen[str], Path] = {}


def _started(
    compiler: Compiler, arguments: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    command = [*compiler.command, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)},
        process_group=0,  # to be ended together with what it starts
    )
    _RUNNING[process] = folder
    try:
        out, errors = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        _end(process)
        process.communicate()  # closes the pipes
        raise UserError(
            f"a compiler must finish within {_SECONDS:g} s",
            got=shlex.join(command),
            fix="Try another compiler (such as CC=clang), or a less busy machine.",
        ) from error
    except BaseException:
        _end(process)
        raise
    finally:
        del _RUNNING[process]
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def end_compilers(folder: Path) -> None:
    """Ends the compilers that run in a folder."""
    for process, place in list(_RUNNING.items()):
        if place == folder:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a compiler, and what it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(compiler: Compiler, arguments: Sequence[str], source: Path) -> None:
    done = _started(compiler, arguments, source.parent)
    if _DISK_FULL in done.stderr:
        raise UserError(
            "compiling needs disk space",
            got=f"{_DISK_FULL} in {source.parent}",
            fix="Free some, or set WEFT_CACHE to a folder on another disk.",
        )
    if done.returncode != 0:
        raise InternalError(
            f"{compiler} failed on generated code",
            f"{shlex.join([*compiler.command, *arguments])}\n{done.stderr[-8000:]}",
        )
