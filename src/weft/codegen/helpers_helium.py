"""Helpers in the assembly of Helium (MVE, the vector extension of Cortex-M55) for bytes."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.helium_sums import ENDS, Sums, Window, moved
from weft.codegen.helper_text import helper_text

_WORD, _OFFSET = 4, 4096
_PLAIN = frozenset({"mve_copy", "mve_fill"})


def _quoted(lines: Sequence[str]) -> str:
    return "".join(f'"{each}\\n\\t"\n' for each in lines)


def helium_helper(name: str) -> str | None:
    """The helper of this name (a family and the sizes of a member), if there is one."""
    if name in _PLAIN:
        return helper_text("helium", name, name=name)
    family, _, rest = name[4:].partition("_")
    family, sizes = name[:4] + family, rest.split("_")
    if family == "mve_patch":
        return _patch(name, *map(int, sizes))
    end = ENDS.get(family)
    if end is None or not all(map(str.isdigit, sizes)):
        return None
    constants = ", ".join(
        f"const {type} *{letter} __attribute__((unused))"
        for letter, type in zip("abc", _operands(family), strict=False)
    )
    lines = Sums(Window(*map(int, sizes)), family).lines()
    return helper_text(
        "helium",
        "sums",
        name=name,
        doc=end.doc,
        type=end.type,
        constants=constants,
        lines=_quoted(lines),
    )


def _patch(name: str, step: int, rows: int, row: int, run: int) -> str | None:
    """Copies runs of up to 16 bytes."""
    found: list[str] = []
    for number in range(rows):
        if run == _WORD and row * rows < _OFFSET:
            found += [f"ldr r4, [r3, #{row * number}]", f"str r4, [r0], #{_WORD}"]
        else:
            found += ["vpstt", "vldrbt.8 q0, [r3]", f"vstrbt.8 q0, [r0], #{run}"]
            found += moved("r3", row) if number + 1 < rows else []
    found += moved("r1", step)
    return helper_text("helium", "mve_patch", name=name, run=run, rows=_quoted(found))


def _operands(family: str) -> tuple[str, ...]:
    zero = ("int32_t",) if family == "mve_f32" else ()
    return ENDS[family].operands + zero
