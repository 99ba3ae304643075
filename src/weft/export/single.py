"""A network as one C file: header, weights, code, and a program to try it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from weft.atomic import replacing_all
from weft.codegen.emit import Files
from weft.codegen.interface import PortName, run_parameters
from weft.codegen.layout import comment, wrap_all
from weft.codegen.naming import STORAGE, comment_text
from weft.dtypes import DType
from weft.errors import UserError
from weft.export.exports import rendered
from weft.export.printing import wide_printers
from weft.export.toolkit import Toolkit
from weft.loops.python_arithmetic import HALVES
from weft.plan.report import size
from weft.records import dataclass
from weft.screen import Screen, Shown

MOST_ON_STACK = 1 << 16
"""Bytes of scratch memory that may be automatic storage: what most threads' stacks hold."""


@dataclass(frozen=True, repr=False)
class SingleFile(Shown):
    """A network as one C file.

    Attributes:
        toolkit: what it was made from, with the figures.
        name: of the file; text: its content.
        header: name and text of the header, which the file itself does not need.
    """

    toolkit: Toolkit
    name: str
    text: str
    header: tuple[str, str]

    def write(self, path: Path, header: bool = False) -> list[Path]:
        """Writes the file, and on request its header beside it; gives what was written."""
        check_single(path)
        texts = {path: self.text}
        if header:
            texts[path.with_suffix(".h")] = self.header[1]
        with replacing_all(*texts) as files:
            for file, text in zip(files, texts.values(), strict=True):
                file.write(text.encode())
        return list(texts)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        rows = [(self.name, f"{self.text.count(chr(10)):,}")]
        title = f"{self.name} of {self.toolkit.model} for {self.toolkit.target}"
        facts = (("run", self.toolkit.files.interface.function),)
        return Screen(title, facts, ("file", "lines"), rows, (1,))


def check_single(path: Path) -> None:
    """Refuses a path that is none of a C file.

    Raises:
        UserError: it does not end with ``.c``, or is a folder.
    """
    if path.is_dir() or path.suffix != ".c":
        raise UserError(
            "a single file is written to a path that ends with .c",
            got=str(path),
            fix=f"For example: {path / 'net.c' if path.is_dir() else path.with_suffix('.c')}",
        )


def single_file(toolkit: Toolkit) -> SingleFile:
    """The one file of a toolkit.

    Args:
        toolkit: with one source, weights in it, and nothing that Weft did not write.

    Raises:
        UserError: it cannot be one file.
    """
    files = toolkit.files
    for wrong, what in (
        (files.threads > 1, "threads"),
        (len(files.sources) > 1, "several sources"),
        (files.blob is not None, "weights in a file of their own"),
        (bool(files.interface.prepare), "weights given at run time"),
        (bool(files.foreign.files), "files of plugins"),
        (bool(toolkit.also), "files of exports"),
    ):
        if wrong:
            rule = "a single file has all that a run needs, for one thread"
            raise UserError(rule, got=what, fix="Leave it out, or export a toolkit.")
    name, source = files.sources[0]
    header_name, header = files.header
    header = header.replace(" * `make stack` measures it; -D", " * -D", 1)
    on_stack = _on_stack(files)
    facts = _facts(toolkit, on_stack)
    if on_stack:
        declared = [*comment(_told(files)), *wrap_all([f"{_stack_signature(files)};"]), ""]
        mark = "#ifdef __cplusplus\n}"
        before, end, after = header.rpartition(mark)
        header = before + "\n".join(declared) + "\n" + end + after
    include = f'#include "{header_name}"\n'
    assert include in source
    text = source.replace(include, "\n".join(_guide(toolkit, on_stack)) + "\n" + header, 1)
    text += rendered("single.c.jinja", facts)
    return SingleFile(toolkit, name, text, (header_name, header))


def _on_stack(files: Files) -> bool:
    return sum(each.arena.bytes for each in files.interface.arenas) <= MOST_ON_STACK


def _guide(toolkit: Toolkit, on_stack: bool) -> list[str]:
    """The comment that says how the file is used."""
    files, report = toolkit.files, toolkit.report
    flags = " ".join((f"-std={files.flavour.standard}", "-O3", *toolkit.flags))
    name, here = files.sources[0][0], f"{files.name}_run_on_stack, which has it on the stack."
    both = f" ({files.stack_bytes + _stack_more(files):,} with its scratch memory)"
    said = f"measured: {files.stack.compiler}" if files.stack.compiler else "an estimate"
    lines = [
        f"The whole network {files.name}: {toolkit.model}, for {toolkit.target}.",
        f"  cc {flags} -c {name}",
        f"  cc {flags} -DWEFT_TEST {name} -o {files.name} -lm && ./{files.name} IMAGE.pgm",
        f"Call {files.interface.function} with {size(report.arena_bytes)} of scratch memory"
        + (f", or {here}" if on_stack else "."),
        f"A run takes {files.stack_bytes:,} bytes of the stack{both if on_stack else ''}, {said}.",
        "Nothing is kept between calls, and nothing is written but the outputs and the scratch",
        "memory: threads may call it at the same time.",
    ]
    return comment(lines)


def _stack_more(files: Files) -> int:
    return sum(each.arena.bytes + 64 for each in files.interface.arenas)


def _told(files: Files) -> list[str]:
    return [
        f"The same with the scratch memory on the stack: {_stack_more(files):,} bytes more of it.",
    ]


def _stack_parameters(files: Files) -> list[tuple[str, str]]:
    arenas = {each.name for each in files.interface.arenas}
    return [pair for pair in run_parameters(files.interface) if pair[1] not in arenas]


def _stack_signature(files: Files) -> str:
    parameters = ", ".join(f"{type}{name}" for type, name in _stack_parameters(files))
    return f"int {files.name}_run_on_stack({parameters or 'void'})"


def _facts(toolkit: Toolkit, on_stack: bool) -> Mapping[str, Any]:
    files = toolkit.files
    interface = files.interface
    arenas = {each.name: each for each in interface.arenas}
    prefix = interface.prefix
    stack_arguments, test_arguments = list[str](), list[str]()
    numbers = {each.name: f"test_input_{at}" for at, each in enumerate(interface.inputs)}
    numbers |= {each.name: f"test_output_{at}" for at, each in enumerate(interface.outputs)}
    for _, name in run_parameters(interface):
        past = f"(size_t){name} % {prefix}_ARENA_ALIGNMENT"
        aligned = f"{name} + ({prefix}_ARENA_ALIGNMENT - {past}) % {prefix}_ARENA_ALIGNMENT"
        stack_arguments.append(aligned if name in arenas else name)
        test_arguments.append(numbers.get(name, f"test_aligned(test_{name})"))
    return {
        "name": files.name,
        "prefix": prefix,
        "run": interface.function,
        "on_stack": on_stack,
        "stack_parameters": _stack_signature(files).partition("(")[2].removesuffix(")"),
        "stack_arguments": ", ".join(stack_arguments),
        "test_arguments": ", ".join(test_arguments),
        "arenas": [{"name": each.name, "size": each.size} for each in interface.arenas],
        "wide_printers": wide_printers({each.port.dtype for each in interface.outputs}),
        "state": bool(interface.state),
        "reset": interface.reset,
        "inputs": [_port(each) for each in interface.inputs],
        "outputs": [_port(each) for each in interface.outputs],
    }


def _port(each: PortName) -> Mapping[str, Any]:
    port = each.port
    height, width, channels, first = _image(port.shape)
    title = comment_text(port.name).replace("\\", "\\\\").replace('"', '\\"')
    return {
        "name": each.name,
        "title": title.replace("%", "%%"),
        "ctype": STORAGE[port.dtype],
        "dtype": port.dtype.value,
        "count": prod(port.shape),
        "limits": None if port.dtype.is_float else port.dtype.limits,
        "bytes": port.dtype.bytes,
        "float": port.dtype in (DType.F32, DType.F64),
        "whole": port.dtype in HALVES,
        "height": height,
        "width": width,
        "channels": channels,
        "pixels": height * width,
        "first": first,
    }


def _image(shape: Sequence[int]) -> tuple[int, int, int, bool]:
    """Rows, columns and channels of an image, and whether channels are its slowest axis.

    Channels are none where a shape is no image's.
    """
    sizes = tuple(shape)
    while len(sizes) > 2 and sizes[0] == 1 and (len(sizes) > 3 or sizes[-1] not in (1, 3)):
        sizes = sizes[1:]
    match sizes:
        case (height, width, 1 | 3 as channels):
            return height, width, channels, False
        case (1 | 3 as channels, height, width):
            return height, width, channels, channels > 1
        case (height, width):
            return height, width, 1, False
        case _:
            return 0, 0, 0, False
