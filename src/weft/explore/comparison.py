"""Variants of a network side by side: what is known of each, and how they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import inf
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from weft.errors import UserError
from weft.explore.plot import Point, scatter
from weft.ir.diff import GraphDiff
from weft.records import dataclass
from weft.runtime.timing import Timing, microseconds
from weft.screen import Screen, Shown, several

Cost: TypeAlias = Literal["latency", "macs", "parameters", "peak", "arena", "flash"]
COSTS: tuple[str, ...] = get_args(Cost)


@dataclass(frozen=True, slots=True)
class Changes:
    """How a graph differs from the first one.

    Attributes:
        added: nodes that only this one has; removed: that only the first has.
        changed: nodes of both that differ in op, connections, types or attributes.
        interface: lines about inputs and outputs that differ.
        constants: how many constants differ, or only one of the two has.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    interface: tuple[str, ...] = ()
    constants: int = 0

    def __str__(self) -> str:
        counts = (
            (self.added, "node added", "nodes added"),
            (self.removed, "removed", "removed"),
            (self.changed, "changed", "changed"),
            (self.constants, "constant differs", "constants differ"),
        )
        parts = [f"{count} {one if count == 1 else more}" for count, one, more in counts if count]
        if self.interface:
            parts.append("other inputs or outputs")
        return ", ".join(parts) or "the same graph"


def changes_of(found: GraphDiff) -> Changes:
    """The summary of a structural difference."""
    constants = {
        line[2:].rsplit(": ", 1)[0] for line in found.interface if line[2:].startswith("const ")
    }
    interface = tuple(line for line in found.interface if not line[2:].startswith("const "))
    return Changes(
        len(found.added), len(found.removed), len(found.changed), interface, len(constants)
    )


@dataclass(frozen=True, slots=True)
class Quality:
    """How good the outputs are.

    Attributes:
        samples: how many inputs there were.
        correct: for how many of them the greatest output was the label; nothing without labels.
        largest: largest absolute difference to the first variant's outputs.
        relative: the same over the range of those.
    """

    samples: int
    correct: int | None
    largest: float
    relative: float

    @property
    def accuracy(self) -> float | None:
        """The share of samples that were right, from 0 to 1."""
        return None if self.correct is None else self.correct / self.samples

    def record(self) -> dict[str, float | None]:
        """Plain data, for JSON, which has no infinity: nothing where outputs do not compare."""
        found = {**asdict(self), "accuracy": self.accuracy}
        return {name: None if value == inf else value for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Variant:
    """What is known of one network.

    Attributes:
        name: what it is called here.
        nodes: of the graph as it was given; ops: how many of each op.
        macs: multiply-accumulates; operations: everything else that is done with elements.
        parameters: elements of constants.
        peak: most bytes of activations that must exist at once, layer by layer.
        arena: bytes of memory that the plan needs for them; flash: bytes of weights that it
            reads, as they are packed.
        changes: how the graph differs from the first one.
        timing: of one run on this machine, called from C, if it was measured.
        quality: of the outputs, if it ran.
    """

    name: str
    nodes: int
    ops: Mapping[str, int]
    macs: int
    operations: int
    parameters: int
    peak: int
    arena: int
    flash: int
    changes: Changes
    timing: Timing | None = None
    quality: Quality | None = None

    def cost(self, what: str) -> float | None:
        """A figure of which less is better, by name."""
        if what == "latency":
            return self.timing.median if self.timing else None
        return float(getattr(self, what))

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        found = {
            name: getattr(self, name)
            for name in "name nodes macs operations parameters peak arena flash".split()
        }
        quality = self.quality
        return {
            **found,
            "ops": dict(self.ops),
            "changes": asdict(self.changes),
            "timing": asdict(self.timing) if self.timing else None,
            "quality": quality.record() if quality else None,
        }


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table."""

    heading: str
    cell: Callable[[Variant], str]


def _count(name: str) -> Callable[[Variant], str]:
    return lambda variant: f"{getattr(variant, name):,}"


_COLUMNS = tuple(
    _Column(heading, _count(name))
    for heading, name in (
        ("nodes", "nodes"),
        ("MACs", "macs"),
        ("parameters", "parameters"),
        ("peak", "peak"),
        ("arena", "arena"),
        ("flash", "flash"),
    )
)
_LATENCY = _Column(
    "latency µs", lambda each: microseconds(each.timing.median) if each.timing else ""
)
_DIFFERENCE = _Column(
    "difference", lambda each: f"{each.quality.relative:.2g}" if each.quality else ""
)


def _accuracy(variant: Variant) -> str:
    accuracy = variant.quality.accuracy if variant.quality else None
    return "" if accuracy is None else f"{accuracy:.2%}"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown):
    """Variants side by side, the first being the one that others are compared with.

    Attributes:
        target: the machine that arena and flash are of.
        variants: in the order in which they were given.
    """

    target: str
    variants: tuple[Variant, ...]

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = f"Comparison of {several(len(self.variants), 'network')} for {self.target}"
        headings = self.headings()
        return Screen(title, (), headings, list(self.rows()), range(1, len(headings)))

    def headings(self) -> tuple[str, ...]:
        """Of the table's columns."""
        return ("", *(column.heading for column in self._columns()))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Of the table, one for each variant; bytes where no unit is said."""
        for each in self.variants:
            yield (each.name, *(column.cell(each) for column in self._columns()))

    def _columns(self) -> tuple[_Column, ...]:
        found = list(_COLUMNS)
        if any(each.timing for each in self.variants):
            found.append(_LATENCY)
        if any(each.quality for each in self.variants):
            found.append(_DIFFERENCE)
        if self.has_accuracy:
            found.append(_Column("accuracy", _accuracy))
        return tuple(found)

    @property
    def has_accuracy(self) -> bool:
        """Whether there were labels."""
        return any(each.quality and each.quality.correct is not None for each in self.variants)

    def topology(self) -> Iterator[tuple[str, ...]]:
        """How many nodes of each op every variant has, the most frequent first."""
        ops: dict[str, int] = {}
        for variant in self.variants:
            for op, count in variant.ops.items():
                ops[op] = max(ops.get(op, 0), count)
        for op in sorted(ops, key=lambda op: (-ops[op], op)):
            yield (op, *(str(variant.ops.get(op, "")) for variant in self.variants))

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {"target": self.target, "variants": [each.record() for each in self.variants]}

    def plot(self, cost: Cost | None = None) -> str:
        """Accuracy against cost as SVG, the variants that no other beats joined by a line.

        Without labels, the difference to the first variant takes the place of accuracy.

        Args:
            cost: ``latency``, ``macs``, ``parameters``, ``peak``, ``arena`` or ``flash``; by
                default latency, or multiply-accumulates where nothing was measured.
        """
        if cost is not None and cost not in COSTS:
            raise UserError(f"cost is one of {', '.join(COSTS)}", got=str(cost))
        chosen = cost or ("latency" if all(each.timing for each in self.variants) else "macs")
        points: list[Point] = []
        for each in self.variants:
            x, y = each.cost(chosen), self._height(each)
            if x is None or y is None:
                raise UserError(
                    "a plot needs the cost and the quality of the networks",
                    got=f"no {'latency' if x is None else 'outputs'} of {each.name}",
                    fix="Run the networks",
                )
            if y == inf:
                raise UserError(
                    "a plot needs labels, or outputs of one shape", got=f"others of {each.name}"
                )
            measured = each.timing if chosen == "latency" else None
            low, high = (measured.least, measured.most) if measured else (None, None)
            points.append(Point(each.name, x, y, low, high))
        best = "accuracy" if self.has_accuracy else "relative difference to the first"
        return scatter(
            f"{best} against {chosen}", _AXES[chosen], best, points, rising=self.has_accuracy
        )

    def _height(self, variant: Variant) -> float | None:
        if variant.quality is None:
            return None
        return variant.quality.accuracy if self.has_accuracy else variant.quality.relative


_AXES: Mapping[str, str] = MappingProxyType(
    {
        "latency": "microseconds for one run, called from C",
        "macs": "multiply-accumulates",
        "parameters": "parameters",
        "peak": "bytes of activations at the peak",
        "arena": "bytes of arena",
        "flash": "bytes of weights",
    }
)


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Names that tell apart, by numbers where need be."""
    found: list[str] = []
    for name in names:
        count, made = 1, name
        while made in found:
            count += 1
            made = f"{name} ({count})"
        found.append(made)
    return tuple(found)
