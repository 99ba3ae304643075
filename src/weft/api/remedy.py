"""What fits where RAM is short: rows of chains of layers, streamed, each really planned.

A chain that is computed strip by strip never has its values as a whole, only what a strip needs
of them (``tile-chain``; J. Lin et al., MCUNetV2: Memory-Efficient Patch-based Inference for Tiny
Deep Learning, 2021).  Rows that two strips need are computed twice, so short chains and few
strips are tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from weft import export as toolkits
from weft.api.network import Network, apply, expanded
from weft.errors import UserError
from weft.ir.short_names import names_of
from weft.options import Options
from weft.plan.plan import Plan
from weft.plan.program import Region
from weft.plan.report import Row, report
from weft.records import dataclass
from weft.targets.boards import boards, flash_bytes, processor, ram_bytes
from weft.targets.find import target

_STRIPS = (2, 3, 4, 6, 8, 12)
_ROUNDS, _TRIES = 3, 24
_BOARDS = 3
"""Boards that are tried."""
_OTHERWISE = "Smaller inputs or fewer channels there would fit, or a machine with more RAM"


@dataclass(frozen=True)
class StreamedChain:
    """Layers that are computed by strips of rows.

    Attributes:
        first, last: their first and last node, by names short enough to read.
        strips: how many.
        ends: the nodes.
    """

    first: str
    last: str
    strips: int
    ends: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.first} to {self.last} in {self.strips} strips of rows"


@dataclass(frozen=True)
class Streamed:
    """A network with chains of layers in strips.

    Attributes:
        net: the network.
        chains: what was cut.
        plan: of it.
    """

    net: Network
    chains: tuple[StreamedChain, ...]
    plan: Plan


def streamed(
    start: Streamed, room: int, plan: Callable[[Network], Plan], fits: Callable[[Streamed], bool]
) -> Streamed:
    """A network that fits, its rows streamed; the one with the smallest arena if none does.

    Args:
        start: the network, as it is planned.
        room: bytes that there are for the arena.
        plan: plans a network.
        fits: whether one whose arena has room fits with all that is beside it.
    """
    best, tries = start, 0
    for _ in range(_ROUNDS):
        begun = best
        for found in _candidates(begun, room, plan, _TRIES - tries):
            tries += 1
            if found.plan.arena_bytes < best.plan.arena_bytes:
                best = found
            if found.plan.arena_bytes <= room and fits(found):
                return found
        if best is begun:
            break
    return best


def _candidates(
    start: Streamed, room: int, plan: Callable[[Network], Plan], most: int
) -> Iterator[Streamed]:
    """The network with one more chain in strips, the cheapest to compute first."""
    tried = 0
    names = names_of(start.net.graph)
    for first, last in _chains(start, room):
        arena = start.plan.arena_bytes
        for strips in _STRIPS:
            if tried == most:
                return
            try:
                net = apply(start.net, "tile-chain", first=first, last=last, parts=strips)
                planned = plan(net)
            except UserError:
                break  # these layers cannot be cut so, or do not fit into the memory regions then
            tried += 1
            chain = StreamedChain(names[first], names[last], strips, (first, last))
            yield Streamed(net, (*start.chains, chain), planned)
            if planned.arena_bytes >= arena:
                break  # what two strips need grows faster than strips shrink
            arena = planned.arena_bytes


def _chains(start: Streamed, room: int) -> list[tuple[str, str]]:
    """First and last nodes of chains around the step that needs most, the shortest first.

    What they read and what they make exists as a whole, so that must leave room for strips.
    """
    graph, rows = start.net.graph, report(start.plan).rows
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    known = [sorted((places[name], name) for name in row.nodes if name in places) for row in rows]
    peak = max(range(len(rows)), key=lambda place: rows[place].live)
    low, high = peak, peak
    while low > 0 and rows[low - 1].live > room:
        low -= 1
    while high + 1 < len(rows) and rows[high + 1].live > room:
        high += 1
    least = rows[peak].live // _STRIPS[-1]
    found: list[tuple[int, int, int, tuple[str, str]]] = []
    for begin in range(peak + 1):
        for end in range(max(peak, begin + 1), len(rows)):
            whole = _whole(rows, begin, end)
            if known[begin] and known[end] and whole < rows[peak].live:
                chain = known[begin][0][1], known[end][-1][1]
                hopeless = (begin > low or end < high) + (whole + least > room)
                found.append((hopeless, end - begin, whole, chain))
    return [chain for *_, chain in sorted(found)]


def _whole(rows: Sequence[Row], begin: int, end: int) -> int:
    """Bytes of the arena that the first step of a chain reads and its last makes."""
    sides = (*rows[begin].reads, *rows[end].writes)
    return sum(each.bytes for each in sides if each.region == Region.ARENA.value)


def within_ram(
    net: Network,
    made: toolkits.Toolkit,
    options: Options,
    plan: Callable[[Network, Options, str], Plan],
    make: Callable[[Network, Options], toolkits.Toolkit],
    larger: Callable[[], str] = str,
) -> tuple[toolkits.Toolkit, str]:
    """A toolkit, its rows streamed where it does not fit otherwise, or what to do about that.

    Args:
        net: the network.
        made: its toolkit.
        options: it was made with; ``ram`` is what must suffice.
        plan: plans a network.
        make: makes its toolkit.
        larger: names a board with room for it.

    Returns:
        The toolkit of a network that fits, or the one that was given and a remedy.
    """
    ram = options.ram
    if ram is None or toolkits.ram_needed(made)[0] <= ram or options.parameters:
        return made, ""
    best, found = best_streamed(net, made, options, ram, plan, make)
    if options.plan is None and toolkits.ram_needed(found)[0] <= ram:
        # What it must give is what the network as it was loaded gives.
        chains = tuple(map(str, best.chains))
        return replace(found, golden=made.golden, streamed=chains), ""
    return made, remedy(best, made, found, ram, larger)


def best_streamed(
    net: Network,
    made: toolkits.Toolkit,
    options: Options,
    ram: int,
    plan: Callable[[Network, Options, str], Plan],
    make: Callable[[Network, Options], toolkits.Toolkit],
) -> tuple[Streamed, toolkits.Toolkit]:
    """A network with its rows streamed that fits, or the one with the smallest arena.

    Args:
        net: the network.
        made: its toolkit, which does not fit.
        options: it was made with.
        ram: bytes that must suffice.
        plan: plans a network.
        make: makes its toolkit.

    Returns:
        The network and its toolkit.
    """
    afresh = replace(
        options,
        plan=None,
        count=False,
        target=made.machine or options.target,
        precision="",
        keep_float32=(),
    )
    inner = expanded(
        net,
        made.target,
        exact=options.exact,
        plain=options.plain,
        precision=options.precision,
        keep_float32=options.keep_float32,
    )

    def planned(each: Network) -> Plan:
        return plan(each, afresh, "generic")

    def fits(each: Streamed) -> bool:
        return toolkits.ram_needed(make(each.net, afresh))[0] <= ram

    beside = toolkits.ram_needed(made)[0] - made.report.arena_bytes
    best = streamed(Streamed(inner, (), planned(inner)), ram - beside, planned, fits)
    return best, make(best.net, afresh) if best.chains else made


def with_chains(net: Network, chains: Sequence[str]) -> Network:
    """A network, as it is planned, with chains of layers in strips.

    Args:
        net: the network.
        chains: as the constraints of a plan have them.
    """
    for first, last, parts in zip(*[iter(chains)] * 3, strict=True):
        net = apply(net, "tile-chain", first=first, last=last, parts=int(parts))
    return net


# --- what is told -------------------------------------------------------------------------------


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


def remedy(
    best: Streamed,
    made: toolkits.Toolkit,
    found: toolkits.Toolkit,
    ram: int,
    larger: Callable[[], str] = str,
) -> str:
    """What to do about a network that needs too much RAM.

    Args:
        best: what streaming gave.
        made: the toolkit of the network.
        found: that of the best.
        ram: bytes that there are.
        larger: names a board with room for it.
    """
    needed, _ = toolkits.ram_needed(found)
    told = ", and ".join(map(str, best.chains))
    if needed <= ram:
        return f"Without the plan that was given it fits: {told}, {_figures(found)}"
    texts = list(filter(None, [larger()])) or [_OTHERWISE]
    if best.chains:
        texts = [f"With {told} it fits into --ram {needed}: {_figures(found)}", *texts]
    if not made.files.stack.compiler and needed - ram < found.files.stack_bytes:
        texts.append("The stack is an estimate; --compiler measures it")
    return ". ".join(texts)


def _figures(found: toolkits.Toolkit) -> str:
    return (
        f"{toolkits.ram_needed(found)[0]:,} bytes with arena {found.report.arena_bytes:,} "
        f"and stack {found.files.stack_bytes:,}"
    )
