"""What would fit where RAM is short: chains of layers by patches, each really planned."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from weft import export as toolkits
from weft.api.network import N, apply
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.plan.plan import Plan
from weft.plan.report import Row, report
from weft.targets.boards import boards, flash_bytes, processor, ram_bytes
from weft.targets.find import target

_REACH = 2
"""Steps before and after the one that needs most, at which chains begin and end."""
_PARTS = (2, 4, 8)
_ROUNDS, _TRIES = 2, 12
_BOARDS = 3
"""Boards that are tried."""
_OTHERWISE = "Smaller inputs or fewer channels there would fit, or a machine with more RAM"


@dataclass(frozen=True)
class _Tiled(Generic[N]):
    """A network with chains of layers in parts.

    Attributes:
        net: the network.
        steps: how ``weft apply`` makes it.
        plan: of it.
    """

    net: N
    steps: tuple[str, ...]
    plan: Plan


def board_that_fits(made: toolkits.Toolkit, make: Callable[[str], toolkits.Toolkit]) -> str:
    """A board that has room for a network, really planned for it; nothing if none is found.

    Args:
        made: the network's toolkit.
        make: makes one for a board.
    """
    ram, _ = toolkits.ram_needed(made)
    own = processor(made.machine) if made.machine is not None else ""
    records = [
        each
        for each in map(target, boards())
        if ram_bytes(each) >= ram and (flash_bytes(each) or made.flash_bytes) >= made.flash_bytes
    ]
    # The smallest first, those with the same processor before others.
    records.sort(key=lambda each: (processor(each) != own, ram_bytes(each), each.name))
    for record in records[:_BOARDS]:
        try:
            found = make(record.name)
            toolkits.check_room(found, ram_bytes(record), flash_bytes(record) or None)
        except UserError:
            continue
        needed, flash = toolkits.ram_needed(found)[0], found.flash_bytes
        whole = f" of {flash_bytes(record):,}" if flash_bytes(record) else ""
        return (
            f"--board {record.name} has room: {needed:,} of {ram_bytes(record):,} bytes of RAM, "
            f"{flash:,}{whole} bytes of flash"
        )
    return ""


def tiles_that_fit(
    net: N,
    made: toolkits.Toolkit,
    ram: int,
    plan: Callable[[N], Plan],
    make: Callable[[N], toolkits.Toolkit],
    larger: Callable[[], str] = str,
) -> str:
    """What to do about a network that needs too much RAM; ``tile-chain`` is tried.

    Args:
        net: the network as it was loaded.
        made: its toolkit.
        ram: bytes that there are.
        plan: plans a network as the toolkit was.
        make: makes its toolkit.
        larger: names a board with room for it.
    """
    needed, _ = toolkits.ram_needed(made)
    beside = needed - made.report.arena_bytes
    best, tries = _Tiled(net, (), plan(net)), 0
    for _ in range(_ROUNDS):
        start = best
        for tiled in _candidates(start, plan, _TRIES - tries):
            tries += 1
            if tiled.plan.arena_bytes < best.plan.arena_bytes:
                best = tiled
            if tiled.plan.arena_bytes + beside <= ram:
                found = make(tiled.net)
                if toolkits.ram_needed(found)[0] <= ram:
                    return f"{_told(tiled, made)} gives a network that fits: {_figures(found)}"
        if best is start:
            break
    found = make(best.net) if best.steps else made
    texts = list(filter(None, [larger()])) or [_OTHERWISE]
    if best.steps:
        texts = [f"{_told(best, made)} is not enough: {_figures(found)}", *texts]
    if (
        not found.files.stack.compiler
        and toolkits.ram_needed(found)[0] - ram < found.files.stack_bytes
    ):
        texts.append("The stack is an estimate; --compiler measures it")
    return ". ".join(texts)


def _told(tiled: _Tiled[N], made: toolkits.Toolkit) -> str:
    return f"`weft apply {shlex.quote(made.model)} {' '.join(tiled.steps)} -o tiled.onnx`"


def _figures(found: toolkits.Toolkit) -> str:
    return (
        f"{toolkits.ram_needed(found)[0]:,} bytes with arena {found.report.arena_bytes:,} "
        f"and stack {found.files.stack_bytes:,}"
    )


def _candidates(start: _Tiled[N], plan: Callable[[N], Plan], most: int) -> Iterator[_Tiled[N]]:
    """The network with one more chain in parts, around the step that needs most."""
    tried = 0
    for first, last in _chains(start.net.graph, report(start.plan).rows):
        for parts in _PARTS:
            if tried == most:
                return
            try:
                net = apply(start.net, "tile-chain", first=first, last=last, parts=parts)
                planned = plan(net)
            except UserError:
                break  # these layers cannot be cut so, or do not fit into the memory regions then
            tried += 1
            names = f"first={shlex.quote(first)} last={shlex.quote(last)}"
            yield _Tiled(net, (*start.steps, f"tile-chain {names} parts={parts}"), planned)


def _chains(graph: Graph, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """First and last nodes around the step that needs most, nearest first."""
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    known = [sorted((places[name], name) for name in row.nodes if name in places) for row in rows]
    peak = max(range(len(rows)), key=lambda place: rows[place].live)
    seen: set[tuple[str, str]] = set()
    for length in range(1, 2 * _REACH):
        for begin in range(peak - length, peak + 1):
            end = begin + length
            if begin < 0 or end >= len(rows) or not known[begin] or not known[end]:
                continue
            chain = known[begin][0][1], known[end][-1][1]
            if places[chain[0]] < places[chain[1]] and chain not in seen:
                seen.add(chain)
                yield chain
