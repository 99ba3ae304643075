"""What the templates of a toolkit may speak of."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from weft.codegen.interface import run_parameters
from weft.codegen.naming import STORAGE, comment_text
from weft.codegen.run import step_macro, stepped_name
from weft.codegen.stack import IDLE, LINK, RED_ZONE, ROUND
from weft.export.boards import cmsis_core, place_facts, qemu_facts
from weft.export.exports import EXPORTS
from weft.export.kit import Toolkit
from weft.export.page import cost_of, layer_facts, memory_uses, origin_facts, use_facts
from weft.export.printing import wide_printers
from weft.export.steps import step_facts
from weft.ir.foreign import CXX, OBJECTS, C, Foreign, with_suffix
from weft.ir.short_names import MOST, short_names
from weft.pictures.canvas import COLOURS
from weft.pictures.memory import memory_map
from weft.plan.program import Port
from weft.plan.report import Report, Row, size


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
        "inputs": _ports(toolkit, outputs=False),
        "outputs": _ports(toolkit, outputs=True),
        "blob_bytes": files.blob.size if files.blob is not None else 0,
        # What the self-test hands on besides golden data: weights that it reads or prepares.
        "blob": files.blob is not None or bool(files.interface.prepare),
        "prepare": files.interface.prepare,
        "held_bytes": toolkit.parameter_data.size,
        "held_at": ", ".join(map(str, toolkit.parameter_data.offsets.values())),
        "data": f"{files.name}{'_parameters' if files.interface.prepare else ''}.bin",
        "wide_printers": wide_printers({each.port.dtype for each in files.interface.outputs}),
        "halves": any(port["dtype"] in ("f16", "bf16") for port in _ports(toolkit, outputs=True)),
        "steps": step_facts(files, toolkit.steps) if toolkit.steps else {},
        "stepped": files.stepped,
        "step_macro": step_macro(files.interface),
        "run_steps": stepped_name(files.interface),
        # Whether a program needs nothing but the sources.
        "standalone": not (
            files.blob is not None or files.interface.prepare or files.foreign.files
        ),
        "threads": files.threads,
        "pool": files.threads > 1,
        "report": report,
        "notes": files.notes,
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
                "section": each.size.removesuffix("_BYTES") + "_SECTION",
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
        "link": LINK,
        "idle": " || ".join(f'name == "{each}"' for each in IDLE),
        "parameters": ", ".join(f"{type}{name}" for type, name in parameters),
        "types": ", ".join(type.rstrip() for type, _ in parameters),
        "names": [name for _, name in parameters],
        "flash_bytes": toolkit.flash_bytes,
        "flash_measured": toolkit.build.measured if toolkit.build.flash is not None else "",
        "machine_flags": toolkit.flags,
        "cmsis_core": cmsis_core(toolkit.machine),
        "qemu": qemu_facts(toolkit.machine) if toolkit.on_qemu else {},
        "places": place_facts(toolkit.machine),
        "also": list(toolkit.also),
        "packages": [(EXPORTS[each].doc, f"`--also {each}`") for each in toolkit.also],
        **origin_facts(toolkit.origin),
        **_page(toolkit, names),
    }


def _page(toolkit: Toolkit, names: Mapping[str, str]) -> dict[str, Any]:
    """What the page of the report speaks of."""
    files, report, figures = toolkit.files, toolkit.report, toolkit.figures
    ports = sum(port.port.dtype.bytes * prod(port.port.shape) for port in files.interface.ports)
    beside = {"inputs and outputs": ports, "state": report.state_bytes, "stack": files.stack_bytes}
    code = toolkit.flash_bytes - report.weight_bytes
    uses = memory_uses(
        toolkit.machine,
        report,
        {name: count for name, count in beside.items() if count},
        {"weights": report.weight_bytes, "code" if code >= 0 else "": max(0, code)},
    )
    cost = round(sum(map(cost_of, figures)))
    what = "instructions" if toolkit.counted else "estimated cycles"
    return {
        "layers": layer_facts(report, figures, names) if figures else [],
        "cost_name": what,
        "cost_note": f"Instructions were counted: {toolkit.counted}."
        if toolkit.counted
        else "Cycles are the plan's estimates, for comparing layers (--count counts instructions).",
        "cards": [
            (size(report.arena_bytes), "arena"),
            (size(files.stack_bytes), "stack" + ("" if files.stack.compiler else ", estimated")),
            (size(report.weight_bytes), "weights"),
            (size(toolkit.flash_bytes), "code and constants"),
            (f"{sum(each.macs for each in figures):,}", "multiply-accumulates"),
            (f"{cost:,}", what),
        ],
        "uses": use_facts(uses),
        "colours": COLOURS,
        "board_doc": toolkit.machine.doc.rstrip(".") if toolkit.machine else "",
        "memory_svg": memory_map(
            files.name,
            toolkit.spans,
            len(report.rows),
            report.arena_bytes,
            report.lower_bound,
            report.rows,
            report.arenas,
        ),
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


def _ports(toolkit: Toolkit, outputs: bool) -> list[dict[str, Any]]:
    files, golden = toolkit.files, toolkit.golden
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
                **_scale(each.port, toolkit.scales.get(each.port.name)),
            }
        )
    return found


def _scale(port: Port, scale: tuple[float, int] | None) -> dict[str, Any]:
    """What integers of a port stand for, if it is known."""
    if scale is None or port.dtype.is_float:
        return {"scale": "", "zero": 0, "least": 0, "most": 0}
    least, most = port.dtype.limits
    return {"scale": repr(scale[0]), "zero": scale[1], "least": least, "most": most}


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
