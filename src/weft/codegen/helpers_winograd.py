"""Helpers in the assembly of the Arm DSP extension for Winograd's F(2x2, 3x3) of bytes.

``winograd_in`` transforms two tiles that share two columns. ``winograd_2x4`` adds up products of
the 16 points for two tiles and two channels, keeps the sums on the stack, transforms them back
and requantizes them; it is written out for each number of channels::

    a point: 10 instructions for 16 products, and about 4
    a tile: 120 instructions for 8 outputs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.codegen.assembly import Frame, assembly
from weft.codegen.helper_text import AssemblyText, assembly_text
from weft.codegen.helpers_dsp import SUMS

_POINTS, _QUADS = 16, 16
_IN, _OUTPUTS = Frame(4, 11, room=224), Frame(4, 11, room=288)
_WORDS, _SUMS, _POINT, _TILE = 8, 32, 16, 8
"""On the stack: bytes of two words of a column, where sums begin, bytes of a point and a tile."""


# --- the inputs ---------------------------------------------------------------------------------


def _column() -> list[str]:
    """A column of 4 words: transformed, stored at r6, which moves on."""
    found = ["ldr r7, [r1]", "ldr r8, [r1, r3]", "ldr r9, [r1, r3, lsl #1]", "ldr r10, [r1, r5]"]
    found.append("add r1, r4")
    pairs = (("r7", "r11"), ("r8", "r12"), ("r9", "r2"), ("r10", "lr"))
    for even, odd in pairs:
        found += [f"sxtb16 {odd}, {even}, ror #8", f"sxtb16 {even}, {even}"]
    (a, b, c, d) = pairs
    for op, to, lhs, rhs in (
        ("ssub16", a, a, c),
        ("sadd16", a, b, c),
        ("ssub16", c, c, b),
        ("ssub16", d, b, d),
    ):
        found += [f"{op} {to[at]}, {lhs[at]}, {rhs[at]}" for at in range(2)]
        found.append(f"strd {to[0]}, {to[1]}, [r6], #8")
    return found


def _row(tile: int, row: int) -> list[str]:
    """A row of a tile, transformed from the stack and stored at r0, which moves on by r5."""
    registers = (("r1", "r6"), ("r2", "r7"), ("r3", "r8"), ("r4", "r9"))
    found = [
        f"ldrd {even}, {odd}, [sp, #{_SUMS + 32 * (2 * tile + column) + _WORDS * row}]"
        for column, (even, odd) in enumerate(registers)
    ]
    (a, b, c, d) = registers
    for op, to, lhs, rhs in (
        ("ssub16", a, a, c),
        ("sadd16", a, b, c),
        ("ssub16", c, c, b),
        ("ssub16", d, b, d),
    ):
        found += [f"{op} {to[at]}, {lhs[at]}, {rhs[at]}" for at in range(2)]
        found += [f"strd {to[0]}, {to[1]}, [r0]", "add r0, r5"]
    return found


# --- the outputs --------------------------------------------------------------------------------


def _point() -> list[str]:
    """Four products of each of the first sums, which begin with them."""
    first, second, *products = SUMS["dual_2x2"].step
    made = [each.replace("smlad", "smuad").rsplit(", ", 1)[0] for each in products[:4]]
    return [first, second, *made, *products[4:]]


def _products(quads: int) -> Iterator[str]:
    """The products of a point, whose sums are stored."""
    yield from _point()
    for _ in range(quads - 1):
        yield from SUMS["dual_2x2"].step
    yield from ("ldr r6, [sp, #24]", "stm r6!, {r2-r5}", "str r6, [sp, #24]")


_OUT = (("r2", "r3"), ("r4", "r5"), ("r6", "r7"), ("r8", "r9"))
"""Of two channels, outputs of a tile row by row."""
_X, _P, _Q = ("r0", "r1"), ("r10", "r11"), ("r12", "lr")


def _pair(op: str, to: Sequence[str], lhs: Sequence[str], rhs: Sequence[str]) -> list[str]:
    return [f"{op} {to[at]}, {lhs[at]}, {rhs[at]}" for at in range(2)]


def _back(tile: int) -> list[str]:
    """Sums of 16 points as four times those of a tile's outputs, for two channels."""
    upper, upper_right, lower, lower_right = _OUT

    def load(to: Sequence[str], row: int, column: int) -> str:
        at = _SUMS + _POINT * (4 * row + column) + _TILE * tile
        return f"ldrd {to[0]}, {to[1]}, [sp, #{at}]"

    def halves(column: int, p: Sequence[str], q: Sequence[str], bias: bool = False) -> list[str]:
        """``a + b + c`` and ``b - c - d`` of a column."""
        found = [load(q, 1, column)]
        if bias:
            found += ["ldr r10, [sp, #20]", "ldrd r10, r11, [r10]", *_pair("add", q, q, _P)]
        found += [load(_X, 0, column), *_pair("add", p, _X, q)]
        found += [load(_X, 2, column), *_pair("add", p, p, _X), *_pair("sub", q, q, _X)]
        return [*found, load(_X, 3, column), *_pair("sub", q, q, _X)]

    found = halves(0, upper, lower)
    # The middle point adds to all four outputs alike: it brings the bias.
    found += halves(1, upper_right, lower_right, bias=True)
    found += [*_pair("add", upper, upper, upper_right), *_pair("add", lower, lower, lower_right)]
    found += halves(2, _P, _Q)
    found += [*_pair("add", upper, upper, _P), *_pair("sub", upper_right, upper_right, _P)]
    found += [*_pair("add", lower, lower, _Q), *_pair("sub", lower_right, lower_right, _Q)]
    for row, signs in enumerate(("-", "--", "-+", " +")):
        found.append(load(_X, row, 3))
        for sign, to in zip(signs, (upper_right, lower_right), strict=False):
            if sign != " ":
                found += _pair("sub" if sign == "-" else "add", to, to, _X)
    return found


def _stored(tile: int, below: bool) -> list[str]:
    """Outputs of a tile requantized and stored."""
    found = [f"asr {each[at]}, {each[at]}, #1" for each in _OUT for at in range(2)]
    found += ["ldr r0, [sp, #20]", "add r0, #8"]
    for channel in range(2):
        found.append("ldm r0!, {r10-r12}")
        for sums in _OUT:
            sum = sums[channel]
            found += [f"add lr, r11, {sum}, asr #31"] * below
            found.append(f"smmlar {sum}, {sum}, r10, {'lr' if below else 'r11'}")
            found += [f"asr {sum}, {sum}, r12", f"ssat {sum}, #8, {sum}"]
    found += ["ldr r0, [sp, #4]", "ldrd r10, r11, [sp, #12]"]
    found += ["add r0, r0, r10, lsl #1"] * tile
    found += ["add r1, r0, r10", "add r12, r0, r11", "add lr, r12, r10"]
    for (first, second), to in zip(_OUT, ("r0", "r1", "r12", "lr"), strict=True):
        found += [f"strb {first}, [{to}]", f"strb {second}, [{to}, #1]"]
    return found


def winograd_helper(name: str) -> AssemblyText | None:
    """The helper of this name (``winograd_in``, ``winograd_2x4_8_0``), if there is one.

    Numbers are the fours of channels, and whether sums below zero take one less.
    """
    if name == "winograd_in":
        second = ["ldr r0, [sp, #4]", "add r0, #8"]
        tiles = [[each for row in range(4) for each in _row(tile, row)] for tile in range(2)]
        rows = [*tiles[0], *second, *tiles[1]]
        return assembly_text(
            "winograd", "winograd_in", _IN, column=assembly(_column()), rows=assembly(rows)
        )
    head, _, below = name.rpartition("_")
    family, _, fours = head.rpartition("_")
    if family != "winograd_2x4" or not fours.isdigit():
        return None
    quads = int(fours)
    tiles = [[*_back(tile), *_stored(tile, below == "1")] for tile in range(2)]
    return assembly_text(
        "winograd",
        "winograd_2x4",
        _OUTPUTS,
        name=name,
        points=max(1, _QUADS // quads) if _QUADS % quads == 0 else 1,
        step=assembly(list(_products(quads))),
        tiles=assembly([*tiles[0], *tiles[1]]),
    )
