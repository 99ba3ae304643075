"""Helpers in the assembly of the Arm DSP extension (SMLAD), which rows of instructions call.

Sums of products hold four sums in registers, read what they multiply by multiple loads, and
take four products of each sum a step::

    2x2: 2 positions by 2 channels, weights of 16 bits     10 instructions for 16 products
    1x4: 4 positions by 1 channel, weights of 8 bits       13
    4x1: 1 position by 4 channels, weights of 16 bits      11
    4x1b: 1 position by 4 channels, weights of 8 bits      18
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helper_text import AssemblyText, assembly_text, helper_text
from weft.records import dataclass

_INSTRUCTION_BYTES = 4
_PAIR = 8


@dataclass(frozen=True, slots=True)
class Sums:
    """One way to hold four sums in registers.

    Attributes:
        doc: one sentence.
        unroll: steps that are written out.
        shift: two to this are the bytes of the patch that a step reads.
        begin: loads the sums' start from r6; ready: before the first step.
        step: four products of each sum; begins with loads at r0 and r1.
        again: compares the patch's pointer with its end.
        end: stores sums at r6, r7 bytes from one position to the next.
    """

    doc: str
    unroll: int
    shift: int
    begin: Sequence[str]
    step: Sequence[str]
    end: Sequence[str]
    ready: Sequence[str] = ()
    again: Sequence[str] = ("ldr r6, [sp, #4]", "cmp r0, r6")


def _added(sums: Sequence[str], left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [f"smlad {s}, {a}, {b}, {s}" for s, a, b in zip(sums, left, right, strict=True)]


def _bytes_step() -> list[str]:
    """A step for weights of 8 bits of four channels: each is extended before it is used."""
    found = ["ldrd r6, r7, [r0], #8", "ldm r1!, {r8-r11}"]
    for sum, weight in zip(("r2", "r3", "r4", "r5"), ("r8", "r9", "r10", "r11"), strict=True):
        found += [f"sxtb16 r12, {weight}", f"sxtb16 {weight}, {weight}, ror #8"]
        found += _added((sum, sum), ("r6", "r7"), ("r12", weight))
    return found


_QUAD = "ldm r1!, {r8-r11}"
_FOUR = ("ldm r6!, {r2-r5}",), ("stm r6!, {r2-r5}",)
SUMS = {
    "dual_2x2": Sums(
        doc="Sums of 2 positions and 2 channels at a time, weights in 16 bits.",
        unroll=12,
        shift=4,
        begin=("ldrd r2, r3, [r6], #8",),
        ready=("mov r4, r2", "mov r5, r3"),
        step=(
            "ldm r0!, {r6-r9}",
            "ldm r1!, {r10-r12, lr}",
            *_added(("r2", "r3", "r4", "r5"), ("r6", "r6", "r8", "r8"), ("r10", "r12") * 2),
            *_added(("r2", "r3", "r4", "r5"), ("r7", "r7", "r9", "r9"), ("r11", "lr") * 2),
        ),
        end=("add r7, r6, r7", "strd r4, r5, [r7]", "strd r2, r3, [r6], #8"),
    ),
    "dual_1x4": Sums(
        doc="Sums of 4 positions and 1 channel at a time, weights in 8 bits.",
        unroll=8,
        shift=5,
        begin=("ldr r2, [r6], #4",),
        ready=("mov r3, r2", "mov r4, r2", "mov r5, r2", "ldr lr, [sp, #4]"),
        step=(
            "ldr r12, [r1], #4",
            "sxtb16 r11, r12",
            "sxtb16 r12, r12, ror #8",
            "ldm r0!, {r6-r9}",
            *_added(("r2", "r2", "r3", "r3"), ("r6", "r7", "r8", "r9"), ("r11", "r12") * 2),
            "ldm r0!, {r6-r9}",
            *_added(("r4", "r4", "r5", "r5"), ("r6", "r7", "r8", "r9"), ("r11", "r12") * 2),
        ),
        again=("cmp r0, lr",),
        end=(
            "add r8, r6, r7",
            "str r3, [r6, r7]",
            "str r4, [r6, r7, lsl #1]",
            "str r5, [r8, r7, lsl #1]",
            "str r2, [r6], #4",
        ),
    ),
    "dual_4x1": Sums(
        doc="Sums of 4 channels at a time, weights in 16 bits.",
        unroll=8,
        shift=3,
        begin=_FOUR[0],
        step=(
            "ldrd r6, r7, [r0], #8",
            _QUAD,
            *_added(("r2", "r2", "r3", "r3"), ("r6", "r7") * 2, ("r8", "r9", "r10", "r11")),
            _QUAD,
            *_added(("r4", "r4", "r5", "r5"), ("r6", "r7") * 2, ("r8", "r9", "r10", "r11")),
        ),
        end=_FOUR[1],
    ),
    "dual_4x1b": Sums(
        doc="Sums of 4 channels at a time, weights in 8 bits.",
        unroll=4,
        shift=3,
        begin=_FOUR[0],
        step=_bytes_step(),
        end=_FOUR[1],
    ),
}


_FRAMES = {
    "loads": Frame(4, 11, room=28),
    "depth": Frame(4, 11),
    "spread": Frame(4, 5, link=False),
    "scale_f32": Frame(4, 7, link=False),
    "scale_i32": Frame(4, 9),
}


def _text(kind: str, **words: object) -> AssemblyText:
    return assembly_text("dsp", kind, frame=_FRAMES[kind], **words)


def _taps(rows: int) -> list[str]:
    """Rows of three taps for four channels: r6 and r7 are two of them each."""
    found: list[str] = []
    for row in range(rows):
        found += ["add r0, r0, r11"] * (row > 0)
        for place in ("[r0]", "[r0, r10]", "[r0, r10, lsl #1]"):
            found += [f"ldr r6, {place}", "ldrd r8, r9, [r1], #8"]
            found += ["sxtb16 r7, r6", "sxtb16 r6, r6, ror #8"]
            found += ["smlabb r2, r7, r8, r2", "smlatt r4, r7, r8, r4"]
            found += ["smlabb r3, r6, r9, r3", "smlatt r5, r6, r9, r5"]
    back = {1: [], 3: ["sub r0, r0, r11, lsl #1"]}
    return found + back.get(rows, ["sub r0, r0, r11"] * (rows - 1))


def dsp_c_helper(name: str) -> str | None:
    """The helper of this name in C, if there is one."""
    return helper_text("dsp", name) if name == "winograd_out" else None


def dsp_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``dual_2x2``, ``spread_4``), if there is one."""
    # "spread_4": a family and the sizes of a member.
    family, _, size = name.rpartition("_")
    if family == "spread" and size.isdigit():
        return _text("spread", name=name, bytes=_PAIR * int(size))
    if family == "depth" and size.isdigit():
        return _text("depth", name=name, rows=int(size), steps=assembly(_taps(int(size))))
    if family == "scale_i32" and size in ("10", "11", "20", "21"):
        single, below = size[0] == "2", size[1] == "1"
        texts = {
            part: assembly(
                [f"add {term}, {term}, {sum}, asr #31"] * below + [f"lsl {sum}, {sum}, #1"] * single
            )
            for part, sum, term in (("first", "r4", "r7"), ("second", "r5", "r12"))
        }
        return _text("scale_i32", name=name, **texts)
    made = SUMS.get(name)
    if made is None:
        return _text(name) if name == "scale_f32" else None
    return _text(
        "loads",
        name=name,
        doc=made.doc,
        unroll=made.unroll,
        bytes=_INSTRUCTION_BYTES * len(made.step),
        shift=made.shift,
        **{
            part: assembly(getattr(made, part))
            for part in ("begin", "ready", "step", "again", "end")
        },
    )
