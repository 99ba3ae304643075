"""A plan for people and scripts: rows, text and JSON."""

from __future__ import annotations

from dataclasses import asdict

from weft.ir.short_names import names_of
from weft.plan.memory import live_bytes
from weft.plan.plan import ALIGNMENT, Plan, PlannedStep
from weft.plan.program import Arena, Region, located
from weft.plan.solver import ADVICE, is_installed
from weft.plan.text import EncodingText
from weft.plan.written import encodings_of
from weft.records import dataclass
from weft.screen import Screen, Shown


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """Something that lies in the arena for a while.

    Attributes:
        name: of the buffer.
        kind: what it is coloured by.
        first: the first step in which it is live; last: the last one.
        offset: in bytes; bytes: its size.
        label: what the tooltip says beside name, place and time.
    """

    name: str
    kind: str
    first: int
    last: int
    offset: int
    bytes: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where a value lies.

    Attributes:
        value: its name.
        type: its type.
        region: ``input``, ``output``, ``arena``, ``state`` or ``weights``.
        offset: bytes from the region's start; of inputs, outputs and weights, from the
            start of the value that holds it.
        bytes: of the value alone.
        within: the value whose memory this is a part or a view of, if it is not its own.
        arena: the region of the arena, where there are several.
    """

    value: str
    type: str
    region: str
    offset: int
    bytes: int
    within: str = ""
    arena: str = ""

    def at(self, between: str = "+") -> str:
        """Where it lies: ``arena+128``; in memory of the caller's, its name alone."""
        counted = self.region in (Region.ARENA.value, Region.STATE.value)
        return f"{self.arena or self.region}{between}{self.offset}" if counted else self.region

    def __str__(self) -> str:
        return f"{self.value} {self.type} @{self.arena or self.region}+{self.offset}"


@dataclass(frozen=True, slots=True)
class Row:
    """One step of a plan.

    Attributes:
        step: its number.
        name: the function that it calls, or the op.
        ops: ops that it does, in graph order.
        nodes: names of their nodes.
        scheme: what generates its loops; ``extern`` for a C body, ``scan`` for a loop
            over a nested plan.
        reason: why it is this one (``weft.plan.choice``), where there was a choice.
        reads: what it reads; writes: what it makes.
        in_place: the value whose memory the result takes over, or nothing.
        scratch: bytes that it needs while it runs.
        live: bytes of the arena in use while it runs.
        encodings: of weights that are not stored as they are.
        sources: for each node, the names in the source model of what it stands for.
    """

    step: int
    name: str
    ops: tuple[str, ...]
    nodes: tuple[str, ...]
    scheme: str
    reason: str
    reads: tuple[MemoryPlace, ...]
    writes: tuple[MemoryPlace, ...]
    in_place: str
    scratch: int
    live: int
    encodings: tuple[EncodingText, ...] = ()
    sources: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """A plan in figures.

    Attributes:
        name: of the graph.
        rows: the steps, in order of execution.
        arena_bytes: size of the arena; lower_bound: what no placement in this order beats.
        method: what found the placement.
        weight_bytes: bytes of the constants that steps read.
        state_bytes: of the memory that is handed from run to run.
        arenas: the regions of the arena; none where it is one.
    """

    name: str
    rows: tuple[Row, ...]
    arena_bytes: int
    lower_bound: int
    method: str
    weight_bytes: int
    state_bytes: int = 0
    arenas: tuple[Arena, ...] = ()

    @property
    def ratio(self) -> float:
        """Arena over lower bound."""
        return self.arena_bytes / self.lower_bound if self.lower_bound else 1.0

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {**asdict(self), "ratio": round(self.ratio, 4)}

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = f"Report on {self.name}: {summary(self)}"
        return Screen(title, (), HEADINGS, [cells(row) for row in self.rows], (0, 5))


def _place(plan: Plan, value: str) -> MemoryPlace:
    view, type = plan.views[value], plan.types[value]
    root = plan.roots[view.root]
    offset = view.offset * type.dtype.bytes
    arena = ""
    if root.region is Region.ARENA:
        arena, offset = located(plan.arenas, plan.offsets.get(root.value, 0) + offset)
    elif root.region is Region.STATE:
        offset += plan.state_offsets[root.value]
    within = "" if root.value == value else root.value
    return MemoryPlace(value, str(type), root.region.value, offset, type.bytes, within, arena)


def _row(plan: Plan, number: int, step: PlannedStep, live: int) -> Row:
    nodes, made = step.nodes, step.implementation
    return Row(
        step=number,
        name=made.kernel.name if made else nodes[0].op,
        ops=tuple(node.op for node in nodes),
        nodes=tuple(node.name for node in nodes),
        scheme=step.scheme,
        reason=step.reason.value if step.reason else "",
        reads=tuple(_place(plan, value) for value in dict.fromkeys(step.reads)),
        writes=tuple(_place(plan, value) for value in step.writes),
        in_place=step.in_place,
        scratch=step.scratch,
        live=live,
        encodings=encodings_of(made, plan.graph.constants),
        sources=tuple(node.origin.sources for node in nodes),
    )


def report(plan: Plan) -> Report:
    """The figures of a plan."""
    live = live_bytes(plan.intervals, ALIGNMENT)
    live += [0] * (len(plan.steps) - len(live))
    rows = tuple(_row(plan, number, step, live[number]) for number, step in enumerate(plan.steps))
    weights = {
        place.within or place.value
        for row in rows
        for place in row.reads
        if place.region == Region.WEIGHTS.value
    }
    return Report(
        plan.graph.name,
        rows,
        plan.arena_bytes,
        plan.lower_bound,
        plan.method,
        sum(plan.types[value].bytes for value in weights)
        + sum(step.nested.weight_bytes for step in plan.steps if step.nested)
        - _saved(rows, plan),
        plan.state_bytes,
        plan.arenas,
    )


def _saved(rows: tuple[Row, ...], plan: Plan) -> int:
    """Bytes that encodings save."""
    found = {each.value: each.bytes for row in rows for each in row.encodings}
    return sum(plan.types[value].bytes - size for value, size in found.items())


def spans(plan: Plan) -> list[LayerSpan]:
    """What lies in the arena when and where, for the memory map."""
    makers: dict[str, tuple[str, str]] = {}
    names = names_of(plan.graph, plan.types)
    for step in plan.steps:
        nodes = step.nodes
        for value in step.writes:
            root = plan.views[value].root
            makers.setdefault(root, (nodes[-1].op, f"{names[value]} {plan.types[value]}"))
    found: list[LayerSpan] = []
    for each in plan.intervals:
        if each.name in plan.offsets:
            kind, label = makers.get(each.name, ("", each.name))
            offset = plan.offsets[each.name]
        else:
            kind, label, offset = "scratch", each.name, plan.scratch[each.first]
        found.append(LayerSpan(each.name, kind, each.first, each.last, offset, each.bytes, label))
    return found


def size(count: int) -> str:
    """Bytes for people: ``3,072 B`` or ``1.50 MiB``."""
    if count < 100_000:
        return f"{count:,} B"
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):.2f} MiB"


HEADINGS = ("step", "does", "scheme", "reads", "writes", "live")


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, under ``HEADINGS``."""
    reads = "\n".join(
        f"{place.value} {place.at()}" for place in row.reads if place.region != "weights"
    )
    writes = "\n".join(f"{place.value} {place.type} {place.at()}" for place in row.writes)
    if row.in_place:
        writes += f"\nin place of {row.in_place}"
    if row.scratch:
        writes += f"\nscratch {size(row.scratch)}"
    return (str(row.step), " + ".join(row.ops), row.scheme, reads, writes, size(row.live))


def summary(report: Report) -> str:
    """The totals, in one line."""
    missed = report.arena_bytes > report.lower_bound
    advice = f"; {ADVICE}" if missed and not is_installed() else ""
    regions = ", ".join(f"{each.name} {each.bytes:,}" for each in report.arenas)
    return (
        f"{len(report.rows)} steps; arena {report.arena_bytes:,} bytes"
        f"{f' ({regions})' if regions else ''}, lower bound "
        f"{report.lower_bound:,} (ratio {report.ratio:.3f}, {report.method}{advice}); "
        f"weights {report.weight_bytes:,} bytes"
        + (f"; state {report.state_bytes:,} bytes" if report.state_bytes else "")
    )
