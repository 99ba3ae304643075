"""What there is to draw of a plan: a box for each kernel, its alternatives, and its loops.

The loops stand under the kernel as they are nested, coloured by how they run; the alternatives
stand between with their estimated cycles, the one of the plan first.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, TypeAlias, get_args

from weft.ir.short_names import names_of
from weft.loops.nodes import For, If, Local, Stmt
from weft.loops.text import show_expr, show_stmts
from weft.pictures.canvas import cut
from weft.pictures.families import INPUT, OUTPUT, kind_of
from weft.pictures.scene import MOST_LETTERS, Box, BoxRow, Facts, Scene, joined, port_box
from weft.plan.choice import Answer, Offered
from weft.plan.plan import Plan, PlannedStep, written
from weft.plan.text import StepText
from weft.screen import elided

PlanLevel: TypeAlias = Literal["groups", "loops"]
PLAN_LEVELS: tuple[str, ...] = get_args(PlanLevel)

_MOST_ALTERNATIVES = 6
_MOST_ROWS = 60
_MOST_ROW_LETTERS = 64
_NUMBERS = re.compile(r"\d+")


def planned_scene(plan: Plan, level: PlanLevel) -> Scene:
    """The boxes and wires of a plan.

    Args:
        plan: of a network.
        level: ``groups`` for kernels with their alternatives, ``loops`` for their loops too.
    """
    graph, texts = plan.graph, written(plan).body.steps
    names = {**{value: value for value in plan.types}, **names_of(graph)}
    steps = [
        _box(plan, step, text, names, level == "loops")
        for step, text in zip(plan.steps, texts, strict=True)
    ]
    boxes = [
        *(port_box(value, INPUT, plan.types, names) for value in graph.inputs),
        *steps,
        *(port_box(value, OUTPUT, plan.types, names) for value in graph.outputs),
    ]
    made = dict.fromkeys([*graph.inputs, *(value for step in plan.steps for value in step.writes)])
    reads = [[m for value in step.reads for m in _made(plan, value, made)] for step in plan.steps]
    ends = {value: _made(plan, value, made) for value in graph.outputs}
    values, wires = joined(graph, reads, [step.writes for step in plan.steps], ends)
    cycles = {box.name: _chosen_cycles(text) for box, text in zip(steps, texts, strict=True)}
    figures = {"estimated cycles": cycles} if any(cycles.values()) else {}
    return Scene(graph, tuple(boxes), values, wires, plan.types, names, figures)


def _made(plan: Plan, value: str, made: Container[str]) -> list[str]:
    """What is made of a value: itself, or those that lie in the memory that it is a view of."""
    if value in made or value not in plan.views:
        return [value]
    root = plan.views[value].root
    if root in made:
        return [root]
    within = (each for step in plan.steps for each in step.writes)
    return [each for each in within if plan.views[each].root == root]


# --- boxes ----------------------------------------------------------------------------------


def _box(
    plan: Plan, step: PlannedStep, text: StepText, names: Mapping[str, str], loops: bool
) -> Box:
    offered = [each for answer in text.answers for each in answer.alternatives]
    why = f", {text.reason.value}" if text.reason else ""
    lines = [
        elided(names[text.writes[0]], MOST_LETTERS),
        cut(f"{text.kernel}{why}", MOST_LETTERS),
    ]
    rows = [*_alternatives(offered)]
    if loops:
        rows += _loops(step)
    return Box(
        text.writes[0],
        kind_of(step.nodes[0], plan.types),
        cut(" + ".join(text.ops), MOST_LETTERS),
        tuple(lines),
        rows=tuple(rows),
        facts=Facts(
            tuple(_record(text)),
            text.reads,
            text.writes,
            tuple(node.name for node in step.nodes),
            "; ".join(f"{node.op} {node.name}" for node in step.nodes),
        ),
    )


def _chosen_cycles(text: StepText) -> float:
    """Estimated for the kernel of a step, or those of its stages; 0 where nobody knows."""
    if text.stages:
        return sum(map(_chosen_cycles, text.stages))
    offered = [each for answer in text.answers for each in answer.alternatives]
    return next((each.cycles or 0.0 for each in offered if each.chosen), 0.0)


def _cost(offered: Offered) -> str:
    if offered.micros is not None:
        return f"{offered.micros:,.1f} µs measured"
    return f"{offered.cycles:,.0f} cycles" if offered.cycles is not None else "no estimate"


def _alternatives(offered: Sequence[Offered]) -> Iterator[BoxRow]:
    """Those that apply: the chosen one, then the others by cost."""
    applying = [each for each in offered if each.applies or each.chosen]
    applying.sort(key=lambda each: (not each.chosen, each.cycles is None, each.cycles or 0.0))
    if len(applying) < 2:
        return
    for each in applying[:_MOST_ALTERNATIVES]:
        said = f"{each.name}: {_cost(each)}"
        yield BoxRow(f"{said}, chosen", 0, "chosen") if each.chosen else BoxRow(said, 0)
    rest = len(applying) - _MOST_ALTERNATIVES
    if rest > 0:
        yield BoxRow(f"and {rest} more", 0)


def _record(text: StepText) -> Iterator[tuple[str, str]]:
    """What the page tells of a step."""
    yield "kernel", text.kernel
    if text.reason:
        yield "chosen because", text.reason.value
    if text.in_place:
        yield "in place of", text.in_place
    if text.scratch:
        yield "scratch", f"{text.scratch:,} bytes"
    for encoding in text.encodings:
        yield "weights", str(encoding)
    for answer in text.answers:
        yield from _answer(answer)
    for number, stage in enumerate(text.stages, 1):
        yield f"stage {number}", f"{' + '.join(stage.ops)} by {stage.kernel}"


def _answer(answer: Answer) -> Iterator[tuple[str, str]]:
    if answer.refusal:
        yield f"not {answer.generator}", answer.refusal
    for each in answer.alternatives:
        if each.applies:
            yield each.name, _cost(each) + (", the plan's" if each.chosen else "")


# --- loops ----------------------------------------------------------------------------------


def _loops(step: PlannedStep) -> list[BoxRow]:
    if step.implementation is None:
        return []
    if step.implementation.outside is not None:
        return [BoxRow("a call of a library's function", 0)]
    rows = list(_block(step.implementation.kernel.body, 0))
    if len(rows) <= _MOST_ROWS:
        return rows
    kept = [_within(row, place) for place, row in enumerate(rows[:_MOST_ROWS])]
    return [
        *kept,
        BoxRow(f"and {len(rows) - _MOST_ROWS} more lines", 0),
    ]


def _within(row: BoxRow, place: int) -> BoxRow:
    """A row that covers no row which is not drawn."""
    return BoxRow(row.text, row.depth, row.role, min(row.span, _MOST_ROWS - place))


def _block(stmts: Sequence[Stmt], depth: int) -> Iterator[BoxRow]:
    """Statements; of those in a row that differ in numbers only, the first one."""
    for _, alike in groupby(stmts, _form):
        first, *others = alike
        yield from _rows(first, depth)
        if others:
            yield BoxRow(f"and {len(others)} more like this", depth)


def _form(stmt: Stmt) -> str:
    """The text of a statement without the numbers in it."""
    return _NUMBERS.sub("", show_stmts((stmt,)))


def _locals(stmt: Local, depth: int) -> Iterator[BoxRow]:
    """Local buffers that are declared one within the other, those of one shape together."""
    found: dict[str, list[str]] = {}
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(body[0], Local):
        buffer, body = body[0].buffer, body[0].body
        shape = " x ".join(map(str, buffer.shape)) or "1"
        found.setdefault(f"{shape} {buffer.dtype.value}", []).append(buffer.name)
    for kind, names in found.items():
        shown = ", ".join(names[:3]) + (f" ... {names[-1]}" if len(names) > 3 else "")
        yield BoxRow(_cut(f"local {shown}: {kind}", depth), depth)
    yield from _block(body, depth)


def _rows(stmt: Stmt, depth: int) -> Iterator[BoxRow]:
    """A statement: what encloses others covers their rows."""
    match stmt:
        case For():
            inside = list(_block(stmt.body, depth + 1))
            start, stop = show_expr(stmt.start), show_expr(stmt.stop)
            head = f"for {stmt.var} in {start}..{stop} {stmt.kind.value}"
            yield BoxRow(_cut(head, depth), depth, stmt.kind.value, 1 + len(inside))
            yield from inside
        case Local():
            yield from _locals(stmt, depth)
        case If():
            inside = list(_block(stmt.then, depth + 1))
            if stmt.otherwise:
                inside += [BoxRow("else", depth), *_block(stmt.otherwise, depth + 1)]
            yield BoxRow(
                _cut(f"if {show_expr(stmt.condition)}", depth), depth, "guard", 1 + len(inside)
            )
            yield from inside
        case _:
            yield BoxRow(_cut(show_stmts((stmt,)).strip().splitlines()[0], depth), depth)


def _cut(text: str, depth: int) -> str:
    return cut(text, _MOST_ROW_LETTERS - 2 * depth)
