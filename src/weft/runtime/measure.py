"""What a compiler makes of generated C: bytes of the stack, of code and of constants."""

from __future__ import annotations

import shlex
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.atomic import write_files
from weft.codegen.emit import Files
from weft.codegen.stack import IDLE, LINK, RED_ZONE, Stack, frames_of, rounded
from weft.errors import UserError
from weft.records import dataclass
from weft.runtime.compiler import Compiler, command_words, compile_given, probe

_X86_64, _ARM = 62, 40
_ALLOCATED, _NO_DATA = 2, 8
_SYMBOLS, _FUNCTION = 2, 2


@dataclass(frozen=True, slots=True)
class BuildSizes:
    """What a compiler made of the sources.

    Attributes:
        compiler: its command, what it says of itself, and the flags.
        stack: what a run takes of the stack; nothing if the compiler does not say.
        flash: bytes of code and constants; nothing if the objects are no ELF files.
    """

    compiler: str
    stack: Stack | None
    flash: int | None


@dataclass(frozen=True, slots=True)
class Section:
    """What is read of an ELF section's header."""

    kind: int
    flags: int
    offset: int
    bytes: int
    link: int


def compiler_named(text: str) -> tuple[Compiler, tuple[str, ...]]:
    """A compiler and its flags, from a command such as ``arm-none-eabi-gcc -mcpu=cortex-m4 -Os``.

    The command ends before the first flag; ``python -m ziglang cc`` is one, too.

    Raises:
        UserError: there is no such compiler.
    """
    words = command_words("the compiler", text)
    module = 3 if words[1:2] == ("-m",) and Path(words[0]).name.startswith("python") else 0
    rest = range(module, len(words))
    first = next((at for at in rest if words[at].startswith("-")), len(words))
    found = probe(words[:first]) if first else None
    if found is None:
        raise UserError(
            "the compiler must be a C compiler that runs, and its flags",
            got=repr(text),
            fix="For example: arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os",
        )
    return found, words[first:]


def measure(files: Files, compiler: Compiler, flags: Sequence[str]) -> BuildSizes:
    """Compiles the sources and reads what that gives.

    Args:
        files: the generated C; functions that Weft did not write are left out.
        compiler: what to build with.
        flags: all but the standard.

    Raises:
        UserError: they do not compile, as where flags are wrong.
    """
    given = [f"-std={files.flavour.standard}", *flags]
    usage = ["-fstack-usage"] if compiler.kind in ("gcc", "clang") else []
    with tempfile.TemporaryDirectory(prefix="weft-measure-") as parent:
        folder = Path(parent)
        texts = (files.header, *files.private, *files.sources)
        write_files(folder, [(name, text.encode()) for name, text in texts])
        objects: list[Path] = []
        for name, _ in files.sources:
            objects.append((folder / name).with_suffix(".o"))
            compile_given(compiler, [*given, *usage], folder / name, objects[-1])
        stack, flash = figures(files, objects)
    name = Path(compiler.command[0]).name
    said = f"{shlex.join([name, *compiler.command[1:], *flags])} ({compiler.version})"
    return BuildSizes(said, None if stack is None else Stack(stack, said), flash)


def figures(files: Files, objects: Sequence[Path]) -> tuple[int | None, int | None]:
    """Bytes of the stack that a run takes, and bytes of code and constants.

    Args:
        files: the generated C.
        objects: what its sources became; beside each lies what ``-fstack-usage`` wrote, if a
            compiler knows that option.
    """
    usage = [each.with_suffix(".su") for each in objects]
    frames = frames_of(each.read_text() for each in usage if each.is_file())
    found = [each.read_bytes() for each in objects]
    # On Arm, what a call leaves is saved by the function that is called, which counts it.
    link = 0 if _machine(found[0]) == _ARM else LINK
    stack = files.calls.bytes(frames, _functions(found), link) if frames else None
    if stack is not None:
        stack = rounded(stack + (RED_ZONE if _machine(found[0]) == _X86_64 else 0))
    sizes = [loaded_bytes(each) for each in found]
    return stack, None if None in sizes else sum(size for size in sizes if size is not None)


def loaded_bytes(data: bytes) -> int | None:
    """Code and constants in an ELF object: its sections that are loaded and not zero.

    Returns:
        Nothing if it is something else.
    """
    if data[:4] != b"\x7fELF":
        return None
    return sum(
        each.bytes for each in _sections(data) if each.flags & _ALLOCATED and each.kind != _NO_DATA
    )


def _order(data: bytes) -> str:
    return "<" if data[5] == 1 else ">"


def _machine(data: bytes) -> int:
    return struct.unpack_from(f"{_order(data)}H", data, 18)[0] if data[:4] == b"\x7fELF" else 0


def _sections(data: bytes) -> list[Section]:
    wide, order = data[4] == 2, _order(data)
    (table,) = struct.unpack_from(f"{order}Q" if wide else f"{order}I", data, 40 if wide else 32)
    entry, count = struct.unpack_from(f"{order}HH", data, 58 if wide else 46)
    row = struct.Struct(f"{order}IIQQQQI" if wide else f"{order}IIIIIII")
    found: list[Section] = []
    for number in range(count):
        _, kind, flags, _, offset, size, link = row.unpack_from(data, table + number * entry)
        found.append(Section(kind, flags, offset, size, link))
    return found


def _functions(objects: Sequence[bytes]) -> frozenset[str] | None:
    """The functions that objects define, and what they name and none of them defines.

    Copies and parts of functions have their names. Nothing if they are no ELF files.
    """
    if any(each[:4] != b"\x7fELF" for each in objects):
        return None
    symbols = [each for data in objects for each in _symbols(data)]
    known = {*IDLE, *(name for name, _, here in symbols if here)}
    return frozenset(
        name.partition(".")[0]
        for name, kind, here in symbols
        if (kind == _FUNCTION if here else name not in known)
    )


def _symbols(data: bytes) -> Iterator[tuple[str, int, bool]]:
    """Name and kind of each symbol with a name, and whether the object defines it."""
    wide, sections = data[4] == 2, _sections(data)
    row = struct.Struct(f"{_order(data)}IBBHQQ" if wide else f"{_order(data)}IIIBBH")
    for each in (each for each in sections if each.kind == _SYMBOLS):
        names = sections[each.link].offset
        for fields in row.iter_unpack(data[each.offset : each.offset + each.bytes]):
            name, (info, place) = fields[0], fields[1:4:2] if wide else fields[3:6:2]
            if name:
                text = data[names + name : data.index(0, names + name)].decode()
                yield text, info & 15, place != 0
