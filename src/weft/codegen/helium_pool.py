"""Reductions of windows of bytes in the assembly of Helium, channels in lanes."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.helium_sums import moved
from weft.records import dataclass

_REACH, _BLOCK = 127, 8


@dataclass(frozen=True, slots=True)
class Pool:
    """A reduction.

    Attributes:
        doc: one sentence.
        type: of a result in C; bits: of a lane.
        load: the instruction that loads bytes, but for the mark of a predicate.
        begin: before the first; each: for a vector in q0; end: stores results and moves on.
    """

    doc: str
    type: str
    bits: int
    load: str
    begin: Sequence[str]
    each: str
    end: Sequence[str]

    def words(self, rows: int, columns: int, row: int, column: int) -> dict[str, str | int]:
        """What the text holds beside lines."""
        whole = row == columns * column
        return {"doc": self.doc, "type": self.type, "bits": self.bits, "rows": 1 if whole else rows}

    def lines(self, rows: int, columns: int, row: int, column: int) -> dict[str, list[str]]:
        """The instructions by their places in the text."""
        if row == columns * column:
            columns = rows * columns
        near = column <= _REACH
        after = f", #{column}" if near else ""
        one = ["vpst", f"vldrbt.{self.load} q0, [r3]{after}", self.each]
        one += [] if near else moved("r3", column)
        blocks, rest = divmod(columns, _BLOCK)
        found = one * rest
        if blocks > 1:
            found += [f"movw lr, #{blocks}", "3:", *one * _BLOCK, "le lr, 3b"]
        else:
            found += one * _BLOCK * blocks
        return {
            "begin": list(self.begin),
            "row": [*found, *moved("r4", row)],
            "end": list(self.end),
        }


POOLS = {
    "mve_pool_sum": Pool(
        doc="Sums of the bytes of a window, eight channels at a time.",
        type="int32_t",
        bits=16,
        load="s16",
        begin=("vmov.i32 q1, #0",),
        each="vadd.i16 q1, q1, q0",
        end=(
            "vmovlb.s16 q2, q1",
            "vmovlt.s16 q3, q1",
            "vst20.32 {q2, q3}, [r0]",
            "vst21.32 {q2, q3}, [r0]!",
            "add r1, r1, #8",
            "subs r2, #8",
        ),
    ),
    "mve_pool_max": Pool(
        doc="The largest bytes of a window, sixteen channels at a time.",
        type="int8_t",
        bits=8,
        load="8",
        begin=("vmov.i8 q1, #0x80",),
        each="vmax.s8 q1, q1, q0",
        end=(
            "vpst",
            "vstrbt.8 q1, [r0], #16",
            "add r1, r1, #16",
            "subs r2, #16",
        ),
    ),
}
