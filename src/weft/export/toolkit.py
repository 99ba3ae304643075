"""The Software Toolkit: a network as C with all that it takes to build, check and ship it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from weft.atomic import replacing_folder, write_files
from weft.codegen.blob import Blob, pack
from weft.codegen.emit import Files
from weft.codegen.flavours import Dialect
from weft.codegen.interface import run_parameters
from weft.codegen.layout import standard_headers
from weft.codegen.literals import array_lines, array_names, storage_of
from weft.codegen.naming import STORAGE, comment_text
from weft.codegen.stack import RED_ZONE, ROUND
from weft.errors import UserError
from weft.export.exports import TOOLKIT, written
from weft.export.golden import Golden, TestVector
from weft.ir.foreign import CXX, OBJECTS, C, Foreign, with_suffix
from weft.ir.short_names import MOST, short_names
from weft.pictures.memory import memory_map
from weft.plan.plan import ALIGNMENT
from weft.plan.report import LayerSpan, Report, Row, size, summary
from weft.plan.solver import solver_name
from weft.runtime.threads import pool_texts
from weft.screen import Screen, Shown

MARKER = "toolkit.json"


@dataclass(frozen=True)
class ToolkitBuild:
    """How a toolkit is built.

    Attributes:
        compiler: the command that its Makefile calls; the system's if empty.
        archiver: what goes with it, if that is known.
        flags: for it; level 2 of optimization and the target's if there are none.
        flash: bytes of code and constants, if they were measured.
        measured: what measured them.
    """

    compiler: str = ""
    archiver: str = ""
    flags: tuple[str, ...] = ()
    flash: int | None = None
    measured: str = ""


@dataclass(frozen=True, repr=False)
class Toolkit(Shown):
    """What goes into a toolkit.

    Attributes:
        files: the generated C.
        report: the plan in figures.
        spans: what lies in the arena when and where.
        golden: inputs and the outputs that they must give.
        model: what was compiled, for people (``resnet18.onnx``).
        target: name of the target.
        flags: compiler flags of the target.
        build: how its Makefile builds it, and what that was found to take.
        also: exports (see ``weft.export.exports``) whose files are written, too.
        parameters: what the self-test prepares weights of, if they are given at run time.
    """

    files: Files
    report: Report
    spans: Sequence[LayerSpan]
    golden: Golden
    model: str
    target: str
    flags: Sequence[str] = ()
    build: ToolkitBuild = ToolkitBuild()
    also: Sequence[str] = ()
    parameters: tuple[np.ndarray, ...] = ()

    @property
    def flash_bytes(self) -> int:
        """Bytes of code and constants: measured, or else an estimate."""
        blob = self.files.blob
        if self.build.flash is None:
            return self.report.weight_bytes + self.files.code_bytes
        return self.build.flash + (blob.size if blob is not None else 0)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        facts = (("run", self.files.interface.function), ("plan", summary(self.report)))
        title = f"Toolkit of {self.model} for {self.target}"
        return replace(self.files.screen(), title=title, facts=facts)


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
        held = _held(toolkit)
        names += write_files(folder, [(f"{files.name}_parameters.bin", held.pieces())])
    return sorted(names)


def _check_name(name: str, taken: Sequence[str]) -> None:
    if Path(name).name != name:
        raise UserError("files of a toolkit must lie in its folder", got=name)
    if name in taken:
        raise UserError(
            "files of a toolkit must have unique names",
            got=f"{name} twice",
            fix="Rename the plugin's file, or the network.",
        )


def _texts(toolkit: Toolkit) -> Iterator[tuple[str, str]]:
    files, report = toolkit.files, toolkit.report
    yield files.header
    yield from files.private
    yield from files.sources
    if files.threads > 1:
        yield from pool_texts()
    yield f"{files.name}_golden.h", golden_header(toolkit)
    made = facts(toolkit)
    yield from written(TOOLKIT, toolkit, made)
    yield (
        "memory.svg",
        memory_map(
            files.name,
            toolkit.spans,
            len(report.rows),
            report.arena_bytes,
            report.lower_bound,
            report.rows,
            report.arenas,
        ),
    )
    yield MARKER, json.dumps(_record(toolkit), indent=2) + "\n"
    for name in toolkit.also:
        yield from written(name, toolkit, made)


def _held(toolkit: Toolkit) -> Blob:
    """The parameters in the order in which they are prepared, each aligned."""
    arrays = {str(place): array for place, array in enumerate(toolkit.parameters)}
    return pack(arrays, ALIGNMENT)


def facts(toolkit: Toolkit) -> dict[str, Any]:
    """What templates may speak of."""
    files, report, golden = toolkit.files, toolkit.report, toolkit.golden
    parameters = run_parameters(files.interface)
    names = _names(report)
    return {
        "name": files.name,
        "prefix": files.interface.prefix,
        "run": files.interface.function,
        "model": comment_text(toolkit.model),
        "target": toolkit.target,
        "flavour": files.flavour,
        "flags": " ".join(toolkit.flags),
        "compiler": toolkit.build.compiler,
        "archiver": toolkit.build.archiver,
        "cflags": " ".join(toolkit.build.flags or ("-O2",)),
        "machine": "" if toolkit.build.flags else " ".join(toolkit.flags),
        "sources": [name for name, _ in files.sources],
        "foreign": _foreign(files.foreign),
        "headers": [files.header[0], *(name for name, _ in files.private)],
        "inputs": _ports(files, golden, outputs=False),
        "outputs": _ports(files, golden, outputs=True),
        "blob_bytes": files.blob.size if files.blob is not None else 0,
        # What the self-test hands on besides golden data: weights that it reads or prepares.
        "blob": files.blob is not None or bool(files.interface.prepare),
        "prepare": files.interface.prepare,
        "held_bytes": _held(toolkit).size,
        "held_at": ", ".join(map(str, _held(toolkit).offsets.values())),
        "data": f"{files.name}{'_parameters' if files.interface.prepare else ''}.bin",
        "halves": any(
            port["dtype"] in ("f16", "bf16") for port in _ports(files, golden, outputs=True)
        ),
        "threads": files.threads,
        "pool": files.threads > 1,
        "report": report,
        "rows": [_row(row, names) for row in report.rows],
        "long_names": _long_names(report, names),
        "size": size,
        "arena_bytes": report.arena_bytes,
        "arenas": [
            {
                "name": each.name,
                "size": each.size,
                "region": each.arena.name,
                "bytes": each.arena.bytes,
                "section": each.size.removesuffix("_BYTES") + "_SECTION" if each.arena.name else "",
            }
            for each in files.interface.arenas
        ],
        "reset": files.interface.reset,
        "state_bytes": report.state_bytes,
        "runs": golden.runs,
        "stack_bytes": files.stack_bytes,
        "stack": files.stack,
        "calls": files.calls,
        "red_zone": RED_ZONE,
        "round": ROUND,
        "parameters": ", ".join(f"{type}{name}" for type, name in parameters),
        "types": ", ".join(type.rstrip() for type, _ in parameters),
        "names": [name for _, name in parameters],
        "flash_bytes": toolkit.flash_bytes,
        "flash_measured": toolkit.build.measured if toolkit.build.flash is not None else "",
    }


def _foreign(foreign: Foreign) -> dict[str, Any]:
    """What the templates speak of that Weft did not write."""
    cxx = with_suffix(foreign, CXX)
    compiled = with_suffix(foreign, (*C, *CXX))
    libraries = with_suffix(foreign, OBJECTS)
    names = [name for name, _ in foreign.files]
    return {
        "any": bool(foreign.files),
        "cxx": bool(cxx),
        "files": names,
        "sources": [{"name": name, "cxx": name in cxx} for name in compiled],
        "headers": [name for name in names if name not in (*compiled, *libraries)],
        "libraries": libraries,
        "flags": "".join(f"{flag} " for flag in foreign.flags),
        "link": "".join(f"{flag} " for flag in foreign.link),
    }


def _ports(files: Files, golden: Golden, outputs: bool) -> list[dict[str, Any]]:
    named = files.interface.outputs if outputs else files.interface.inputs
    vectors = golden.outputs if outputs else golden.inputs
    found: list[dict[str, Any]] = []
    for each, vector in zip(named, vectors, strict=True):
        found.append(
            {
                "name": each.name,
                "title": comment_text(each.port.name),
                "dtype": each.port.dtype.value,
                "ctype": STORAGE[each.port.dtype],
                "shape": "x".join(map(str, each.port.shape)) or "scalar",
                "count": max(1, vector.array.size // golden.runs),
                "tolerance": repr(float(vector.tolerance)),
            }
        )
    return found


def _names(report: Report) -> dict[str, str]:
    """Short names of nodes and values."""
    places = (place.value for row in report.rows for place in (*row.reads, *row.writes))
    return short_names([*(node for row in report.rows for node in row.nodes), *places])


def _long_names(report: Report, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Nodes under short names, and the long ones that they have in the source model."""
    nodes = [pair for row in report.rows for pair in zip(row.nodes, row.sources, strict=False)]
    found = dict.fromkeys(
        (_cell(names[node]), _cell(source))
        for node, sources in nodes
        for source in sources or (node,)
        if len(source) > MOST
    )
    return list(found)


def _row(row: Row, names: Mapping[str, str]) -> dict[str, str]:
    """One line of the report; what may hold Markdown's own characters is escaped."""
    return {
        "step": str(row.step),
        "does": _cell(" + ".join(row.ops)),
        "kernel": _cell(_kernel(row)),
        "nodes": _cell(", ".join(names[node] for node in row.nodes)),
        "writes": _cell("; ".join(f"{names[place.value]} {place.type}" for place in row.writes)),
        "at": _cell("; ".join(place.at(" ") for place in row.writes)),
        "live": size(row.live),
    }


def _kernel(row: Row) -> str:
    """The kernel, why it is this one, and how its weights are stored."""
    why = f" ({row.reason})" if row.reason else ""
    return "; ".join([f"{row.scheme}{why}", *map(str, row.encodings)])


def _cell(text: str) -> str:
    return comment_text(text).replace("|", "\\|").replace("<", "&lt;")


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
        f"static const {storage_of(array)} {name}[{array.size}] = {{",
        *array_lines(array, dialect),
        "};",
        "",
    ]
