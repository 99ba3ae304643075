"""Helpers in the assembly of the Arm DSP extension that widen what a tile of positions reads.

They are written out for small windows: 4 instructions for 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helper_text import AssemblyText, assembly_text

_FRAME = Frame(4, 10)
_SINGLES = ("r7", "r8", "r9", "r10")
"""Registers of bytes that end rows."""


def _joined(singles: Sequence[str], offset: int) -> list[str]:
    """Up to four bytes as two words."""
    found: list[str] = []
    for word, pair in (("r5", singles[::2]), ("r6", singles[1::2])):
        match pair:
            case [low, high]:
                found.append(f"pkhbt {word}, {low}, {high}, lsl #16")
            case [low]:
                found.append(f"uxth {word}, {low}")
            case _:
                found.append(f"movs {word}, #0")
    return [*found, f"strd r5, r6, [r0, #{offset}]"]


def _position(place: int, positions: int, rows: int, fours: int, rest: int) -> list[str]:
    """What one position reads."""
    found: list[str] = []
    singles: list[str] = []
    four = rows * fours

    def offset(at: int) -> int:
        return 8 * (positions * at + place)

    for row in range(rows):
        found.append("add r12, r12, r2" if row else "mov r12, r1")
        for at in range(fours):
            found += [f"ldr r4, [r12, #{4 * at}]", "sxtb16 r5, r4", "sxtb16 r6, r4, ror #8"]
            found.append(f"strd r5, r6, [r0, #{offset(fours * row + at)}]")
        for at in range(rest):
            register = _SINGLES[len(singles)]
            found.append(f"ldrsb {register}, [r12, #{4 * fours + at}]")
            singles.append(register)
            if len(singles) == len(_SINGLES):
                found += _joined(singles, offset(four))
                four += 1
                singles = []
    return [*found, *(_joined(singles, offset(four)) if singles else ())]


def patch_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``patch_2_3_2_1``), if there is one.

    Numbers are positions, rows, fours of bytes of a row, and bytes behind these.
    """
    family, *sizes = name.rsplit("_", 4)
    if family != "patch" or not all(map(str.isdigit, sizes)) or len(sizes) < 4:
        return None
    positions, rows, fours, rest = map(int, sizes)
    found: list[str] = []
    for place in range(positions):
        found += ["add r1, r3"] * (place > 0)
        found += _position(place, positions, rows, fours, rest)
    return assembly_text(
        "bytes", "patch", _FRAME, name=name, positions=positions, rows=rows, steps=assembly(found)
    )
