"""Helpers in the assembly of the Arm DSP extension that make bytes of sums of products (SMLAD).

Sums stay in registers until they are requantized. Weights and what requantizes a group of
channels are one stream: starts of sums, weights, then a multiplier, a term and a shift each.
Sizes are constants in memory, so that all arguments are in registers: quads of what a sum adds up,
channels, and the step from one position's outputs to the next's::

    2x2: 2 positions by 2 channels, weights of 16 bits     10 instructions for 16 products
    1x4: 4 positions by 1 channel, weights of 8 bits       13
    4x1: 1 position by 4 channels, weights of 16 bits      11
    4x1b: 1 position by 4 channels, weights of 8 bits      18
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helper_text import AssemblyText, assembly_text
from weft.codegen.helpers_dsp import SUMS
from weft.records import dataclass

_INSTRUCTION_BYTES, _WORD_BYTES = 4, 4
_ADD = Frame(4, 10)


@dataclass(frozen=True, slots=True)
class _Jump:
    """How a tile begins a sum: steps are written out, and the first are left out.

    Attributes:
        places: what is on the stack.
        setup: stores in registers from r4 what is on the stack, and in others what stays there.
        begin: loads the patch's start; jump: to the first step.
        again: compares the patch's pointer with its end.
    """

    places: Sequence[str]
    setup: Sequence[str]
    begin: Sequence[str]
    jump: Sequence[str]
    again: Sequence[str] = ("cmp r0, lr",)


_ENTRY = (
    *("rsb r5, r5, #0", "and r5, r5, #{mask}", "movs r6, #{bytes}"),
    *("adr r12, 3f", "mla r5, r5, r6, r12", "orr r5, r5, #1"),
)
_STORED = (("ldrd r0, r12, [sp]",), ("bx r12", ".p2align 2"))
# One position needs the fewest places, and few enough registers for the patch's end. The stack of
# networks of dense layers is as deep as this.
_COMPUTED = _Jump(
    ("patch", "out", "out's end"),
    (
        *("ldrd r7, r6, [r3]", "mov r4, r1", "mov r5, r0"),
        *("add lr, r1, r7, lsl #{shift}", "add r6, r0"),
    ),
    ("ldr r0, [sp]",),
    (
        *("sub r12, r0, lr", "ubfx r12, r12, #{shift}, #{bits}"),
        *("movs r6, #{bytes}", "mul r12, r12, r6", "add pc, r12", "nop"),
    ),
)
_HELD = _Jump(
    ("patch", "where a sum starts", "out", "step of positions", "out's end"),
    (
        *("ldrd r5, r8, [r3]", "ldr r7, [r3, #8]", "mov r4, r1"),
        *("add lr, r1, r5, lsl #{shift}", *_ENTRY, "mov r6, r0", "add r8, r0"),
    ),
    *_STORED,
)
_LOADED = _Jump(
    ("patch", "where a sum starts", "the patch's end", "out", "step of positions", "out's end"),
    (
        *("ldrd r5, r9, [r3]", "ldr r8, [r3, #8]", "mov r4, r1", "add r10, r1, r5, lsl #{shift}"),
        *(*_ENTRY, "mov r6, r10", "mov r7, r0", "add r9, r0"),
    ),
    *_STORED,
    ("ldr r6, [sp, #8]", "cmp r0, r6"),
)


@dataclass(frozen=True, slots=True)
class _Tile:
    """How four sums become bytes.

    Attributes:
        sums: the form of their sums (``helpers_dsp``); unroll: steps that are written out, a
            power of two.
        jump: how a sum begins.
        begin: loads the sums' start from r1.
        loads: registers that one load from r1 fills, and by three of them (multiplier, term and
            shift) which sums they requantize.
        store: stores the bytes of r2 to r5 at r6, which moves on, and loads r7 with its end.
        double: whether sums must be doubled.
    """

    sums: str
    unroll: int
    jump: _Jump
    begin: Sequence[str]
    loads: Sequence[tuple[str, Sequence[tuple[Sequence[str], Sequence[str]]]]]
    store: Sequence[str]
    double: bool = False


_FIRST, _SECOND = ("r6", "r7", "r8"), ("r9", "r10", "r11")
_PAIRS = (
    ("{r6-r11}", ((_FIRST, ("r2",)), (_SECOND, ("r3",)))),
    ("{r6-r11}", ((_FIRST, ("r4",)), (_SECOND, ("r5",)))),
)
_BEGIN_FOUR = ("ldm r1!, {r2-r5}",)
_STORE_FOUR = (
    "ldrd r6, r7, [sp, #4]",
    *(f"strb r{n}, [r6], #1" for n in (2, 3, 4, 5)),
    "str r6, [sp, #4]",
)
_TILES = {
    "bytes_2x2": _Tile(
        sums="dual_2x2",
        unroll=16,
        jump=_LOADED,
        begin=("ldm r1!, {r2-r5}",),
        loads=(("{r6-r11}", ((_FIRST, ("r2", "r4")), (_SECOND, ("r3", "r5")))),),
        store=(
            "ldrd r6, r7, [sp, #12]",
            "strb r4, [r6, r7]",
            "strb r2, [r6], #1",
            "strb r5, [r6, r7]",
            "strb r3, [r6], #1",
            "ldr r7, [sp, #20]",
            "str r6, [sp, #12]",
        ),
    ),
    "bytes_1x4": _Tile(
        sums="dual_1x4",
        unroll=8,
        jump=_HELD,
        begin=("ldr r2, [r1], #4", "mov r3, r2", "mov r4, r2", "mov r5, r2"),
        loads=(("{r6-r8}", ((_FIRST, ("r2", "r3", "r4", "r5")),)),),
        store=(
            "ldrd r6, r7, [sp, #8]",
            "add r8, r6, r7",
            "strb r3, [r6, r7]",
            "strb r4, [r6, r7, lsl #1]",
            "strb r5, [r8, r7, lsl #1]",
            "strb r2, [r6], #1",
            "ldr r7, [sp, #16]",
            "str r6, [sp, #8]",
        ),
        double=True,
    ),
    "bytes_4x1": _Tile(
        sums="dual_4x1",
        unroll=8,
        jump=_COMPUTED,
        begin=_BEGIN_FOUR,
        loads=_PAIRS,
        store=_STORE_FOUR,
    ),
    "bytes_4x1b": _Tile(
        sums="dual_4x1b",
        unroll=4,
        jump=_COMPUTED,
        begin=_BEGIN_FOUR,
        loads=_PAIRS,
        store=_STORE_FOUR,
        double=True,
    ),
}


def requantized(
    sums: Sequence[str], factors: Sequence[str], below: bool, double: bool
) -> Iterator[str]:
    """Bytes of sums, in their registers.

    Args:
        sums: registers.
        factors: registers of multiplier, term and shift.
        below: whether sums below zero take one less; needs r12.
        double: whether sums must be doubled.
    """
    multiplier, term, shift = factors
    for sum in sums:
        added = term
        if below:
            yield f"add r12, {term}, {sum}, asr #31"
            added = "r12"
        if double:
            yield f"lsl {sum}, {sum}, #1"
        yield f"smmlar {sum}, {sum}, {multiplier}, {added}"
        yield f"asr {sum}, {sum}, {shift}"
        yield f"ssat {sum}, #8, {sum}"


def bytes_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``bytes_1x4_0``, ``bytes_2x2_1_0``), if there is one.

    The last number says whether sums below zero take one less; 0 before it that there are no more
    steps than are written out.
    """
    family, _, below = name.rpartition("_")
    once = family.removesuffix("_0")
    made = _TILES.get(once.removesuffix("_1") if once == family else once)
    if made is None or below not in ("0", "1"):
        return None
    sums, jump = SUMS[made.sums], made.jump
    words = {
        "mask": made.unroll - 1,
        "bits": made.unroll.bit_length() - 1,
        "bytes": _INSTRUCTION_BYTES * len(sums.step),
        "shift": sums.shift,
    }

    def text(instructions: Sequence[str]) -> str:
        return assembly([each.format(**words) for each in instructions])

    end: list[str] = []
    for registers, groups in made.loads:
        end.append(f"ldm r1!, {registers}")
        for factors, found in groups:
            end += requantized(found, factors, below == "1", made.double)
    return assembly_text(
        "bytes",
        "bytes",
        Frame(4, 11, room=_WORD_BYTES * len(jump.places), filled=True),
        name=name,
        doc=sums.doc.replace("Sums", "Bytes", 1),
        places=", ".join(f"{_WORD_BYTES * at}: {each}" for at, each in enumerate(jump.places)),
        unroll=made.unroll,
        setup=text(jump.setup),
        begin=assembly([*jump.begin, *made.begin]),
        jump=text(jump.jump),
        step=assembly(sums.step),
        again=assembly([] if once != family else [*jump.again, "bne 3b"]),
        end=assembly(end),
        store=assembly(made.store),
    )


def _added(shift: int, right: int, below: bool) -> list[str]:
    """The sum of a byte at r1 by the table at r3 and one in r7, requantized and stored at r0."""
    return [
        "ldrsb r6, [r1], #1",
        "ldr r6, [r3, r6, lsl #2]",
        f"add r6, r6, r7, lsl #{shift}",
        *["add r8, r5, r6, asr #31"] * below,
        f"smmlar r6, r6, r4, r{8 if below else 5}",
        f"ssat r6, #8, r6, asr #{right}",
        "strb r6, [r0], #1",
    ]


def add_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``add_i8_20_17_0``), if there is one.

    Numbers are the shifts of what no table scales and of the sum, and whether sums below zero
    take one less.
    """
    family, *sizes = name.rsplit("_", 3)
    if family != "add_i8" or not all(map(str.isdigit, sizes)) or len(sizes) < 3:
        return None
    shift, right, below = map(int, sizes)
    one = _added(shift, right, below > 0)
    four = [
        each
        for place in range(4)
        for each in (f"sxtb r7, lr{f', ror #{8 * place}' if place else ''}", *one)
    ]
    return assembly_text(
        "bytes",
        "add_i8",
        _ADD,
        name=name,
        shift=shift,
        right=right,
        four=assembly(four),
        one=assembly(one),
    )
