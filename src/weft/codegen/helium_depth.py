"""Depthwise convolutions of planes of bytes in the assembly of Helium.

A gather loads a window of 4x4 bytes; a product with weights at the right places, zeros around
them, makes each of the four outputs that lie in it::

    steps of 1: 1 gather, 4 products     other steps: 4 gathers, 4 products
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.assembly import Frame
from weft.codegen.helium_sums import moved
from weft.records import dataclass

_SUMS = ("r0", "r2", "r4", "r6")
DEPTH_FRAME = Frame(3, 11, doubles=8, room=24)
_OUT, _PLANE, _WEIGHTS, _FIRST, _SECOND, _ARGUMENTS = 0, 4, 8, 12, 16, DEPTH_FRAME.bytes
_SIDE = 4
DOCS = {
    "mve_depth_i32": "Sums of windows of planes, requantized in integers.",
    "mve_depth_f32": "Sums of windows of planes, requantized in floats.",
}


@dataclass(frozen=True, slots=True)
class Planes:
    """What a member of a family is made for.

    Attributes:
        rows, columns: of outputs; row, column: bytes from one to the next.
        height, width: of a plane.
        down, across: places of a window.
        row_step, column_step: places from one window to the next.
        below: whether sums below zero take one less before they are shifted.
    """

    rows: int
    columns: int
    row: int
    column: int
    height: int
    width: int
    down: int
    across: int
    row_step: int
    column_step: int
    below: int = 0

    @property
    def shared(self) -> bool:
        """Whether one window holds those of four outputs."""
        return self.row_step == self.column_step == 1

    def offsets(self) -> list[list[int]]:
        """Of the bytes of the windows of four outputs, or of the one that they share."""
        more = int(self.shared)
        last = self.down + more - 1, self.across + more - 1
        steps = [(0, 0)] if self.shared else [(y, x) for y in range(2) for x in range(2)]
        return [
            [
                (self.row_step * y + min(i, last[0])) * self.width
                + self.column_step * x
                + min(j, last[1])
                for i in range(_SIDE)
                for j in range(_SIDE)
            ]
            for y, x in steps
        ]


class Depth:
    """The instructions of a helper and the data behind them."""

    def __init__(self, planes: Planes, family: str) -> None:
        self.planes, self.scaled = planes, family == "mve_depth_f32"

    def data(self) -> list[str]:
        """Offsets of outputs, then those of windows."""
        planes = self.planes
        outs = (0, planes.column, planes.row, planes.row + planes.column)
        lines = [f".word {', '.join(map(str, outs))}"]
        return ["9:", *lines, *(f".byte {', '.join(map(str, each))}" for each in planes.offsets())]

    def lines(self) -> list[str]:
        """All but those of its frame."""
        planes = self.planes
        found = [f"strd r0, r1, [sp, #{_OUT}]", f"strd r2, r3, [sp, #{_WEIGHTS}]"]
        channels = _ARGUMENTS
        if self.scaled:
            found += [f"ldrd r0, r1, [sp, #{_ARGUMENTS}]", f"str r0, [sp, #{_SECOND}]"]
            found.append("ldr r9, [r1]")
            channels += 8
        found += ["adr r0, 9f", "vldrw.32 q3, [r0], #16"]
        found += [f"vldrb.8 {each}, [r0], #16" for each in self.windows]
        found += [
            "2:",
            *self.channel(),
            f"movw r8, #{planes.rows // 2}",
            "3:",
            "mov r1, r12",
            "mov r3, r10",
            f"movw lr, #{planes.columns // 2}",
            "4:",
            *self.tile(),
            *moved("r1", 2 * planes.column_step),
            *moved("r3", 2 * planes.column),
            "le lr, 4b",
        ]
        if planes.columns % 2:
            found += [*moved("r1", -planes.column_step), *moved("r3", -planes.column), *self.tile()]
        found += moved("r12", 2 * planes.row_step * planes.width)
        found += [*moved("r10", 2 * planes.row), "subs r8, #1", "bgt 3b"]
        if planes.rows % 2:
            found += ["bmi 5f", *moved("r12", -planes.row_step * planes.width)]
            found += [*moved("r10", -planes.row), "b 3b", "5:"]
        found += [f"ldrd r0, r2, [sp, #{_OUT}]", "add r0, r0, #1"]
        found += [*moved("r2", planes.height * planes.width), f"strd r0, r2, [sp, #{_OUT}]"]
        found += [f"ldr r0, [sp, #{channels}]", "subs r0, #1", f"str r0, [sp, #{channels}]"]
        return [*found, "bne 2b"]

    @property
    def windows(self) -> tuple[str, ...]:
        """The vectors of offsets."""
        return ("q2",) if self.planes.shared else ("q4", "q5", "q6", "q7")

    def channel(self) -> list[str]:
        """Loads what belongs to a channel."""
        weight = "q4" if self.planes.shared else "q2"
        found = [f"ldr r0, [sp, #{_WEIGHTS}]", f"vldrb.8 {weight}, [r0], #16"]
        found.append(f"str r0, [sp, #{_WEIGHTS}]")
        if self.planes.shared:
            found += ["movs r0, #0", "vmov q5, q4", "vshlc q5, r0, #8", "vmov q6, q4"]
            found += ["vshlc q6, r0, #32", "vmov q7, q5", "vshlc q7, r0, #32"]
        found += [f"ldr r0, [sp, #{_FIRST}]"]
        if self.scaled:
            found += ["ldr r5, [r0], #4", f"ldr r2, [sp, #{_SECOND}]", "ldr r7, [r2], #4"]
            found.append(f"str r2, [sp, #{_SECOND}]")
        else:
            found.append("ldm r0!, {r5, r7, r9, r11}")
        return [*found, f"str r0, [sp, #{_FIRST}]", f"ldrd r10, r12, [sp, #{_OUT}]"]

    def tile(self) -> list[str]:
        """Four outputs."""
        found: list[str] = []
        if self.planes.shared:
            found.append("vldrb.u8 q0, [r1, q2]")
            found += [f"vmladav.s8 {each}, q0, q{4 + at}" for at, each in enumerate(_SUMS)]
        else:
            for at, each in enumerate(_SUMS):
                found.append(f"vldrb.u8 q{at % 2}, [r1, q{4 + at}]")
                found.append(f"vmladav.s8 {each}, q{at % 2}, q2")
        found += ["vmov q0[2], q0[0], r0, r4", "vmov q0[3], q0[1], r2, r6", "vadd.i32 q0, q0, r5"]
        return [*found, *self.made(), "vrev32.8 q0, q0", "vstrb.32 q0, [r3, q3]"]

    def made(self) -> Sequence[str]:
        """Outputs of sums, in the highest bytes."""
        if self.scaled:
            return (
                "vcvt.f32.s32 q0, q0",
                "vmul.f32 q0, q0, r7",
                "vcvtn.s32.f32 q0, q0",
                "vqadd.s32 q0, q0, r9",
                "vqshl.s32 q0, q0, #24",
            )
        below = ("vshr.s32 q1, q0, #31", "vadd.i32 q0, q0, q1") * self.planes.below
        return ("vqrdmulh.s32 q0, q0, r7", *below, "vadd.i32 q0, q0, r9", "vqshl.s32 q0, r11")


def planes_words(
    width: int, plane: int, row: int, image_row: int, column: int, tail: int
) -> dict[str, list[str] | int]:
    """What is filled into the text that makes planes of an image."""
    lines: list[str] = []
    near = column <= 127
    mark = "t" if tail else ""
    for place in range(width):
        lines += ["vpstt"] if tail else []
        lines.append(f"vldrb{mark}.u16 q0, [r4]" + (f", #{column}" if near else ""))
        lines.append(f"vstrb{mark}.16 q0, [r5, q{1 + place % 3}]")
        lines += [] if near else moved("r4", column)
        lines += ["adds r5, #3"] if place % 3 == 2 else []
    return {
        "plane": plane,
        "group": ["vctp.16 r3"] if tail else [],
        "row": [*lines, *moved("r7", image_row), *moved("r6", row)],
        "next": [*moved("r0", 8 * plane), "add r1, r1, #8"],
    }
