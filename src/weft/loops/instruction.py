"""Instructions: one TOML file each in ``instructions/``, whose meaning is written as loops.

The meaning is what everything else is made of: the interpreter and the verifier run it on the
windows that a statement names, and generated C holds it for compilers and machines without
the instruction.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import (
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Leaf,
    Load,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import (
    blocks,
    map_stmts,
    names_in,
    rename_buffers,
    substitute_stmts,
    with_blocks,
)
from weft.loops.text import parse
from weft.loops.walk import map_expr
from weft.records import dataclass

_ROWS = files("weft.loops").joinpath("instructions")


@dataclass(frozen=True, slots=True)
class Instruction:
    """A row.

    Attributes:
        meaning: a kernel whose parameters are the operands.  The first is the destination;
            strides are those that an operand needs, packed where none are given.
        needs: the feature of a target that has it.
        cycles: from one issue to the next; a family may give a product of sizes.
        when: the C preprocessor's condition for ``c``.
        c: the body of a C function on pointers to the operands, named as in the meaning.
        doc: one sentence.
        header: that ``c`` includes.
        sizes: of a family's member, in the order in which its name has them.
        in_place: whether the destination may be another operand, element by element.
        nearest: whether it rounds to nearest, ties to even, as definitions do.
        asks: a C expression that tells, where it runs, whether the machine lets it use ``c``.
    """

    meaning: Kernel
    needs: str
    cycles: float
    when: str
    c: str
    doc: str
    header: str = ""
    sizes: tuple[int, ...] = ()
    in_place: bool = False
    nearest: bool = True
    asks: str = ""

    @property
    def name(self) -> str:
        """As statements name it."""
        return self.meaning.name


def _renamed(stmts: Sequence[Stmt], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Other names for loops and locals."""

    def visit(stmt: Stmt) -> Stmt:
        inner = with_blocks(stmt, [tuple(map(visit, block)) for block in blocks(stmt)])
        return replace(inner, var=names[inner.var]) if isinstance(inner, For) else inner

    values = {old: Var(new) for old, new in names.items()}
    return rename_buffers(substitute_stmts(tuple(map(visit, stmts)), values), names)


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    """The files by name, families among them."""
    return {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(_ROWS.iterdir(), key=lambda each: each.name)
    }


@cache
def instructions() -> Mapping[str, Instruction]:
    """Every row by name, but for families."""
    found: dict[str, Instruction] = {}
    for name, row in _rows().items():
        if "sizes" in row:
            continue
        rest = {key: value for key, value in row.items() if key != "meaning"}
        made = Instruction(parse(row["meaning"]), **rest)
        if name != made.name:
            raise InternalError(f"{name}.toml holds the instruction {made.name}")
        found[name] = made
    return found


def families() -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """What families need of a target, and the names of their sizes, by family."""
    return {
        name: (row["needs"], tuple(row["sizes"])) for name, row in _rows().items() if "sizes" in row
    }


def member(family: str, *sizes: int) -> str:
    """The name of a family's instruction of these sizes."""
    return "_".join([family, *map(str, sizes)])


def instruction(name: str) -> Instruction:
    """The row of a name."""
    found = instructions().get(name) or _member(name)
    if found is None:
        raise InternalError(f"there is no instruction {name}")
    return found


def is_instruction(name: str) -> bool:
    """Whether a row has this name."""
    return name in instructions() or _member(name) is not None


@cache
def _member(name: str) -> Instruction | None:
    for family, row in _rows().items():
        parts = name.removeprefix(f"{family}_").split("_")
        fits = len(parts) == len(row.get("sizes", ())) and all(map(str.isdigit, parts))
        if "sizes" not in row or not fits:
            continue
        return _filled(name, row, dict(zip(row["sizes"], map(int, parts), strict=True)))
    return None


def _filled(name: str, row: Mapping[str, Any], sizes: Mapping[str, int]) -> Instruction:
    """A family's member, its sizes filled in."""

    def value(found: re.Match[str]) -> str:
        return str(int(found[1] or 1) * sizes[found[2]])

    texts = {key: re.sub(r"\$(\d*)([a-z])", value, row[key]) for key in ("meaning", "c")}
    rest = {key: text for key, text in row.items() if key not in ("meaning", "c", "sizes")}
    if isinstance(row["cycles"], str):
        factors = re.sub(r"\$(\d*)([a-z])", value, row["cycles"]).split("*")
        rest["cycles"] = prod(map(float, factors))
    meaning = replace(parse(texts["meaning"]), name=name)
    return Instruction(meaning, c=texts["c"], **rest, sizes=tuple(sizes.values()))


def expanded(stmt: Leaf) -> tuple[Stmt, ...]:
    """What a statement means, in loops, stores and locals; of a hint, nothing."""
    if isinstance(stmt, Prefetch):
        return ()
    meaning = instruction(stmt.name).meaning
    if len(stmt.operands) != len(meaning.params):
        raise InternalError(f"{stmt.name} has {len(meaning.params)} operands")
    own = names_in(meaning.body) - {each.name for each in meaning.params}
    windows = {
        param.name: (window, len(window.index) - len(param.shape))
        for param, window in zip(meaning.params, stmt.operands, strict=True)
    }
    # Loops and locals of the row get the instruction's name: a kernel has no such names.
    apart = {name: f"{stmt.name}_{name}" for name in own}
    body = _renamed(meaning.body, apart)

    def at(name: str, index: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...]]:
        if name not in windows:
            return name, index
        window, fixed = windows[name]
        last = zip(window.index[fixed:], index, strict=True)
        return window.buffer, (
            *window.index[:fixed],
            *(Binary("add", base, part) for base, part in last),
        )

    def load(node: Expr) -> Expr:
        return Load(*at(node.buffer, node.index), node.dtype) if isinstance(node, Load) else node

    def place(each: Stmt) -> Stmt:
        if isinstance(each, Store):
            return Store(*at(each.buffer, each.index), each.value)
        if isinstance(each, Prefetch):
            return Prefetch(*at(each.buffer, each.index))
        return with_blocks(each, [tuple(map(place, block)) for block in blocks(each)])

    return tuple(map(place, map_stmts(body, lambda expr: map_expr(expr, load))))


def plain(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements without hints and instructions."""
    found: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Leaf):
            found += expanded(stmt)
        else:
            found.append(with_blocks(stmt, [plain(block) for block in blocks(stmt)]))
    return tuple(found)


def weaves(row: Instruction, shape: tuple[int, ...], dtype: DType) -> bool:
    """Whether an instruction lays rows out in turn: ``out[n, k]`` is what row ``k`` has at ``n``.

    Args:
        row: the instruction.
        shape: of what it makes: lanes, and rows.
        dtype: of all its operands.
    """
    out, *rows = row.meaning.params
    if {each.dtype for each in row.meaning.params} != {dtype} or out.shape != shape:
        return False
    if [each.shape for each in rows] != [shape[:1]] * shape[-1]:
        return False
    match row.meaning.body:
        case (For(lane, body=stores),):
            wanted = [
                Store(
                    out.name, (Var(lane), Const(k, DType.I64)), Load(each.name, (Var(lane),), dtype)
                )
                for k, each in enumerate(rows)
            ]
            return list(stores) == wanted
        case _:
            return False


def misfit(stmt: Instruct, buffers: Mapping[str, Buffer]) -> str:
    """Why windows are not what the instruction takes; empty where they are."""
    meaning = instruction(stmt.name).meaning
    if len(stmt.operands) != len(meaning.params):
        return f"{stmt.name} has {len(meaning.params)} operands, {len(stmt.operands)} are given"
    for param, window in zip(meaning.params, stmt.operands, strict=True):
        buffer, rank = buffers[window.buffer], len(param.shape)
        what = f"operand {param.name} of {stmt.name}"
        if buffer.dtype is not param.dtype:
            return f"{what} is {param.dtype.value}, {buffer.name} is {buffer.dtype.value}"
        if len(buffer.shape) < rank or buffer.steps[len(buffer.shape) - rank :] != param.steps:
            return f"{what} has strides {list(param.steps)}, {buffer.name} {list(buffer.steps)}"
    return ""
