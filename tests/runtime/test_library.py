"""Built networks: called in place, by many threads, with errors that say what is wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from weft.dtypes import DType
from weft.errors import UserError
from weft.loops.nodes import Access, Binary, Buffer, Const, Expr, For, Kernel, Load, Store, Var
from weft.plan.program import Address, CallStep, Port, Program, Region
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.calls import in_python
from weft.runtime.library import Library
from weft.runtime.ports import address_of

SIZE = 1000


def sum_kernel(dtype: DType) -> Kernel:
    """``y[i] = x[i] + w[i]``."""
    at: tuple[Expr, ...] = (Var("i"),)
    value = Binary("add", Load("x", at, dtype), Load("w", at, dtype))
    loop = For("i", Const(0, DType.I64), Const(SIZE, DType.I64), (Store("y", at, value),))
    buffers = [Buffer(name, dtype, (SIZE,)) for name in "xw"]
    return Kernel("sum", (*buffers, Buffer("y", dtype, (SIZE,), Access.WRITE)), (loop,))


def program(dtype: DType = DType.F32) -> Program:
    """``scores = (image + w) + w``, the sum in between in the arena."""
    middle = Address(Region.ARENA, "", 128)
    weights = Address(Region.WEIGHTS, "w")
    return Program(
        "net",
        (Port("image", dtype, (10, 100)),),
        (Port("scores", dtype, (SIZE,)),),
        (sum_kernel(dtype),),
        (
            CallStep("sum", (Address(Region.INPUT, "image"), weights, middle)),
            CallStep("sum", (middle, weights, Address(Region.OUTPUT, "scores"))),
        ),
        {"w": np.arange(SIZE).astype(dtype.numpy)},
        128 + SIZE * 8,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", params=["C", "Python"])
def library(cache: Cache, request: pytest.FixtureRequest) -> Library:
    """The network; its calls are made in C where they fit, or all by Python."""
    library = build(program(), cache=cache)
    if request.param == "Python":
        library._call = in_python
    return library


def test_values(library: Library) -> None:
    image = np.full((10, 100), 0.5, np.float32)
    (scores,) = library(image)
    assert np.array_equal(scores, np.arange(SIZE) * 2 + np.float32(0.5))
    assert scores.dtype == np.float32


@pytest.mark.parametrize("dtype", [DType.F64, DType.I64, DType.U8, DType.BF16, DType.F16])
def test_types(dtype: DType, cache: Cache) -> None:
    image = np.ones((10, 100), dtype.numpy)
    net = program(dtype)
    (scores,) = build(net, cache=cache)(image)
    weights = net.weights["w"]
    assert np.array_equal(scores, ((image.reshape(-1) + weights) + weights))


def test_out_is_written_in_place(library: Library) -> None:
    image, out = np.zeros((10, 100), np.float32), np.empty(SIZE, np.float32)
    (scores,) = library(image, out=(out,))
    assert scores is out
    assert scores[3] == 6


def test_building_again_uses_the_cache(cache: Cache, library: Library) -> None:
    before = {entry.path: entry.path.stat().st_mtime_ns for entry in cache.entries()}
    again = build(program(), cache=cache)
    assert again.path == library.path
    assert {entry.path for entry in cache.entries()} == set(before)


def test_flags_and_flavour_are_part_of_the_identity(cache: Cache, library: Library) -> None:
    paths = {
        library.path,
        build(program(), "c99", cache=cache).path,
        build(program(), cache=cache, flags=["-O0"]).path,
    }
    assert len(paths) == 3


def test_writing_to_the_weights_is_private(cache: Cache, library: Library) -> None:
    (entry,) = [each for each in cache.entries() if each.path.suffix == ".bin"][:1]
    content = entry.path.read_bytes()
    assert library._weights is not None
    view = library._weights.view()
    first = bytes(view[:4])
    view[:4] = b"\1\2\3\4"
    assert entry.path.read_bytes() == content
    view[:4] = first


def test_threads_get_the_same_bits(library: Library) -> None:
    images = [np.full((10, 100), value, np.float32) for value in range(4)]
    wanted = [library(image)[0] for image in images]
    wrong: list[int] = []

    def run(number: int) -> None:
        for _ in range(200):
            if not np.array_equal(library(images[number])[0], wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), "net has 1 inputs: image; got 0 arrays"),
        (
            (np.zeros((10, 100)),),
            "input image must be f32[10, 100]; got float64[10, 100]",
        ),
        (
            (np.zeros((100, 10), np.float32),),
            "input image must be f32[10, 100]; got float32[100, 10]",
        ),
        (
            (np.zeros((100, 10), np.float32).T,),
            "input image must be packed in row-major order; got strides [4, 40]. "
            "Pass it through numpy.ascontiguousarray.",
        ),
    ],
)
def test_bad_inputs(library: Library, arrays: tuple[np.ndarray, ...], message: str) -> None:
    with pytest.raises(UserError) as error:
        library(*arrays)
    assert str(error.value) == message


def test_bad_outputs(library: Library) -> None:
    image = np.zeros((10, 100), np.float32)
    with pytest.raises(UserError) as error:
        library(image, out=())
    assert str(error.value) == "net has 1 outputs: scores; got 0 arrays"
    fixed = np.zeros(SIZE, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(UserError) as error:
        library(image, out=(fixed,))
    assert str(error.value) == "output scores must be a writeable array"


def test_misaligned_input(library: Library) -> None:
    memory = np.zeros(SIZE * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64 + 2
    image = memory[start : start + SIZE * 4].view(np.float32).reshape(10, 100)
    with pytest.raises(UserError) as error:
        library(image)
    assert str(error.value) == (
        "image must be aligned to its elements' 4 bytes; "
        f"got address {image.ctypes.data:#x}. Copy the array."
    )


def test_a_net_without_weights_or_arena(tmp_path: Path) -> None:
    step = CallStep(
        "sum",
        (
            Address(Region.INPUT, "a"),
            Address(Region.INPUT, "b"),
            Address(Region.OUTPUT, "y"),
        ),
    )
    ports = (Port("a", DType.BF16, (SIZE,)), Port("b", DType.BF16, (SIZE,)))
    net = Program(
        "plain", ports, (Port("y", DType.BF16, (SIZE,)),), (sum_kernel(DType.BF16),), (step,), {}, 0
    )
    ones = np.ones(SIZE, ml_dtypes.bfloat16)
    (y,) = build(net, cache=Cache(tmp_path))(ones, ones)
    assert y.dtype == ml_dtypes.bfloat16
    assert float(y[0]) == 2.0


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0), (4, 5)])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "?", "V4"])
@pytest.mark.parametrize("writeable", [True, False])
def test_addresses_of_arrays_are_those_of_their_elements(shape, dtype, writeable):
    array = np.zeros(shape, dtype)
    array.flags.writeable = writeable
    assert address_of(array) == array.ctypes.data
