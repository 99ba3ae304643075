"""What the page of a report, ``REPORT.html``, speaks of: layers and memories in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.export.records import Provenance
from weft.export.steps import StepFigures
from weft.plan.report import Report, Row, size
from weft.records import dataclass
from weft.targets.target import Memory, Target


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a network takes of a kind of memory.

    Attributes:
        name: of the memory.
        parts: what lies in it, with bytes.
        bytes: that there are; 0 where that is not known.
        note: what else there is to say.
    """

    name: str
    parts: tuple[tuple[str, int], ...]
    bytes: int = 0
    note: str = ""

    @property
    def used(self) -> int:
        """Bytes that are used."""
        return sum(size for _, size in self.parts)


def layer_facts(
    report: Report, figures: Sequence[StepFigures], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The steps with their figures; ``share`` is of the longest, in percent."""
    costs = [cost_of(each) for each in figures]
    most = max(costs, default=0) or 1
    return [
        {
            **_layer(row, each, names),
            "cost": f"{cost:,.0f}" if cost else "",
            "share": round(100 * cost / most, 1),
            "per_mac": f"{cost / each.macs:.2f}" if each.macs and cost else "",
        }
        for row, each, cost in zip(report.rows, figures, costs, strict=True)
    ]


def _layer(row: Row, each: StepFigures, names: Mapping[str, str]) -> dict[str, Any]:
    sources = dict.fromkeys(name for named in row.sources for name in named)
    return {
        "step": row.step,
        "does": " + ".join(row.ops),
        "layers": ", ".join(names.get(name, name) for name in row.nodes),
        "sources": ", ".join(sources),
        "kernel": row.scheme,
        "output": "; ".join(place.type for place in row.writes),
        "macs": f"{each.macs:,}" if each.macs else "",
        "ram": f"{row.live:,}",
        "flash": f"{each.weight_bytes:,}" if each.weight_bytes else "",
        "rules": ", ".join(each.rules),
    }


def cost_of(each: StepFigures) -> float:
    """Counted instructions, or else estimated cycles."""
    return each.cycles if each.instructions is None else float(each.instructions)


def memory_uses(
    machine: Target | None, report: Report, ram: Mapping[str, int], flash: Mapping[str, int]
) -> list[MemoryUse]:
    """What the network takes of the machine's memories.

    Args:
        machine: the target, if its memories have sizes.
        report: of the plan.
        ram: bytes beside the arena that lie in RAM, by what they are.
        flash: bytes of constants and code.
    """
    memories = machine.memories if machine is not None else ()
    rams = [each for each in memories if each.kind == "ram" and each.may_hold("arena")]
    found: list[MemoryUse] = []
    beside = tuple(ram.items())
    for each in report.arenas or ():
        held = _named(rams, each.name)
        found.append(MemoryUse(each.name, (("arena", each.bytes),), held.bytes if held else 0))
    if not found:
        whole = sum(each.bytes for each in rams)
        parts = (("arena", report.arena_bytes), *beside)
        found.append(MemoryUse(_names(rams, "RAM"), parts, whole))
    elif beside:
        found.append(MemoryUse("any RAM", beside, note="where the linker script puts them"))
    roms = [each for each in memories if each.kind == "rom"]
    whole = sum(each.bytes for each in roms)
    found.append(MemoryUse(_names(roms, "flash"), tuple(flash.items()), whole))
    return found


def _named(memories: Sequence[Memory], name: str) -> Memory | None:
    return next((each for each in memories if each.name.lower() == name.lower()), None)


def _names(memories: Sequence[Memory], default: str) -> str:
    return " and ".join(each.name for each in memories) or default


def use_facts(uses: Sequence[MemoryUse]) -> list[dict[str, Any]]:
    """The memories for a template: each part with its place in a bar of 100."""
    found: list[dict[str, Any]] = []
    for use in uses:
        whole = max(use.bytes, use.used) or 1
        at = 0.0
        parts: list[dict[str, Any]] = []
        for name, count in use.parts:
            width = 100 * count / whole
            parts.append(
                {"name": name, "bytes": size(count), "at": round(at, 3), "width": round(width, 3)}
            )
            at += width
        found.append(
            {
                "name": use.name,
                "parts": parts,
                "used": size(use.used),
                "bytes": size(use.bytes) if use.bytes else "",
                "percent": f"{100 * use.used / use.bytes:.1f} %" if use.bytes else "",
                "note": use.note,
            }
        )
    return found


def origin_facts(origin: Provenance) -> dict[str, Any]:
    """Version, hashes and history for a template."""
    return {
        "weft_version": origin.weft or "(unknown version)",
        "graph_hash": origin.graph,
        "source_hash": origin.source,
        "history": origin.history,
    }
