"""Every instruction: interpreter, portable C and the instruction itself agree to the bit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.turns import a_few, in_turn
from weft.codegen.flavours import flavour_named
from weft.codegen.function import kernel_function
from weft.codegen.helpers import helper_texts
from weft.codegen.layout import vector_types
from weft.codegen.naming import STORAGE
from weft.dtypes import DType
from weft.loops.instruction import families, instruction, instructions, member
from weft.loops.interpret import run
from weft.loops.nodes import Access, Buffer, For, Instruct, Kernel, Load, Var
from weft.loops.text import parse, show
from weft.loops.verify import verify
from weft.loops.walk import index
from weft.targets.find import features
from weft.targets.system import cpu_flags

TRIALS = 40
BOARDS = Path(__file__).parents[2] / "examples" / "cortex-m"
_SEMIHOSTED = ("-mthumb", "-mfloat-abi=hard", "--specs=rdimon.specs", str(BOARDS / "startup.c"))
_QEMU = "-nographic -monitor none -serial none -semihosting-config enable=on,target=native"
ZIG = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl")
MACHINES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dsp": (
        ("arm-none-eabi-gcc", "-mcpu=cortex-m4", *_SEMIHOSTED, f"-T{BOARDS / 'mps2.ld'}"),
        ("qemu-system-arm", "-M", "mps2-an386", *_QEMU.split(), "-kernel"),
    ),
    "vfp": (
        (
            *("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", *_SEMIHOSTED),
            f"-T{BOARDS / 'mps2.ld'}",
        ),
        ("qemu-system-arm", "-M", "mps2-an386", *_QEMU.split(), "-kernel"),
    ),
    "mve": (
        ("arm-none-eabi-gcc", "-mcpu=cortex-m55", *_SEMIHOSTED, f"-T{BOARDS / 'mps3.ld'}"),
        ("qemu-system-arm", "-M", "mps3-an547", *_QEMU.split(), "-kernel"),
    ),
    "dotprod": (
        ("aarch64-linux-gnu-gcc", "-march=armv8.2-a+dotprod", "-static"),
        ("qemu-aarch64",),
    ),
    # The C library is built for the processor by this name: other tests share it.
    "bf16": (
        (*ZIG, "-mcpu=generic", "-Xclang", "-target-feature", "-Xclang", "+bf16", "-static"),
        ("qemu-aarch64", "-cpu", "max"),
    ),
    "sse2": (("gcc", "-msse2"), ()),
    "avx2": (("gcc", "-mavx2"), ()),
    "avx512f": (("gcc", "-march=x86-64-v4"), ()),
    "avx512_vnni": (("gcc", "-march=x86-64-v4", "-mavx512vnni"), ()),
    "avx512_bf16": (("gcc", "-march=x86-64-v4", "-mavx512bf16"), ()),
    "amx_bf16": (("gcc", "-mamx-tile", "-mamx-bf16"), ()),
}
"""How each feature's instructions are built and run."""


def mve(end: str, p: int, s: int, i: int, r: int, k: int, n: int, o: int, g: int) -> str:
    """A convolution for Helium: positions, step; rows, row, run; channels, step; a group."""
    sizes = (p, s, s * (p - 1) + k, i, r, k, -(-k // 16), n, o, -(-n // g), g, n % g, r * (i > 1))
    return member(f"mve_{end}", *sizes, *(n % 2,) * (end == "i32"))


WINDOWS = (
    (4, 16, 3, 96, 48, 8, 8, 4),  # three rows of whole vectors
    (5, 3, 3, 24, 9, 6, 7, 4),  # parts of vectors, of groups and of pairs
    (2, 160, 1, 320, 160, 5, 131, 4),  # positions far from each other
    (3, 20, 9, 200, 40, 4, 70, 4),  # rows in a loop
    (2, 8, 2, 450, 416, 4, 4, 4),  # vectors in a loop, too
    (1, 40, 1, 40, 40, 11, 11, 8),
    (2, 500, 1, 1000, 500, 8, 9, 8),
)
PLANES = (
    # rows, columns, row and column of outputs; planes; windows and their steps
    (4, 6, 40, 5, 6, 8, 3, 3, 1, 1),
    (3, 5, 40, 5, 5, 7, 3, 3, 1, 1),
    (2, 4, 30, 4, 5, 9, 3, 3, 2, 2),
    (3, 3, 30, 4, 7, 7, 3, 3, 2, 2),
    (5, 2, 30, 4, 5, 4, 1, 3, 1, 1),
)
MEMBERS = (
    *(member("dual_2x2", quads, 3) for quads in (1, 5, 24)),
    *(member("dual_1x4", quads, 3) for quads in (1, 8, 19)),
    *(member("dual_4x1", quads, 2) for quads in (1, 11)),
    *(member("dual_4x1b", quads, 2) for quads in (1, 6)),
    *(
        member("bytes_2x2", q, 3, 4 * q + 10, 8, int(q > 16), b)
        for q, b in ((1, 0), (16, 1), (21, 0))
    ),
    *(member("bytes_1x4", q, 3, q + 4, 6, b) for q, b in ((1, 0), (8, 1), (19, 0))),
    *(member("bytes_4x1", q, 2, 8 * q + 16, b) for q, b in ((1, 0), (11, 1))),
    *(member("bytes_4x1b", q, 2, 4 * q + 16, b) for q, b in ((4, 0), (6, 1))),
    *(member("spread", 1, q, r, q + (r > 0), 4 * q + r) for q in (0, 5) for r in (1, 2, 3)),
    *(member("spread", places, 9, 0, 9, 36) for places in (1, 2, 4)),
    *(member("depth", rows, 2, 24, 8) for rows in (1, 2, 3, 5)),
    *(member("planes", 3, n, 40, 12, rows, 60, 8, t, 228) for n, rows, t in ((5, 4, 1), (2, 6, 0))),
    *(
        member("depth_s1", n, w, (w + 1) // 2, 3, n + 2, 8, 60, b)
        for n, w, b in ((4, 4, 0), (5, 3, 1))
    ),
    *(member("depth_s2", n, w, 3, 2 * n + 1, 8, 60, b) for n, w, b in ((4, 2, 1), (6, 1, 0))),
    *(member("add_i8", n, s, e, b) for n, s, e, b in ((1, 20, 17, 0), (11, 21, 18, 1))),
    member("patch", 2, 3, 2, 1, 7, 1, 4, 15, 40, 6),
    member("patch", 4, 1, 2, 0, 2, 0, 4, 32, 40, 8),
    member("patch_row", 2, 4, 0, 4, 32, 16),
    member("patch_row", 4, 1, 2, 2, 24, 6),
    member("patch", 1, 5, 0, 3, 4, 4, 16, 3, 11, 0),
    member("copy", 5, 12),
    *(mve("i32", *sizes) for sizes in WINDOWS),
    *(mve(end, *WINDOWS[at]) for end, at in (("sums", 1), ("f32", 1), ("f32", 6))),
    member("mve_planes", 16, 3, 7, 40, 8, 130, 18, 0),
    member("mve_planes", 11, 2, 4, 40, 8, 640, 150, 3),
    *(member("mve_add", 2, n, n, n, n, 0) for n in (4, 7)),
    member("mve_add", 2, 7, 9, 20, 11, 1),
    member("mve_lookup", 2, 7, 9, 20),
    member("mve_lookup", 2, 18, 18, 18),
    member("mve_add_f32", 2, 7, 9, 20, 11),
    *(member("mve_depth_i32", 3, *sizes, at % 2) for at, sizes in enumerate(PLANES)),
    member("mve_depth_f32", 3, *PLANES[1]),
    member("mve_pool_sum", 11, 16, 3, 17, 340, 20),
    member("mve_pool_sum", 8, 8, 2, 3, 390, 130),
    member("mve_pool_max", 19, 2, 3, 60, 20),
    member("mve_copy", 40),
    member("mve_clear", 2, 3, 7, 1),
    member("mve_fill", 5, 200),
    *(member("mve_patch", 3, 6, 12 + k, 3, 50, k, 3 * k, 9 * k) for k in (4, 9)),
    *(member("turn_pairs", d, w) for d, w in ((16, 32), (11, 16), (1, 32))),
    *(member("weave_pairs", n) for n in (16, 9, 1)),
    member("winograd_in", 2, 56, 8),
    *(member("winograd_2x4", q, h, 64 * q + 8, 12, 60, b) for q, h, b in ((1, 2, 0), (3, 1, 1))),
    member("winograd_out", 5),
    member("ldtilecfg", 14, 13, 16, 64, 32),
    member("ldtilecfg", 9, 0, 15, 32, 0),
    member("tdpbf16ps", 5, 3, 6, 0, 18, 20, 16, 320, 40, 2, 2, 4, 8, 50, 90, 24, 1, 4),
    *(member("scale_f32", count) for count in (1, 10)),
    *(member("scale_i32", count, d, b) for count in (1, 6) for d in (1, 2) for b in (0, 1)),
)
"""Members of every family: loops that end in each of their ways."""
NAMES = sorted([*instructions(), *MEMBERS])
ALONE = [name for name in NAMES if instruction(name).needs != "amx_bf16"]
"""Those that can run alone; of tiles several run together, in ``test_tiles.py``."""


def steps(operand: Buffer) -> tuple[int, ...] | None:
    """Strides of an operand's copies side by side, where it is not packed."""
    if operand.strides is None:
        return None
    reach = (extent - 1 for extent in operand.shape)
    return 1 + sum(a * b for a, b in zip(reach, operand.steps, strict=True)), *operand.steps


def repeated(name: str) -> Kernel:
    """``TRIALS`` uses of an instruction, each on operands of its own."""
    meaning = instruction(name).meaning
    params = tuple(
        Buffer(each.name, each.dtype, (TRIALS, *each.shape), each.access, steps(each))
        for each in meaning.params
    )
    operands = tuple(
        Load(each.name, (Var("t"), *(index(0) for _ in each.shape)), each.dtype)
        for each in meaning.params
    )
    loop = For("t", index(0), index(TRIALS), (Instruct(name, operands),))
    return Kernel("trials", params, (loop,))


def drawn(buffer: Buffer) -> np.ndarray:
    """Random elements, the first ones extreme; no sum of floats becomes a subnormal number."""
    rng = np.random.default_rng(3)
    if buffer.strides is not None:
        memory = Buffer(buffer.name, buffer.dtype, (TRIALS, buffer.strides[0]), buffer.access)
        return drawn(memory).ravel()
    if buffer.dtype.is_float:
        values = rng.choice([-1.0, 1.0], buffer.shape) * rng.uniform(0.5, 100, buffer.shape)
        ties = np.array([0.5, 1.5, -2.5, 3e9, -3e9, 2147483520.0])
        values[: len(ties)] = ties.reshape(-1, *(1 for _ in buffer.shape[1:]))
        return values.astype(buffer.dtype.numpy)
    low, high = buffer.dtype.limits
    values = rng.integers(low, high, buffer.shape, buffer.dtype.numpy, endpoint=True)
    values[:2], values[2:4] = low, high
    values[4] = 0
    if buffer.name == "tiles":  # are configured
        values[..., 0] = 1
    if buffer.name == "factors":  # a multiplier, a term, and a shift
        values[..., 2] &= 31
        if buffer.shape[-2:-1] == (4,):  # of Helium: the shift to the left is last
            values[..., 3, :] &= 31
    if buffer.name == "numbers":
        values[..., 3] &= 31
    if buffer.name == "stream":  # with shifts at its end
        values[..., -1::-3] &= 31
    return values // (1 << 24) if buffer.name == "zero" else values


def program(kernel: Kernel, arrays: dict[str, np.ndarray], flavour: str) -> str:
    """C that prints the bytes of the destination."""
    dialect = flavour_named(flavour)
    function = kernel_function(kernel, dialect, name="trials")
    body = "\n".join([function.signature, *function.body])
    called = kernel.body[0]
    assert isinstance(called, For)
    (stmt,) = called.body
    assert isinstance(stmt, Instruct)
    helpers = "\n".join(helper_texts([f"weft_instr_{stmt.name}"], dialect))
    data = [
        f"static {STORAGE[each.dtype]} {each.name}[] = {{{_numbers(arrays[each.name])}}};"
        for each in kernel.params
    ]
    names = ", ".join(each.name for each in kernel.params)
    first = kernel.params[0].name
    return "\n".join(
        [
            "#include <stdint.h>",
            "#include <stdio.h>",
            "#include <string.h>",
            *vector_types(set(re.findall(r"\w+", helpers + body))),
            helpers,
            body,
            *data,
            "int main(void) {",
            "    unsigned i;",
            f"    trials({names});",
            f"    for (i = 0; i < sizeof {first}; ++i) {{",
            f'        printf("%02x", ((unsigned char *){first})[i]);',
            "    }",
            "    return 0;",
            "}",
        ]
    )


def _numbers(array: np.ndarray) -> str:
    if DType.of(array.dtype) is DType.BF16:
        array = array.view(np.uint16)
    last = "u" if array.dtype == np.uint32 else ""
    texts = (f"{each!r}f" if array.dtype.kind == "f" else f"{each}{last}" for each in _flat(array))
    return ", ".join(each.replace("-9223372036854775808", "INT64_MIN") for each in texts)


def _flat(array: np.ndarray) -> list[float]:
    return array.ravel().tolist()


def printed(source: str, compiler: Sequence[str], runner: Sequence[str], folder: Path) -> str:
    """What a program prints."""
    text, binary = folder / "trials.c", folder / "trials"
    text.write_text(source)
    # In its folder: zig builds a C library anew for a folder that zig itself lies in.
    line = [*compiler, "-O2", "-o", str(binary), str(text), "-lm"]
    subprocess.run(line, check=True, cwd=folder)
    done = subprocess.run([*runner, str(binary)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def expected(kernel: Kernel, arrays: dict[str, np.ndarray]) -> str:
    """The bytes of the destination by the interpreter."""
    mine = {name: array.copy() for name, array in arrays.items()}
    run(kernel, mine)
    return mine[kernel.params[0].name].tobytes().hex()


def test_every_family_has_members() -> None:
    for family in families():
        assert any(name == member(family, *instruction(name).sizes) for name in MEMBERS), family


@pytest.mark.parametrize("name", NAMES)
def test_row_is_short_and_sound(name: str) -> None:
    row = instruction(name)
    verify(row.meaning)
    verify(repeated(name))
    assert parse(show(repeated(name))) == repeated(name)
    assert row.meaning.params[0].access is Access.WRITE
    assert row.needs in MACHINES


@pytest.mark.parametrize(
    ("name", "flavour"), in_turn([(name,) for name in NAMES], ["c89", "c99", "gnu"], every=2)
)
def test_portable_body(name: str, flavour: str, tmp_path: Path) -> None:
    kernel = repeated(name)
    arrays = {each.name: drawn(each) for each in kernel.params}
    found = printed(
        program(kernel, arrays, flavour), ("gcc", "-w", "-ffp-contract=off"), (), tmp_path
    )
    assert found == expected(kernel, arrays)


def test_rows_of_whole_fours_leave_no_variable_unused(tmp_path: Path) -> None:
    kernel = repeated(member("patch_row", 2, 4, 0, 4, 32, 16))
    arrays = {each.name: drawn(each) for each in kernel.params}
    strict = ("gcc", "-Wall", "-Wextra", "-Werror")
    found = printed(program(kernel, arrays, "c99"), strict, (), tmp_path)
    assert found == expected(kernel, arrays)


def built(name: str) -> object:
    """An instruction; zig builds a C library first, which takes a minute where none is cached."""
    zig = MACHINES[instruction(name).needs][0][0] == sys.executable
    return pytest.param(name, marks=[pytest.mark.thorough] if zig else [])


@pytest.mark.parametrize("name", a_few([built(name) for name in ALONE], len(ALONE) // 2))
def test_instruction_itself(name: str, tmp_path: Path) -> None:
    row = instruction(name)
    compiler, runner = MACHINES[row.needs]
    if not runner and row.needs not in {*features(), *cpu_flags()}:
        pytest.skip(f"this machine has no {row.needs}")
    for tool in (compiler[0], *runner[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if compiler[0] == sys.executable and find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    kernel = repeated(name)
    arrays = {each.name: drawn(each) for each in kernel.params}
    source = program(kernel, arrays, "gnu")
    needed = f"#if !({row.when})\n#error the compiler has it not\n#endif\n"
    assert printed(needed + source, (*compiler, "-w"), runner, tmp_path) == expected(kernel, arrays)
