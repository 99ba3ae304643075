"""Whole programs as C: interface, addresses, aliases, parts, and that nothing is left to chance."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.codegen.harness import STANDARDS, STRICT, Case, check, program_of, write
from tests.turns import in_turn
from weft.codegen.emit import emit
from weft.codegen.flavours import FLAVOURS
from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Local,
    LoopKind,
    Store,
    Var,
)
from weft.loops.walk import index as number
from weft.plan.program import (
    Address,
    Advance,
    CallStep,
    ExternFunction,
    FormalParameter,
    Port,
    Program,
    Region,
    Repeat,
)
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.compiler import find_compiler

I64, F32 = DType.I64, DType.F32


def sum_kernel(size: int = 4) -> Kernel:
    """``y[i] = x[i] + z[i]``."""
    at: tuple[Expr, ...] = (Var("i"),)
    value = Binary("add", Load("x", at, F32), Load("z", at, F32))
    loop = For("i", number(0), number(size), (Store("y", at, value),))
    params = (*(Buffer(n, F32, (size,)) for n in "xz"), Buffer("y", F32, (size,), Access.WRITE))
    return Kernel("sum", params, (loop,))


COUNT = ExternFunction(
    "count_above",
    (
        FormalParameter("in0", F32, writes=False),
        FormalParameter("out0", I64, writes=True),
        FormalParameter("scratch", DType.U8, writes=True),
    ),
    "int i;\nout0[0] = 0;\nfor (i = 0; i < 4; ++i) {\n    out0[0] += in0[i] > 1.0f;\n}\n",
)


def program() -> Program:
    """A scan that adds three rows to a state, and counts what is above one."""
    state = Address(Region.ARENA, "", 0)
    row = Address(Region.INPUT, "the rows/x*/", 0, (Advance("t", 16),))
    history = Address(Region.OUTPUT, "int", 32, (Advance("t", -16),))
    start = CallStep(
        "sum",
        (Address(Region.WEIGHTS, "a.b"), Address(Region.WEIGHTS, "a b", 16), state),
        ("Add a 4, from */ node /add",),
    )
    body = (
        CallStep("sum", (state, row, state)),
        CallStep("sum", (state, Address(Region.WEIGHTS, "a.b"), history)),
    )
    scratch = Address(Region.ARENA, "", 64)
    last = CallStep("count_above", (state, Address(Region.OUTPUT, "count"), scratch))
    return Program(
        "scan",
        (Port("the rows/x*/", F32, (3, 4)),),
        (Port("int", F32, (3, 4)), Port("count", I64, ())),
        (sum_kernel(), COUNT),
        (start, Repeat("t", 3, body, ("three steps",)), last),
        {
            "a.b": np.array([0, 0.25, -0.0, -1], np.float32),
            "a b": np.array([9, 9, 9, 9, 1, 2, 3, 4], np.float32),
            "unused": np.zeros(5, np.float32),
        },
        128,
        function_comments=(("sum", ("Add f32[4]",)),),
        title=("scan of tests",),
    )


def expected(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the program computes."""
    net = program()
    state = net.weights["a.b"] + net.weights["a b"][4:]
    history = np.zeros((3, 4), np.float32)
    for step, row in enumerate(rows):
        state = state + row
        history[2 - step] = state + net.weights["a.b"]
    return history, np.array((state > 1).sum(), np.int64)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_scan(flavour: str, tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    history, count = build(program(), flavour, cache=Cache(tmp_path))(rows)
    wanted = expected(rows)
    assert np.array_equal(history, wanted[0])
    assert np.array_equal(count, wanted[1])


@pytest.mark.parametrize(
    ("flavour", "weights", "parts"), in_turn(product(FLAVOURS, ["arrays", "blob"]), [1, 2, 0])
)
def test_compiles_without_warnings(flavour: str, weights: str, parts: int, tmp_path: Path) -> None:
    files = emit(program(), flavour, weights, parts)
    sources = write(files, tmp_path)
    compilers = [find_compiler().command]
    compilers += [(name,) for name in ("gcc", "clang-19", "clang") if shutil.which(name)]
    for command in dict.fromkeys(compilers):
        for source in sources:
            flags = [f"-std={STANDARDS[flavour]}", *STRICT, "-Wno-long-long", "-O2"]
            output = tmp_path / "out.o"
            done = subprocess.run(
                [*command, *flags, "-c", str(source), "-o", str(output)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr


def test_header_is_cplusplus_too(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    write(emit(program(), "c99"), tmp_path)
    main = tmp_path / "main.cc"
    main.write_text(
        '#include "scan.h"\n'
        "int main() { return scan_run(0, 0, 0, 0) == SCAN_NULL_POINTER ? 0 : 1; }\n"
    )
    flags = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, str(main)], check=True)


def test_what_is_public(tmp_path: Path) -> None:
    files = emit(program(), "c99")
    header = files.header[1]
    assert "int scan_run(const float *the_rows_x, float *int_, int64_t *count, void *arena);" in (
        header.replace("\n        ", " ")
    )
    assert "#define SCAN_ARENA_BYTES 128 " in header
    assert "#define SCAN_ARENA_ALIGNMENT 64 " in header
    assert (
        "/* Stack that one run takes, in bytes; an estimate for any compiler.\n"
        " * `make stack` measures it; -DSCAN_STACK_BYTES=N replaces it.\n"
        " */\n"
        f"#ifndef SCAN_STACK_BYTES\n#define SCAN_STACK_BYTES {files.stack_bytes}\n#endif\n"
    ) in header
    (source,) = write(files, tmp_path)
    compiler = find_compiler()
    target = tmp_path / "scan.o"
    command = [*compiler.command, "-std=c99", "-O1", "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    if shutil.which("nm"):
        done = subprocess.run(["nm", "-g", "--defined-only", str(target)], capture_output=True)
        names = [line.split()[-1] for line in done.stdout.decode().splitlines()]
        assert names == ["scan_run"]


def test_codes(tmp_path: Path) -> None:
    library = build(program(), cache=Cache(tmp_path))
    function = ctypes.CDLL(str(library.path))["scan_run"]
    function.argtypes = [ctypes.c_void_p] * 5
    memory = np.zeros(4096, np.uint8)
    base = memory.ctypes.data + -memory.ctypes.data % 64
    good = [base, base + 1024, base + 2048, base + 3072, base + 512]
    assert function(*good) == 0
    for place in range(5):
        assert function(*good[:place], None, *good[place + 1 :]) == -1
        assert function(*good[:place], good[place] + 2, *good[place + 1 :]) == -2


def test_aliased_parameters_are_not_restrict() -> None:
    (_, text), *_ = emit(program(), "c99").sources
    flat = " ".join(text.split())
    assert "static WEFT_APART void sum(const float *x, const float *restrict z, float *y)" in flat


def test_comments() -> None:
    (_, text), *_ = emit(program(), "c99").sources
    assert "/* scan of tests\n * Generated by Weft. Do not edit.\n */" in text
    assert (
        "/* Add f32[4]\n * sum(x f32[4], z f32[4], out y f32[4])\n */\nstatic WEFT_APART void sum("
        in text
    )
    assert (
        "    /* Add a 4, from * / node /add\n     * x: weights a.b; z: weights a b 16..32;" in text
    )
    assert "/* x: arena 0..16; z: input the rows/x* / 0..16 + 16*t; y: arena 0..16 */" in text
    assert "z: weights a.b; y: output int 32..48 - 16*t */" in text
    assert "unused" not in text


def test_weights_read_back(tmp_path: Path) -> None:
    values = np.array([0.1, 1e-45, 3.4028235e38, -0.0, np.inf, -np.inf, 1 / 3, 16777217, 1e10])
    arrays = {
        "f": values.astype(np.float32),
        "d": np.array([0.1, 5e-324, 1.7976931348623157e308, -0.0, np.inf, 1 / 3]),
        "h": np.array([0.1, 6e-8, 65504, np.nan], np.float16),
        "i": np.array([-(2**63), 2**63 - 1, -(2**31), 2**40, -5], np.int64),
        "u": np.array([2**64 - 1, 2**63, 1], np.uint64),
        "b": np.array([-128, 127], np.int8),
        "t": np.array([True, False]),
    }
    functions: list[Kernel] = []
    steps: list[CallStep] = []
    ports: list[Port] = []
    for name, array in arrays.items():
        dtype, size = DType.of(array.dtype), len(array)
        at = (Var("i"),)
        store = Store("y", at, Load("x", at, dtype))
        params = (Buffer("x", dtype, (size,)), Buffer("y", dtype, (size,), Access.WRITE))
        functions.append(
            Kernel(f"copy_{name}", params, (For("i", number(0), number(size), (store,)),))
        )
        ports.append(Port(name, dtype, (size,)))
        addresses = (Address(Region.WEIGHTS, name), Address(Region.OUTPUT, name))
        steps.append(CallStep(f"copy_{name}", addresses))
    copies = Program("copies", (), tuple(ports), tuple(functions), tuple(steps), arrays, 0)
    for flavour in ("c89", "c99"):
        sources = write(emit(copies, flavour), tmp_path / flavour)
        target = tmp_path / f"{flavour}.so"
        command = [*find_compiler().command, f"-std={flavour}", *STRICT, "-Wno-long-long"]
        subprocess.run(
            [*command, "-fPIC", "-shared", str(sources[0]), "-o", str(target), "-lm"], check=True
        )
        outputs = [np.zeros_like(array) for array in arrays.values()]
        function = ctypes.CDLL(str(target))["copies_run"]
        function.argtypes = [ctypes.c_void_p] * (len(outputs) + 1)
        assert function(*(each.ctypes.data for each in outputs), None) == 0
        for name, got in zip(arrays, outputs, strict=True):
            assert got.tobytes() == arrays[name].tobytes(), name


def test_names_do_not_collide() -> None:
    ports = tuple(Port(name, F32, (4,)) for name in ("x", "x ", "arena", "sum"))
    outputs = (Port("while", F32, (4,)), Port("3d", F32, (4,)))
    steps = tuple(
        CallStep(
            "sum",
            (
                Address(Region.INPUT, left),
                Address(Region.INPUT, right),
                Address(Region.OUTPUT, out),
            ),
        )
        for left, right, out in (("x", "x ", "while"), ("arena", "sum", "3d"))
    )
    net = Program("net", ports, outputs, (sum_kernel(),), steps, {}, 0)
    names = [each.name for each in emit(net).interface.ports]
    assert names == ["x", "x_2", "arena_2", "sum_2", "while_", "v3d"]


def test_a_local_may_shadow_a_parameter_name(tmp_path: Path) -> None:
    at: tuple[Expr, ...] = (Var("x"),)
    inner = Store("y", at, Load("i", (), F32))
    local = Local(Buffer("i", F32, (), Access.LOCAL), (Store("i", (), Load("x", at, F32)), inner))
    loop = For("x", number(0), number(4), (local,))
    params = (Buffer("x", F32, (4,)), Buffer("y", F32, (4,), Access.WRITE))
    step = CallStep("copy", (Address(Region.INPUT, "a"), Address(Region.OUTPUT, "b")))
    net = Program(
        "net",
        (Port("a", F32, (4,)),),
        (Port("b", F32, (4,)),),
        (Kernel("copy", params, (loop,)),),
        (step,),
        {},
        0,
    )
    for flavour in FLAVOURS:
        library = build(
            net,
            flavour,
            cache=Cache(tmp_path),
            flags=[f"-std={STANDARDS[flavour]}", *STRICT],
        )
        x = np.arange(4, dtype=np.float32)
        assert np.array_equal(library(x)[0], x)


def tile_kernel() -> Kernel:
    """A register tile of 4 x 2 vectors of 8 lanes."""

    def over(var: str, extent: int, body: tuple, kind: LoopKind) -> tuple:
        return (For(var, number(0), number(extent), body, kind),)

    def each(stmt: Store) -> tuple:
        lanes = over("v", 8, (stmt,), LoopKind.VECTOR)
        return over("p", 4, over("b", 2, lanes, LoopKind.UNROLL), LoopKind.UNROLL)

    at: tuple[Expr, ...] = (Var("p"), Var("b"), Var("v"))
    product = Binary(
        "mul", Load("x", (Var("k"), Var("p")), F32), Load("w", (Var("k"), *at[1:]), F32)
    )
    body = (
        *each(Store("acc", at, Const(0.0, F32))),
        *over(
            "k",
            16,
            each(Store("acc", at, Binary("add", Load("acc", at, F32), product))),
            LoopKind.SERIAL,
        ),
        *each(Store("y", at, Binary("max", Load("acc", at, F32), Const(0.0, F32)))),
    )
    params = (
        Buffer("x", F32, (16, 4)),
        Buffer("w", F32, (16, 2, 8)),
        Buffer("y", F32, (4, 2, 8), Access.WRITE),
    )
    return Kernel("tile", params, (Local(Buffer("acc", F32, (4, 2, 8), Access.LOCAL), body),))


def tile_program() -> Program:
    """One call of the tile."""
    step = CallStep(
        "tile",
        (Address(Region.INPUT, "x"), Address(Region.INPUT, "w"), Address(Region.OUTPUT, "y")),
    )
    return Program(
        "net",
        (Port("x", F32, (16, 4)), Port("w", F32, (16, 2, 8))),
        (Port("y", F32, (4, 2, 8)),),
        (tile_kernel(),),
        (step,),
        {},
        0,
    )


def test_register_tiles_are_named_vectors() -> None:
    (_, text), *_ = emit(tile_program(), "gnu").sources
    assert "v8f32 acc_0_0 = (v8f32){0};" in text
    assert "v8f32 w_1 = *(const v8f32_mem *)(w_at + 8);" in text
    assert "weft_keep_v8f32(w_1);" in text
    assert "acc_3_1 += x_at[3] * w_1;" in text
    assert text.count('__asm__ volatile("" ::: "memory");') == 1
    assert "*(v8f32_mem *)(y + 56) = weft_max_v8f32(acc_3_1, (v8f32){0});" in text
    (_, plain), *_ = emit(tile_program(), "c99").sources
    assert "float acc_0_0[8], acc_0_1[8]," in plain
    assert "__asm__" not in plain
    assert "acc_3_1[v] += x[k * 4 + 3] * w[k * 16 + v + 8];" in plain


@pytest.mark.parametrize("processor", ["x86-64-v3", "haswell", "znver2"])
def test_vectors_of_a_tile_are_read_once(processor: str, tmp_path: Path) -> None:
    """4 positions of 3 vectors, the weights and a scalar take all 16 registers of AVX2."""
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    weights = np.ones((72, 256), np.float32)
    net = weft.trace(weft.layers.Linear(72, weight=weights, bias=False), "f32[128,256]")
    files = net.source("x86-avx2", name="net", threads=1)
    for name, text in [files.header, *files.private, *files.sources]:
        (tmp_path / name).write_text(text)
    assert any("acc2_3 +=" in text for _, text in files.sources)
    loops: list[str] = []
    for name, _ in files.sources:
        command = ["gcc", "-O2", f"-march={processor}", "-S", "-o", "-", name]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        loops += re.split(r"\n\.L\d+:", done.stdout)
    sums = [loop for loop in loops if loop.count("vfmadd") == 12]
    assert sums
    for loop in sums:
        assert not re.search(r"vfmadd\w+\t[^\n]*\(", loop), loop


def doubling(size: int, *, backwards: bool = True) -> Program:
    """One call that doubles an input of so many numbers."""
    i = Var("i")
    at = (Binary("sub", number(size - 1), i) if backwards else i,)
    double = Store("y", at, Binary("mul", Load("x", at, F32), Const(2.0, F32)))
    loop = For("i", Const(0, DType.I64), Const(size, DType.I64), (double,))
    params = (Buffer("x", F32, (size,)), Buffer("y", F32, (size,), Access.WRITE))
    step = CallStep("double", (Address(Region.INPUT, "x"), Address(Region.OUTPUT, "y")))
    ports = (Port("x", F32, (size,)),), (Port("y", F32, (size,)),)
    return Program("net", *ports, (Kernel("double", params, (loop,)),), (step,), {}, 0)


@pytest.mark.parametrize(("size", "fetched"), [(1000, False), (10_001, True), (300_000, False)])
def test_inputs_that_fit_the_second_cache_are_fetched(
    size: int, fetched: bool, tmp_path: Path
) -> None:
    net = doubling(size)
    (_, text), *_ = emit(net, "gnu").sources
    assert (f"    weft_fetch(x, {4 * size});\n" in text) == fetched
    (_, plain), *_ = emit(net, "c99").sources
    assert "weft_fetch" not in plain
    x = np.arange(size, dtype=np.float32)
    (y,) = build(net, "gnu", cache=Cache(tmp_path))(x)
    np.testing.assert_array_equal(y, 2 * x)


def test_inputs_that_are_read_as_they_lie_are_not_fetched() -> None:
    (_, text), *_ = emit(doubling(10_001, backwards=False), "gnu").sources
    assert "weft_fetch" not in text


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_tile(flavour: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(16, 4)).astype(np.float32)
    w = random.normal(size=(16, 2, 8)).astype(np.float32)
    (y,) = build(tile_program(), flavour, cache=Cache(tmp_path))(x, w)
    wanted = np.maximum(np.einsum("kp,kbv->pbv", x.astype(np.float64), w.astype(np.float64)), 0)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


_PRINT = """
import sys
sys.path.insert(0, ".")
from tests.codegen.test_emit import program, tile_program
from weft.codegen.emit import emit
for net in (program(), tile_program()):
    for flavour in ("c89", "c99", "gnu"):
        for parts in (0, 1, 2):
            files = emit(net, flavour, parts=parts)
            print(files.header, files.sources, files.private)
"""


def test_text_does_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    texts = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            capture_output=True,
            check=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "12345")
    }
    assert len(texts) == 1
    assert len(texts.pop()) > 1000


def test_unknown_flavour() -> None:
    with pytest.raises(UserError) as error:
        emit(program(), "fortran")
    assert str(error.value) == "the flavour of C must be one of c89, c99, gnu; got 'fortran'"


def test_writing_to_what_is_constant_is_our_bug() -> None:
    net = tile_program()
    step = net.steps[0]
    assert isinstance(step, CallStep)
    bad = CallStep("tile", (*step.arguments[:2], Address(Region.INPUT, "x")))
    with pytest.raises(InternalError, match="y is written, but Address"):
        emit(Program(net.name, net.inputs, net.outputs, net.functions, (bad,), {}, 0))


def steps_kernel(start: Expr, count: int, parts: int) -> Kernel:
    """``y[p][lane] += x[p][k] * w[k][lane]``, eight vectors, for each of the parts in turn."""
    place, steps = (Var("p"), Var("lane")), Var("k")
    x, w = Load("x", (Var("p"), steps), F32), Load("w", (steps, Var("lane")), F32)

    def tile(value: Expr, buffer: str) -> For:
        lanes = (
            For("lane", number(0), number(8), (Store(buffer, place, value),), LoopKind.VECTOR),
        )
        return For("p", number(0), number(8), lanes, LoopKind.UNROLL)

    sums = Load("sums", place, F32)
    step = tile(Binary("add", sums, Binary("mul", x, w)), "sums")
    stop = Binary("add", start, number(count))
    part = For("part", number(0), number(parts), (For("k", start, stop, (step,)),))
    body = (tile(Const(0.0, F32), "sums"), part, tile(sums, "y"))
    total = count * parts
    params = (
        Buffer("x", F32, (8, total)),
        Buffer("w", F32, (total, 8)),
        Buffer("y", F32, (8, 8), Access.WRITE),
    )
    return Kernel("tile", params, (Local(Buffer("sums", F32, (8, 8), Access.LOCAL), body),))


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("count", "kept"), [(4, False), (8, True), (10, False), (12, True)])
@pytest.mark.parametrize("parts", [1, 3])
def test_steps_of_a_tile_share_the_instructions_of_their_loop(
    parts: int, count: int, kept: bool, flavour: str, tmp_path: Path
) -> None:
    start = Binary("mul", Var("part"), number(count))
    random = np.random.default_rng(1)
    x, w = random.integers(-4, 4, (2, 8 * count * parts)).astype(np.float32)
    arrays = {"x": x.reshape(8, -1), "w": w.reshape(-1, 8)}
    case = Case(steps_kernel(start, count, parts), arrays)
    check([case], flavour, tmp_path, STRICT)
    (_, text), *_ = emit(program_of([case])[0], flavour).sources
    assert ("WEFT_STEPS for (int k" in text) == (kept and flavour == "gnu")


def lanes_kernel(count: int) -> Kernel:
    """``y[i] += x[i]`` over some lanes of vectors, three times."""
    at: tuple[Expr, ...] = (Var("lane"),)
    value = Binary("add", Load("y", at, F32), Load("x", at, F32))
    store = (Store("y", at, value),)
    lanes = For("lane", number(0), number(count), store, LoopKind.VECTOR)
    start = For("lane", number(0), number(count), (Store("y", at, Load("x", at, F32)),))
    params = (Buffer("x", F32, (count,)), Buffer("y", F32, (count,), Access.WRITE))
    return Kernel("lanes", params, (start, For("k", number(0), number(3), (lanes,))))


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("count", "hint"), [(4, "FOUR"), (8, "LANES"), (16, "LANES"), (32, "")])
def test_short_loops_over_lanes_wait_for_the_vectorizer(
    count: int, hint: str, flavour: str, tmp_path: Path
) -> None:
    case = Case(lanes_kernel(count), {"x": np.arange(count, dtype=np.float32)})
    check([case], flavour, tmp_path, STRICT)
    (_, text), *_ = emit(program_of([case])[0], flavour).sources
    for name in ("FOUR", "LANES"):
        marked = f"WEFT_{name} for (" in text
        assert marked == (name == hint and flavour != "gnu")
        assert (f"#define WEFT_{name} _Pragma" in text) == marked
    # Longer ones stay loops, which machines without vectors unroll in part.
    assert ("WEFT_SUMS for (" in text) == (count > 16 and flavour != "gnu")
