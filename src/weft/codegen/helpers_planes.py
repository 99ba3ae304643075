"""Helpers in the assembly of the Arm DSP extension for depthwise convolutions of 3x3 taps.

A plane holds one channel, pair by pair of rows, in words of two numbers of 16 bits. Six words of
weights stay in registers: of each column of taps the first two and the last two, so that SMLAD,
SMLABT and SMLATB take three taps from the words of two pairs at either alignment. Without a
stride a tile is 2x2 outputs, 55 instructions for 36 products; with strides of 2 it is 1x4.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helper_text import AssemblyText, assembly_text
from weft.records import dataclass

_SPREAD = (
    "ldr r8, [r1]",
    "ldr r9, [r2]",
    "add r1, r3",
    "add r2, r4",
    "pkhbt r10, r8, r9, lsl #16",
    "pkhtb r11, r9, r8, asr #16",
    "sxtb16 r8, r10, ror #8",
    "sxtb16 r9, r11, ror #8",
    "sxtb16 r10, r10",
    "sxtb16 r11, r11",
    "str r8, [r0, r6]",
    "str r9, [r0, r7]",
    "str r11, [r0, r6, lsl #1]",
    "str r10, [r0], #4",
)
_PLANES, _DEPTH = Frame(4, 11, room=16), Frame(4, 11, room=92)
_FIRST, _SECOND = ("r0", "r2", "r4"), ("r1", "r3", "r5")
"""Weights of each column of taps: the first two, and the last two."""
_WEIGHTS = tuple(
    each
    for first, second in zip(_FIRST, _SECOND, strict=True)
    for each in (
        f"sxtb16 {second}, {first}, ror #8",
        f"sxtb16 {first}, {first}",
        f"sadd16 {second}, {second}, {second}",
        f"sadd16 {first}, {first}, {first}",
    )
)
"""Twice the bytes of weights, whose middle one is there twice."""
_STORED = "str r11, [sp, #28]"


def _added(
    sums: Sequence[Sequence[str]], stride: int, columns: Sequence[tuple[int, str]], second: bool
) -> list[str]:
    """What words add to sums: of outputs side by side, each in one or two rows of a pair.

    Args:
        sums: registers.
        stride: of outputs.
        columns: words, with their columns.
        second: whether the words are of the second pair that outputs read.
    """
    weights = _SECOND if second else _FIRST
    ops = ("smlabt", "smlad") if second else ("smlad", "smlatb")
    found: list[str] = []
    for column, word in columns:
        for place, rows in enumerate(sums):
            tap = column - stride * place
            if 0 <= tap < len(weights):
                found += [
                    f"{op} {sum}, {word}, {weights[tap]}, {sum}"
                    for op, sum in zip(ops, rows, strict=False)
                ]
    return found


def _bytes(sums: Sequence[str], below: bool) -> list[str]:
    """Sums requantized by what lies on the stack; r11 becomes the outputs' pointer."""
    found = ["ldrd r10, r11, [sp, #16]"]
    for sum in sums:
        found += [f"add r12, r11, {sum}, asr #31"] * below
        found.append(f"smmlar {sum}, {sum}, r10, r{12 if below else 11}")
    # The plane's pointer has made room for a term that is one less.
    found += ["ldr r12, [sp, #84]", "sub r12, lr, r12"] * below
    found.append("ldrd r10, r11, [sp, #24]")
    found += [f"asr {sum}, {sum}, r10" for sum in sums]
    return [*found, *(f"ssat {sum}, #8, {sum}" for sum in sums)]


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a stride.

    Attributes:
        sums: of a tile, by output's column and row; last: of one column.
        loads: of a tile's words from ``{0}``, which moves on, with their columns; single: those
            of one column.
        begin: loads where a tile's sums start; first: those of one column.
        store: stores a tile; end: one column.
        next: goes on to the next pair at 5, or ends with 6; r6: rows left.
    """

    sums: Sequence[Sequence[str]]
    last: Sequence[str]
    loads: Sequence[tuple[str, Sequence[tuple[int, str]]]]
    single: Sequence[tuple[str, Sequence[tuple[int, str]]]]
    begin: str
    first: str
    store: Sequence[str]
    end: Sequence[str]
    next: Sequence[str]

    def tile(self, stride: int, below: bool, single: bool) -> list[str]:
        """A tile of outputs, or one column."""
        sums = (self.last,) if single else self.sums
        loads = self.single if single else self.loads
        found = [self.first if single else self.begin]
        for second, pointer in enumerate(("r12", "lr")):
            for load, columns in loads:
                found.append(load.format(pointer))
                found += _added(sums, stride, columns, bool(second))
        found += _bytes([each for rows in sums for each in rows], below)
        return [*found, *(self.end if single else self.store)]


_LOOPS = {
    1: _Loops(
        sums=(("r6", "r7"), ("r8", "r9")),
        last=("r6", "r7"),
        loads=(
            ("ldrd r10, r11, [{0}], #8", ((0, "r10"), (1, "r11"))),
            ("ldrd r10, r11, [{0}]", ((2, "r10"), (3, "r11"))),
        ),
        single=(
            ("ldrd r10, r11, [{0}], #4", ((0, "r10"), (1, "r11"))),
            ("ldr r10, [{0}, #4]", ((2, "r10"),)),
        ),
        begin="ldm sp, {r6-r9}",
        first="ldrd r6, r7, [sp]",
        # The second row first: it is the first one, too, where there is none.
        store=(
            "ldr r10, [sp, #32]",
            "strb r7, [r11, r10]",
            "ldr r7, [sp, #36]",
            "strb r6, [r11]",
            "add r11, r7",
            "strb r9, [r11, r10]",
            "strb r8, [r11]",
            "add r11, r7",
            _STORED,
        ),
        end=(
            "ldr r10, [sp, #32]",
            "strb r7, [r11, r10]",
            "ldr r7, [sp, #36]",
            "strb r6, [r11]",
            "add r11, r7",
            _STORED,
        ),
        next=(
            "subs r6, #2",
            "ble 6f",
            "cmp r6, #1",
            "bne 5b",
            "movs r7, #0",
            "str r7, [sp, #32]",
            "b 5b",
        ),
    ),
    2: _Loops(
        sums=(("r6",), ("r7",), ("r8",), ("r9",)),
        last=("r6",),
        loads=(
            *(
                ("ldrd r10, r11, [{0}], #8", ((column, "r10"), (column + 1, "r11")))
                for column in (0, 2, 4, 6)
            ),
            ("ldr r10, [{0}]", ((8, "r10"),)),
        ),
        single=(
            ("ldrd r10, r11, [{0}], #8", ((0, "r10"), (1, "r11"))),
            ("ldr r10, [{0}]", ((2, "r10"),)),
        ),
        begin="ldm sp, {r6-r9}",
        first="ldr r6, [sp]",
        store=(
            "ldr r10, [sp, #36]",
            "strb r6, [r11]",
            "strb r7, [r11, r10]",
            "strb r8, [r11, r10, lsl #1]",
            "add r11, r11, r10, lsl #1",
            "strb r9, [r11, r10]",
            "add r11, r11, r10, lsl #1",
            _STORED,
        ),
        end=("ldr r10, [sp, #36]", "strb r6, [r11]", "add r11, r10", _STORED),
        next=("subs r6, #1", "bne 5b"),
    ),
}
_WIDTHS = {1: 2, 2: 4}
"""Columns of a tile."""


def planes_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``planes``, ``depth_s1_0``), if there is one.

    A last number says whether sums below zero take one less.
    """
    if name == "planes":
        return assembly_text("planes", "planes", _PLANES, step=assembly(_SPREAD))
    family, _, below = name.rpartition("_")
    stride = {"depth_s1": 1, "depth_s2": 2}.get(family)
    if stride is None or below not in ("0", "1"):
        return None
    loops = _LOOPS[stride]
    return assembly_text(
        "planes",
        "depth_s",
        _DEPTH,
        name=name,
        stride=stride,
        tail=_WIDTHS[stride] - 1,
        shift=stride + 1,
        twice=", lsl #1" if stride == 1 else "",
        tile=assembly(loops.tile(stride, below == "1", single=False)),
        last=assembly(loops.tile(stride, below == "1", single=True)),
        weights=assembly(_WEIGHTS),
        next=assembly(loops.next),
    )
