"""Sums of products of bytes in the assembly of Helium (MVE, the vector extension of Cortex-M55).

``VMLADAVA.S8`` adds 16 products to a sum in an even register; all eight of them hold sums::

    groups of 4 channels: 2 positions at a time     14 instructions for 128 products
    groups of 8 channels: 1 position at a time      17

A helper is made for the shape of a window, as distances between what is read next to one another
are part of its instructions.  Positions and groups of channels are counted when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.assembly import Frame
from weft.records import dataclass

CHUNK = 16
"""Bytes of a vector."""
MOST_CHUNKS = 24
"""Vectors of a window, or of one of its rows, that are written out."""
_BLOCK = 8
_REACH = 127
_SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")
_PAIR, _SINGLE = 4, 8
# What the stack holds, in bytes: the input's and the output's addresses, two of constants, groups
# and channels that are left; behind them 16 saved registers and the arguments.
FRAME = Frame(3, 11, doubles=8, room=32)
_X, _OUT, _GROUPS, _CHANNELS, _COUNTER, _POSITIONS = 0, 4, 16, 20, 24, FRAME.bytes
_CONSTANTS = (8, 12)


@dataclass(frozen=True, slots=True)
class Window:
    """What a member of a family is made for.

    Attributes:
        step: bytes from a position to the next.
        rows: of the window; row: bytes from one to the next; run: bytes that each has.
        tail: channels of the last group, 0 if it is whole.
        out: elements from an output's position to the next.
        group: channels that are summed at a time, 4 (for two positions) or 8.
        below: whether sums below zero take one less before they are shifted.
    """

    step: int
    rows: int
    row: int
    run: int
    tail: int
    out: int
    group: int
    below: int = 0

    @property
    def chunks(self) -> int:
        """Vectors of a row."""
        return -(-self.run // CHUNK)


@dataclass(frozen=True, slots=True)
class End:
    """What becomes of sums.

    Attributes:
        doc: one sentence.
        constants: vectors for each group, by operand; size: bytes of an output.
        type: of outputs in C; operands: constants' types in C.
    """

    doc: str
    constants: tuple[int, ...]
    size: int
    type: str
    operands: tuple[str, ...]


ENDS = {
    "mve_sums": End("Sums of products of bytes.", (1,), 4, "int32_t", ("int32_t",)),
    "mve_i32": End(
        "Sums of products of bytes, requantized in integers.", (4,), 1, "int8_t", ("int32_t",)
    ),
    "mve_f32": End(
        "Sums of products of bytes, requantized in floats.",
        (1, 1),
        1,
        "int8_t",
        ("int32_t", "float", "int32_t"),
    ),
}


def moved(register: str, distance: int) -> list[str]:
    """Adds a number to a register."""
    name, rest = ("sub" if distance < 0 else "add"), abs(distance)
    high, low = rest & ~4095, rest & 4095
    return [f"{name} {register}, {register}, #{part}" for part in (high, low) if part]


class _Loads:
    """Pointers to what positions of a tile read, which move along a window.

    One pointer serves two positions whose bytes a load reaches from it.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        two = window.group == _PAIR
        self.two = two and window.step > _REACH
        self.near = two and not self.two
        self.pointers = ("r1", "r3") if self.two else ("r1",)

    def chunk(self, partial: bool, distance: int) -> list[str]:
        """Loads a vector of each position, then moves so many bytes on."""
        short = abs(distance) <= _REACH
        mark, after = ("t" if partial else ""), f", #{distance}" if short and distance else ""
        found: list[str] = []
        if self.near:
            found.append(f"vldrb{mark}.8 q1, [r1, #{self.window.step}]")
        for number, pointer in enumerate(self.pointers):
            found.append(f"vldrb{mark}.8 q{number}, [{pointer}]{after}")
        if partial:
            found.insert(0, "vpst" + "t" * (len(found) - 1))
        return found + ([] if short else self.moved(distance))

    def moved(self, distance: int) -> list[str]:
        """Moves the pointers."""
        return [line for each in self.pointers for line in moved(each, distance)]


class Sums:
    """The instructions of a helper."""

    def __init__(self, window: Window, end: str) -> None:
        self.window, self.name, self.end = window, end, ENDS[end]
        self.loads = _Loads(window)
        self.pair = window.group == _PAIR
        self.partial = window.run % CHUNK > 0
        self.weights = window.rows * window.chunks * window.group * CHUNK

    def lines(self) -> list[str]:
        """All but those of its frame."""
        window = self.window
        found = [
            *self.arguments(),
            "mov r5, r2",
            "2:",
            *self.group(),
            "3:",
            *(self.predicate() if window.tail else []),
            *self.sums(),
            *self.stored(),
            *moved("r5", -self.weights),
            "subs r9, #1",
            "bgt 3b",
            *(self.odd() if self.pair else []),
            "4:",
            *moved("r5", self.weights),
        ]
        if not self.pair:
            for slot, count in zip(_CONSTANTS, self.end.constants, strict=False):
                found += _counted(slot, 2 * CHUNK * count)
        if window.tail:
            found += _counted(_CHANNELS, -window.group)
        return [*found, *_counted(_GROUPS, -1), "bne 2b"]

    def arguments(self) -> list[str]:
        """Puts arguments where they are kept."""
        window, more = self.window, len(self.end.constants) - 1
        found = [f"strd r1, r0, [sp, #{_X}]", f"str r3, [sp, #{_CONSTANTS[0]}]"]
        if more:
            found += [f"ldr r4, [sp, #{_POSITIONS}]", f"str r4, [sp, #{_CONSTANTS[1]}]"]
        if self.name == "mve_f32":
            found += [f"ldr r4, [sp, #{_POSITIONS + 4}]", "ldr r4, [r4]", "vdup.32 q6, r4"]
        found += [f"ldr r4, [sp, #{self.positions + 4}]", f"str r4, [sp, #{_GROUPS}]"]
        if window.tail:
            found += [f"lsl r4, r4, #{2 if self.pair else 3}"]
            found += [f"sub r4, #{window.group - window.tail}", f"str r4, [sp, #{_CHANNELS}]"]
        elif self.partial:
            found += self.predicate()
        return found

    @property
    def positions(self) -> int:
        """Where the number of positions is."""
        return _POSITIONS + {"mve_f32": 8}.get(self.name, 0)

    def predicate(self) -> list[str]:
        """Lanes of the last vector of a row."""
        return [f"movs r0, #{self.window.run % CHUNK}", "vctp.8 r0"] if self.partial else []

    def group(self) -> list[str]:
        """Before the positions of a group of channels."""
        window, size = self.window, self.window.group * self.end.size
        found = [f"ldrd r1, r7, [sp, #{_X}]", *_copied("r2", "r7", size), f"str r2, [sp, #{_OUT}]"]
        if self.loads.two:
            found += _copied("r3", "r1", window.step)
        if self.pair:
            register = 4
            for slot, count in zip(_CONSTANTS, self.end.constants, strict=False):
                found.append(f"ldr r0, [sp, #{slot}]")
                for _ in range(count):
                    found.append(f"vldrw.32 q{register}, [r0], #16")
                    register += 1
                found.append(f"str r0, [sp, #{slot}]")
        found.append(f"ldr r9, [sp, #{self.positions}]")
        return found + ["asr r9, r9, #1"] * self.pair

    def odd(self) -> list[str]:
        """The last of an odd number of positions: with the one before it, again."""
        window = self.window
        return [
            "bmi 4f",
            f"ldr r0, [sp, #{self.positions}]",
            "lsls r0, r0, #31",
            "beq 4f",
            *self.loads.moved(-window.step),
            *moved("r7", -window.out * self.end.size),
            "b 3b",
        ]

    # --- sums -----------------------------------------------------------------------------------

    def sums(self) -> list[str]:
        """The sums of a tile; its pointers then are those of the next tile."""
        window, chunks = self.window, self.window.chunks
        after = window.step * (2 if self.pair else 1)
        if window.rows * chunks <= MOST_CHUNKS:
            return self.written(window.rows, chunks, after)
        cleared = [f"mov {each}, #0" for each in _SUMS]
        if window.rows == 1:
            return [*cleared, *self.long_row(after)]
        last = self.loads.moved(after - window.rows * window.row)
        if chunks <= MOST_CHUNKS:
            body = self.written(1, chunks, window.row, began=True)
            return [*cleared, *_looped(window.rows, body), *last]
        body = self.long_row(window.row)
        kept, back = (f"{name} r9, [sp, #{_COUNTER}]" for name in ("str", "ldr"))
        return [*cleared, kept, *_looped(window.rows, body, "r9", 6), back, *last]

    def long_row(self, after: int) -> list[str]:
        """A row in blocks of vectors, and how far it is then to what is next."""
        chunks = self.window.chunks
        blocks, rest = divmod(chunks - 1, _BLOCK)
        body = self.block([(CHUNK, False)] * _BLOCK, began=True)
        ends = [(CHUNK, False)] * rest
        ends.append((after - (chunks - 1) * CHUNK, self.partial))
        return [*_looped(blocks, body), *self.block(ends, began=True)]

    def written(self, rows: int, chunks: int, after: int, began: bool = False) -> list[str]:
        """Rows of a window, every vector by instructions of its own."""
        places = [
            row * self.window.row + chunk * CHUNK for row in range(rows) for chunk in range(chunks)
        ]
        next_places = [*places[1:], after]
        last = [self.partial and (number + 1) % chunks == 0 for number in range(len(places))]
        moves = [there - here for here, there in zip(places, next_places, strict=True)]
        return self.block(list(zip(moves, last, strict=True)), began)

    def block(self, chunks: Sequence[tuple[int, bool]], began: bool) -> list[str]:
        """Vectors by how far pointers move behind them and whether they are partial."""
        found: list[str] = []
        for number, (distance, partial) in enumerate(chunks):
            found += self.loads.chunk(partial, distance)
            name = "vmladava.s8" if began or number else "vmladav.s8"
            for channel in range(self.window.group):
                weight = f"q{2 + channel % 2}"
                found.append(f"vldrb.8 {weight}, [r5], #{CHUNK}")
                found.append(f"{name} {_SUMS[channel]}, q0, {weight}")
                if self.pair:
                    found.append(f"{name} {_SUMS[channel + _PAIR]}, q1, {weight}")
        return found

    # --- outputs --------------------------------------------------------------------------------

    def stored(self) -> list[str]:
        """Makes outputs of sums and stores them; the pointer then is that of the next tile."""
        return [*_collected(0, _SUMS[:4]), *_collected(1, _SUMS[4:])] + (
            self.two_positions() if self.pair else self.eight_channels()
        )

    def made(self, value: str, constants: Sequence[str]) -> list[str]:
        """Outputs of a vector of sums."""
        found = [f"vadd.i32 {value}, {value}, {constants[0]}"]
        if self.name == "mve_i32":
            found.append(f"vqrdmulh.s32 {value}, {value}, {constants[1]}")
            if self.window.below:
                spare = "q2" if self.pair else "q7"
                found += [f"vshr.s32 {spare}, {value}, #31", f"vadd.i32 {value}, {value}, {spare}"]
            found.append(f"vadd.i32 {value}, {value}, {constants[2]}")
            found.append(f"vqshl.s32 {value}, {value}, {constants[3]}")
        elif self.name == "mve_f32":
            found.append(f"vcvt.f32.s32 {value}, {value}")
            found.append(f"vmul.f32 {value}, {value}, {constants[1]}")
            found.append(f"vcvtn.s32.f32 {value}, {value}")
            found.append(f"vqadd.s32 {value}, {value}, q6")
            found.append(f"vqshl.s32 {value}, {value}, #24")
        return found + [f"vrev32.8 {value}, {value}"] * (self.end.size == 1)

    @property
    def store(self) -> str:
        """The instruction that stores a vector, but for what follows its first letters."""
        return "b" if self.end.size == 1 else "w"

    def two_positions(self) -> list[str]:
        """Four channels of two positions."""
        found: list[str] = []
        for value in ("q0", "q1"):
            found += self.made(value, ("q4", "q5", "q6", "q7"))
        if self.window.tail:
            found += [f"ldr r0, [sp, #{_CHANNELS}]", "vctp.32 r0"]
        mark = "t" if self.window.tail else ""
        step, size = self.window.out * self.end.size, self.end.size
        reach = _REACH * size
        name = f"vstr{self.store}{mark}.32"
        first = ["vpst"] if mark else []
        if step <= reach:
            both = ["vpstt"] if mark else []
            after = f", #{2 * step}" if 2 * step <= reach else ""
            found += [*both, f"{name} q1, [r7, #{step}]", f"{name} q0, [r7]{after}"]
            return found + ([] if after else moved("r7", 2 * step))
        found += [*first, f"{name} q0, [r7]", *moved("r7", step)]
        return [*found, *first, f"{name} q1, [r7]", *moved("r7", step)]

    def eight_channels(self) -> list[str]:
        """Eight channels of a position, in two vectors."""
        found: list[str] = []
        slots = list(zip(_CONSTANTS, self.end.constants, strict=False))
        for slot, _ in slots:
            found.append(f"ldr {'r2' if slot == _CONSTANTS[0] else 'r4'}, [sp, #{slot}]")
        # Vectors of constants come in pairs: those of the first four channels, then the others.
        places = [
            ("r2" if slot == _CONSTANTS[0] else "r4", 32 * number)
            for slot, count in slots
            for number in range(count)
        ]
        for half, value in enumerate(("q0", "q1")):
            names = [f"q{2 + number}" for number in range(len(places))]
            found += [
                f"vldrw.32 {name}, [{base}, #{place + 16 * half}]"
                for name, (base, place) in zip(names, places, strict=True)
            ]
            found += self.made(value, names)
        if self.window.tail:
            found.append(f"ldr r0, [sp, #{_CHANNELS}]")
        mark = "t" if self.window.tail else ""
        for half, value in enumerate(("q0", "q1")):
            if mark and half:
                found += ["subs r0, #4", "it lt", "movlt r0, #0"]
            found += ["vctp.32 r0", "vpst"] if mark else []
            place = f", #{4 * self.end.size}" if half else ""
            found.append(f"vstr{self.store}{mark}.32 {value}, [r7{place}]")
        return found + moved("r7", self.window.out * self.end.size)


def _copied(to: str, register: str, distance: int) -> list[str]:
    """A register plus a number in another one."""
    if distance <= 4095:
        return [f"add {to}, {register}, #{distance}"]
    return [f"mov {to}, {register}", *moved(to, distance)]


def _counted(slot: int, distance: int) -> list[str]:
    """Adds a number to what the stack holds; flags are those of the sum."""
    name = "subs" if distance < 0 else "adds"
    return [f"ldr r0, [sp, #{slot}]", f"{name} r0, #{abs(distance)}", f"str r0, [sp, #{slot}]"]


def _looped(count: int, body: Sequence[str], counter: str = "r11", label: int = 5) -> list[str]:
    begin = [f"movw {counter}, #{count}", f"{label}:"]
    return [*begin, *body, f"subs {counter}, #1", f"bne {label}b"]


def _collected(vector: int, sums: Sequence[str]) -> list[str]:
    """Four sums in a vector."""
    a, b, c, d = sums
    return [
        f"vmov q{vector}[2], q{vector}[0], {a}, {c}",
        f"vmov q{vector}[3], q{vector}[1], {b}, {d}",
    ]
