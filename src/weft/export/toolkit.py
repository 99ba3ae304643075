"""The Software Toolkit: a network as C with all that it takes to build, check and ship it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from weft.atomic import replacing_folder, write_files
from weft.codegen.flavours import Dialect
from weft.codegen.layout import standard_headers
from weft.codegen.literals import array_lines, array_names, storage_of
from weft.errors import UserError
from weft.export.boards import qemu_files
from weft.export.exports import TOOLKIT, written
from weft.export.facts import facts
from weft.export.golden import TestVector
from weft.export.kit import Toolkit, ToolkitBuild
from weft.export.records import MANIFEST, SBOM, file_record, manifest, sbom
from weft.export.steps import step_header
from weft.plan.solver import solver_name
from weft.runtime.threads import pool_texts

__all__ = ["MARKER", "Toolkit", "ToolkitBuild", "check_folder", "facts", "golden_header", "write"]

MARKER = "toolkit.json"


def write(toolkit: Toolkit, folder: Path) -> list[str]:
    """Writes a toolkit: all of its files, or nothing where something fails.

    Args:
        toolkit: what to write.
        folder: where; must be absent, empty, or an earlier toolkit, which is replaced.

    Returns:
        Names of the files written.
    """
    check_folder(folder)
    with replacing_folder(folder) as fresh:
        return _fill(toolkit, fresh)


def check_folder(folder: Path, marker: str = MARKER, noun: str = "toolkit") -> None:
    """Refuses a folder that a toolkit may not replace.

    Args:
        folder: the folder.
        marker: the file that an earlier one has.
        noun: what that is called.

    Raises:
        UserError: it has other files than a toolkit's, or is in use as the current folder.
    """
    if folder.is_dir():
        here = Path.cwd()
        if folder.resolve() in (here, *here.parents):
            raise UserError(
                "the output folder is replaced as a whole, so it must not be the current folder "
                "or one above it",
                got=str(folder),
                fix="Use a subfolder, such as `toolkit`, or another folder.",
            )
        if any(folder.iterdir()) and not (folder / marker).is_file():
            raise UserError(
                f"the output folder must be empty or contain an earlier {noun}",
                got=str(folder),
                fix="Name another folder.",
            )
    elif folder.exists():
        raise UserError("the output folder must be a folder", got=str(folder))


def _fill(toolkit: Toolkit, folder: Path) -> list[str]:
    files, names = toolkit.files, list[str]()
    texts = ((name, text.encode()) for name, text in _texts(toolkit))
    for name, content in chain(texts, files.foreign.files):
        _check_name(name, names)
        names += write_files(folder, [(name, content)])
    if files.blob is not None:
        names += write_files(folder, [(f"{files.name}.bin", files.blob.pieces())])
    if toolkit.parameters:
        data = toolkit.parameter_data.pieces()
        names += write_files(folder, [(f"{files.name}_parameters.bin", data)])
    names += write_files(folder, [(SBOM, _sbom(toolkit, folder, names).encode())])
    listed = [file_record(folder, name) for name in sorted(names)]
    origin = toolkit.origin
    text = manifest(files.name, toolkit.model, toolkit.target, origin, listed)
    names += write_files(folder, [(MANIFEST, text.encode())])
    return sorted(names)


def _sbom(toolkit: Toolkit, folder: Path, names: Sequence[str]) -> str:
    listed = [file_record(folder, name) for name in sorted(names)]
    licence = (folder / "NOTICE").read_text(encoding="utf-8")
    return sbom(toolkit.files.name, toolkit.model, licence, toolkit.origin, listed)


def _check_name(name: str, taken: Sequence[str]) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name:
        raise UserError("files of a toolkit must lie in its folder", got=name)
    if name in taken:
        raise UserError(
            "files of a toolkit must have unique names",
            got=f"{name} twice",
            fix="Rename the plugin's file, or the network.",
        )


def _texts(toolkit: Toolkit) -> Iterator[tuple[str, str]]:
    files = toolkit.files
    yield files.header
    yield from files.private
    yield from files.sources
    if files.threads > 1:
        yield from pool_texts()
    yield f"{files.name}_golden.h", golden_header(toolkit)
    made, templates = facts(toolkit), toolkit.templates
    if toolkit.on_qemu:
        yield from qemu_files(toolkit.machine)
    if toolkit.steps:
        yield f"{files.name}_steps.h", step_header(files, toolkit.steps)
        yield f"{files.name}_steps.c", templates.rendered("steps.c.jinja", made)
    if made["standalone"]:
        yield "main.c", templates.rendered("main.c.jinja", made)
    yield "memory.svg", made["memory_svg"]
    yield MARKER, json.dumps(_record(toolkit), indent=2) + "\n"
    named = [(name, list(written(name, toolkit, made, templates))) for name in toolkit.also]
    replaced = {path for _, texts in named for path, _ in texts}
    # What an export writes comes in place of Weft's own file of the same name.
    own = written(TOOLKIT, toolkit, made, templates)
    yield from (each for each in own if each[0] not in replaced)
    for _, texts in named:
        yield from texts


def _record(toolkit: Toolkit) -> Mapping[str, Any]:
    """The figures, for scripts."""
    files, report = toolkit.files, toolkit.report
    return {
        "name": files.name,
        "model": toolkit.model,
        "target": toolkit.target,
        "flavour": files.flavour.name,
        "arena_bytes": report.arena_bytes,
        "arena_lower_bound": report.lower_bound,
        **({"regions": {each.name: each.bytes for each in report.arenas}} if report.arenas else {}),
        "state_bytes": report.state_bytes,
        "placement": report.method,
        "solver": solver_name() if report.method == "solver" else "",
        "stack_bytes": files.stack_bytes,
        "stack_measured": files.stack.compiler,
        "flash_bytes": toolkit.flash_bytes,
        "flash_measured": toolkit.build.measured if toolkit.build.flash is not None else "",
        "weight_bytes": report.weight_bytes,
        "threads": files.threads,
        "steps": len(report.rows),
        "inputs": [_port_record(each.port) for each in files.interface.inputs],
        "outputs": [_port_record(each.port) for each in files.interface.outputs],
    }


def _port_record(port: Any) -> Mapping[str, Any]:
    return {"name": port.name, "dtype": port.dtype.value, "shape": list(port.shape)}


def golden_header(toolkit: Toolkit) -> str:
    """The golden data as C arrays."""
    files, golden = toolkit.files, toolkit.golden
    guard = f"{files.interface.prefix}_GOLDEN_H"
    lines = [
        "/* Inputs, and the outputs that they must give. Generated by Weft. Do not edit. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f'#include "{files.header[0]}"',
    ]
    arrays: list[str] = []
    for word, vectors in (("input", golden.inputs), ("output", golden.outputs)):
        for number, vector in enumerate(vectors):
            arrays += _array(f"golden_{word}_{number}", vector, files.flavour)
    names = array_names((each.array for each in (*golden.inputs, *golden.outputs)), files.flavour)
    headers = standard_headers(names)
    return "\n".join([*lines, *headers, "", *arrays, "#endif", ""])


def _array(name: str, vector: TestVector, dialect: Dialect) -> list[str]:
    array = vector.array if vector.array.size else np.zeros(1, vector.array.dtype)
    return [
        f"static const {storage_of(array.dtype)} {name}[{array.size}] = {{",
        *array_lines(array, dialect),
        "};",
        "",
    ]
