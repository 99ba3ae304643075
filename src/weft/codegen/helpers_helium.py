"""Helpers in the assembly of Helium (MVE, the vector extension of Cortex-M55) for bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helium_depth import DEPTH_FRAME, DOCS, Depth, Planes, planes_words
from weft.codegen.helium_pool import POOLS
from weft.codegen.helium_sums import CHUNK, ENDS, FRAME, Sums, Window, moved
from weft.codegen.helper_text import AssemblyText, assembly_text

Sizes: TypeAlias = tuple[int, ...]
_WORD, _OFFSET = 4, 4096
_LINK = Frame(3, 3)
_FRAMES = {
    **dict.fromkeys(ENDS, FRAME),
    **dict.fromkeys(DOCS, DEPTH_FRAME),
    **dict.fromkeys(POOLS, Frame(4, 6)),
    "mve_copy": _LINK,
    "mve_fill": _LINK,
    "mve_patch": Frame(4, 4),
    "mve_planes": Frame(4, 8),
    "mve_add": Frame(4, 8),
    "mve_add_f32": Frame(4, 8, doubles=4),
    "mve_lookup": Frame(8, 8),
}


def helium_helper(name: str) -> AssemblyText | None:
    """The helper of this name (a family and the sizes of a member), if there is one."""
    if name in ("mve_copy", "mve_fill"):
        return assembly_text("helium", name, _FRAMES[name], name=name)
    parts = name.split("_")
    words = [part for part in parts if not part.isdigit()]
    sizes = tuple(map(int, parts[len(words) :])) if parts[: len(words)] == words else ()
    make = _FAMILIES.get("_".join(words))
    return make("_".join(words), name, sizes) if make and sizes else None


def _sums(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    end = ENDS[family]
    return assembly_text(
        "helium",
        "sums",
        _FRAMES[family],
        name=name,
        doc=end.doc,
        type=end.type,
        constants=_parameters(end.operands),
        lines=assembly(Sums(Window(*sizes), family).lines()),
    )


def _depth(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    made = Depth(Planes(*sizes), family)
    operands = ("int32_t",) if family == "mve_depth_i32" else ("int32_t", "float", "int32_t")
    return assembly_text(
        "helium",
        "mve_depth",
        _FRAMES[family],
        name=name,
        doc=DOCS[family],
        constants=_parameters(operands),
        lines=assembly(made.lines()),
        data=assembly(made.data()),
    )


def _planes(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    words = planes_words(*sizes)
    texts = {key: word if isinstance(word, int) else assembly(word) for key, word in words.items()}
    return assembly_text("helium", family, _FRAMES[family], name=name, **texts)


def _patch(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    """Copies runs of up to 16 bytes."""
    step, rows, row, run = sizes
    found: list[str] = []
    for number in range(rows):
        if run == _WORD and row * rows < _OFFSET:
            found += [f"ldr r4, [r3, #{row * number}]", f"str r4, [r0], #{_WORD}"]
        else:
            found += ["vpstt", "vldrbt.8 q0, [r3]", f"vstrbt.8 q0, [r0], #{run}"]
            found += moved("r3", row) if number + 1 < rows else []
    found += moved("r1", step)
    return assembly_text(
        "helium", family, _FRAMES[family], name=name, run=run, rows=assembly(found)
    )


def _add(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    count, out, first, second, *below = sizes
    lower = ["vshr.s32 q0, q2, #31", "vadd.i32 q2, q2, q0"] if any(below) else []
    begin, following = _positions(count, _WORD, {"r0": out, "r1": first, "r2": second})
    words = {"count": begin, "below": lower, "next": following}
    return assembly_text("helium", family, _FRAMES[family], name=name, **_texts(words))


def _lookup(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    count, out, x = sizes
    begin, following = _positions(count, CHUNK, {"r0": out, "r1": x})
    return assembly_text(
        "helium", family, _FRAMES[family], name=name, **_texts({"count": begin, "next": following})
    )


def _positions(
    count: int, lanes: int, steps: Mapping[str, int]
) -> tuple[Sequence[str], Sequence[str]]:
    """How many bytes loops take of the positions counted in r8, and what follows one."""
    if set(steps.values()) == {count}:
        # Positions lie side by side: all are one.
        return [f"movw r12, #{count}", "mul r12, r12, r8", "movs r8, #1"], []
    done = -(-count // lanes) * lanes
    lines = [line for each, step in steps.items() for line in moved(each, step - done)]
    return [f"movw r12, #{count}"], lines


def _texts(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {key: assembly(lines) for key, lines in words.items()}


def _pool(family: str, name: str, sizes: Sizes) -> AssemblyText | None:
    rows, columns, row, column = sizes
    pool = POOLS[family]
    texts = {key: assembly(each) for key, each in pool.lines(rows, columns, row, column).items()}
    words = pool.words(rows, columns, row, column)
    return assembly_text("helium", "mve_pool", _FRAMES[family], name=name, **words, **texts)


def _parameters(types: Sequence[str]) -> str:
    letters = ("a", "b", "c")
    return ", ".join(
        f"const {type} *{letter} __attribute__((unused))"
        for letter, type in zip(letters, types, strict=False)
    )


_FAMILIES: Mapping[str, Callable[[str, str, Sizes], AssemblyText | None]] = {
    **dict.fromkeys(ENDS, _sums),
    **dict.fromkeys(DOCS, _depth),
    "mve_planes": _planes,
    "mve_patch": _patch,
    "mve_add": _add,
    "mve_add_f32": _add,
    "mve_lookup": _lookup,
    **dict.fromkeys(POOLS, _pool),
}
