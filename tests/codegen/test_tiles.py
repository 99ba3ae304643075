"""AMX's tiles: the intrinsics over a model of the instructions give the bits of the meaning.

Compilers translate the intrinsics themselves, and what runs is the same C with ``amx_model.h`` in
their place, which aborts where an instruction would raise an exception and where tiles are not
released. Where the processor has AMX one test runs the instructions themselves.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.batch import POISON, Trial, run
from weft.codegen.emit import emit
from weft.dtypes import DType
from weft.loops.instruction import instruction, member
from weft.loops.interpret import run as interpret
from weft.loops.nodes import Access, Buffer, Instruct, Kernel, Load, Local
from weft.loops.verify import verify
from weft.loops.walk import index
from weft.plan.program import Address, CallStep, Port, Program, Region

MODEL = Path(__file__).with_name("amx_model.h")
REAL = ("-march=x86-64-v4", "-mamx-tile", "-mamx-bf16")
MODELLED = (*REAL[1:], "-DWEFT_TILES=1", "-include", str(MODEL))
TILES = Load("tiles", (index(0),), DType.U8)


def sizes(
    m: int,
    a: int,
    n: int,
    rows: int,
    steps: int,
    pairs: int,
    apart: bool,
    split: bool = False,
    ahead: int = 0,
) -> list[int]:
    """Of a product: positions side by side, or the second tile's in the next row.

    The weights of two tiles of channels lie side by side, or apart; each step may fetch rows.
    """
    step = 2 * steps * pairs
    across, down = (0, 1) if apart else (a * step, 0)
    read = step * a if apart or m == a else step * m
    count, pitch, first = steps * pairs, read + 6, min(n, 16)
    pair = 2 * (first if split else n)
    length = (rows - 1 + down) * pitch + read
    fetched = max(1, ahead * rows * steps)
    found = [m, a, step, down, across, n, first, count * pair, pair, rows, steps, pairs, count]
    return [*found, pitch, length, n, ahead, fetched]


CASES = {
    "whole": sizes(32, 16, 32, 1, 3, 16, apart=False, split=True, ahead=3),
    "rows": sizes(28, 14, 32, 3, 1, 16, apart=True, split=True),
    "one tile of positions": sizes(11, 11, 32, 1, 2, 16, apart=False, ahead=16),
    "one tile of channels": sizes(27, 14, 12, 1, 1, 15, apart=False, ahead=1),
    "one of each": sizes(2, 2, 16, 1, 2, 5, apart=False),
    "parts of tiles": sizes(25, 13, 28, 2, 2, 9, apart=True, ahead=5),
    "sums apart": sizes(20, 10, 32, 1, 1, 16, apart=False),
}
CASES["sums apart"][-3] = 45


def kernel(values: list[int], *, configured: bool = True, released: bool = True) -> Kernel:
    """One product of tiles."""
    m, a, _, _, _, n, _, _, _, _, _, pairs, *_ = values
    config = [a, m - a, pairs, 4 * min(n, 16), 4 * max(0, n - 16)]
    product = member("tdpbf16ps", *values)
    params = instruction(product).meaning.params[:-1]
    operands = [Load(each.name, (index(0),) * len(each.shape), each.dtype) for each in params]
    body = [Instruct(product, (*operands, TILES))]
    if configured:
        body.insert(0, Instruct(member("ldtilecfg", *config), (TILES,)))
    if released:
        body.append(Instruct("tilerelease", (TILES,)))
    tiles = Buffer("tiles", DType.U8, (64,), Access.LOCAL)
    sums, *read = params
    return Kernel("product", (*read, sums), (Local(tiles, tuple(body)),))


def drawn(buffer: Buffer) -> np.ndarray:
    """Random numbers, among them large and small ones."""
    random = np.random.default_rng(5)
    size = 1 + sum((e - 1) * step for e, step in zip(buffer.shape, buffer.steps, strict=True))
    scale = np.exp2(random.integers(-20, 20, size))
    return (random.standard_normal(size) * scale).astype(DType.BF16.numpy)


def trial(values: list[int]) -> tuple[Trial, np.ndarray]:
    """A product, and what it must give."""
    made = kernel(values)
    verify(made)
    arrays = {each.name: drawn(each) for each in made.params[:-1]}
    size = (values[0] - 1) * values[-3] + values[5]
    wanted = np.full(4 * size, POISON, np.uint8).view(np.float32)
    interpret(made, {**arrays, "sums": wanted})
    assert np.isfinite(wanted).all()
    return Trial(str(values), made, tuple(arrays.values())), wanted


def test_intrinsics_give_the_bits_of_the_meaning(tmp_path: Path) -> None:
    trials = [trial(values) for values in CASES.values()]
    flags = ("-O2", "-ffp-contract=off", "-fsanitize=address,undefined", *MODELLED)
    found = run([each for each, _ in trials], tmp_path, ("gcc",), flags)
    for got, (_, wanted) in zip(found, trials, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_without_the_systems_permission_the_meaning_is_computed(tmp_path: Path) -> None:
    """The instructions are there, but this process was not given tiles."""
    made, wanted = trial(CASES["parts of tiles"])
    (got,) = run([made], tmp_path, ("gcc",), ("-O2", *REAL, "-DWEFT_TILES=0"))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("without", "rule"),
    [("configured", "no tiles are configured"), ("released", "the tiles were not released")],
)
def test_the_model_notices(without: str, rule: str, tmp_path: Path) -> None:
    made = kernel(CASES["one of each"], **{without: False})
    arrays = tuple(drawn(each) for each in made.params[:-1])
    with pytest.raises(AssertionError, match=rule):
        run([Trial(without, made, arrays)], tmp_path, ("gcc",), ("-O2", *MODELLED))


def test_a_process_that_was_refused_tiles_never_uses_them(tmp_path: Path) -> None:
    """Asked as generated C asks; on machines with AMX it is given them."""
    made, wanted = trial(CASES["whole"])
    (got,) = run([made], tmp_path, ("gcc",), ("-O2", "-mamx-tile", "-mamx-bf16"))
    np.testing.assert_array_equal(got, wanted)


def translated(compiler: tuple[str, ...], flags: tuple[str, ...], folder: Path) -> str:
    """The assembly of a product, its warnings errors."""
    made = kernel(CASES["whole"])
    ports = [Port(each.name, each.dtype, each.shape) for each in made.params]
    regions = (*(Region.INPUT for _ in ports[:-1]), Region.OUTPUT)
    places = zip(regions, ports, strict=True)
    step = CallStep(made.name, tuple(Address(r, p.name, 0) for r, p in places), ("product",))
    files = emit(Program("one", (*ports[:-1],), (ports[-1],), (made,), (step,), {}, 0), "gnu")
    for name, text in (files.header, *files.sources):
        (folder / name).write_text(text)
    (source,) = (name for name, _ in files.sources)
    strict = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow")
    strict += ("-Wno-unused-command-line-argument",) * (compiler[0] != "gcc")
    command = [*compiler, *strict, *flags, "-S", "-o", "made.s", source]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "made.s").read_text()


@pytest.mark.parametrize("compiler", ["gcc", "clang", pytest.param("zig", marks=pytest.mark.slow)])
def test_compilers_know_the_instructions(compiler: str, tmp_path: Path) -> None:
    if compiler == "zig" and find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    if compiler != "zig" and shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = (sys.executable, "-m", "ziglang", "cc") if compiler == "zig" else (compiler,)
    march = ("-march=x86_64_v4", *REAL[1:]) if compiler == "zig" else REAL
    text = translated(command, march, tmp_path)
    least = {"ldtilecfg": 1, "tileloadd": 4, "tdpbf16ps": 4, "tilestored": 4, "tilerelease": 1}
    assert all(text.count(f"\t{name}") >= count for name, count in least.items())
