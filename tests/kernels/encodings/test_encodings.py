"""Weight encodings: what is stored, what kernels compute with it, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.kernels.tasks import all_tasks_of, computed, memory_of, offers, refusal
from tests.plan.nets import Net
from tests.targets.made import with_one_cache
from tests.turns import a_few, examples, in_turn
from weft.codegen.flavours import FLAVOURS
from weft.errors import UserError
from weft.kernels.encodings.fewer_bits import FewerBits
from weft.kernels.encodings.known import ENCODINGS
from weft.kernels.encodings.palettes import Palette
from weft.kernels.encodings.quantized import Quantized
from weft.kernels.encodings.reading import Encoding
from weft.kernels.encodings.scaled import ScaledIntegers, nibble_bytes
from weft.kernels.key import layer_key
from weft.kernels.products import packed
from weft.kernels.refusal import Refusal
from weft.kernels.selection import alternatives, proposals, usual
from weft.kernels.task import Task
from weft.plan.diff import diff
from weft.plan.implementation import Encoded, Implementation, Packing
from weft.plan.interpret import run
from weft.plan.plan import Plan, written
from weft.runtime.build import build
from weft.runtime.cache import Cache

NAMES = ("palette", "int8", "int4")
FIT = {each.name: each.fit for each in ENCODINGS}
EDGES = (0.0, -0.0, 1e-45, -1e-45, 1e-40, -3e38, 3e38, 1e-20, -1.0, 1.0)


def matrix(seed: int, rows: int, lanes: int, values: int) -> np.ndarray:
    """Weights of any size, some of them edges; with ``values``, of so many distinct ones."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal((rows, lanes)).astype(np.float32)
    weights *= np.float32(random.choice([1.0, 1e-39, 1e-30, 1e30]))
    for _ in range(random.integers(5)):
        weights[random.integers(rows), random.integers(lanes)] = random.choice(EDGES)
    if values:
        weights = random.choice(weights.reshape(-1)[:values], (rows, lanes))
    return np.asarray(weights, np.float32)


def fitted(name: str, array: np.ndarray, axis: int) -> Encoding:
    found = FIT[name](array, array.shape, axis, True)
    assert not isinstance(found, Refusal)
    return found


def pieces_of(width: int) -> tuple[int, ...]:
    """Vectors of a block, powers of two, widest first."""
    return tuple(1 << bit for bit in reversed(range(width.bit_length())) if width >> bit & 1)


def numbers_of(stored: np.ndarray, widths: tuple[int, ...], bits: int) -> np.ndarray:
    """Numbers ``[rows, lanes]`` of stored bytes."""
    if bits == 8:
        return stored.astype(np.int64)
    found: list[np.ndarray] = []
    for piece, width in enumerate(widths):
        at = nibble_bytes(widths[: piece - piece % 2])
        found.append(stored[:, at : at + width] >> 4 * (piece % 2) & 15)
    return np.concatenate(found, axis=1).astype(np.int64)


def unpacked(encoding: Encoding, parts: dict[str, np.ndarray], widths: tuple[int, ...]):
    """The weights of a block, as its definition says."""
    if isinstance(encoding, Palette):
        return parts["palette"][numbers_of(parts["numbers"], widths, encoding.number_bits)]
    assert isinstance(encoding, ScaledIntegers | Quantized)
    codes = numbers_of(parts["codes"], widths, encoding.code_bits)
    codes = codes + (0 if encoding.code_bits == 4 else 256 * (codes < 0))
    codes = (codes ^ 128) - (codes ^ 128) // 128 * 256 if encoding.code_bits == 8 else codes
    groups = np.arange(len(codes)) // encoding.group
    if "zeros" in parts:
        codes = codes - parts["zeros"][groups]
    elif encoding.code_bits == 4:
        codes = codes - 8
    return codes.astype(np.float32) * parts["scales"][groups]


@settings(max_examples=examples(80), deadline=None)
@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 1000),
    rows=st.integers(1, 70),
    lanes=st.integers(1, 23),
    values=st.sampled_from([0, 1, 16, 17, 256]),
    across=st.booleans(),
    start=st.integers(0, 3),
)
def test_what_is_stored_is_what_is_decoded(
    name: str, seed: int, rows: int, lanes: int, values: int, across: bool, start: int
) -> None:
    weights = matrix(seed, rows, lanes, values)
    axis = 0 if across else 1
    array = np.ascontiguousarray(weights.T) if across else weights
    encoding = fitted(name, array, axis)
    start = min(start, lanes - 1)
    blocks, width = lanes - start, 1
    if blocks % 2 == 0:
        blocks, width = 2, blocks // 2
    widths = pieces_of(width)
    packing = Packing(array.shape, axis, (1 - axis,), start, blocks, width)
    stored: dict[str, np.ndarray] = {}
    for part in encoding.parts(packing, widths):
        encoded = Encoded(encoding, part.name, packing, widths)
        stored[part.name] = encoded.apply(array)
        assert encoded.stored == part
        assert (part.shape, part.dtype.numpy) == (stored[part.name].shape, stored[part.name].dtype)
    decoded = encoding.decoded(array, array.shape, axis)
    assert decoded.shape == array.shape
    lanewise = decoded.T if across else decoded
    for block in range(blocks):
        parts = {
            key: each if key in ("palette", "values") else each[block]
            for key, each in stored.items()
        }
        lane = slice(start + block * width, start + (block + 1) * width)
        np.testing.assert_array_equal(unpacked(encoding, parts, widths), lanewise[:, lane])
    if encoding.exact:
        np.testing.assert_array_equal(decoded.view(np.uint32), array.view(np.uint32))
    else:
        assert_near(encoding, weights, lanewise)


def multiples(seed: int, sizes: tuple[int, int], form: tuple[int, int, bool], scale: float = 1.0):
    """Weights of some rows and lanes that were quantized to bits, by groups, with zero points."""
    random = np.random.default_rng(seed)
    (rows, lanes), (bits, group, shifted) = sizes, form
    groups = -(-rows // group)
    codes = random.integers(0, 1 << bits, (rows, lanes))
    zeros = np.full((groups, lanes), 1 << (bits - 1))
    if shifted:
        zeros = random.integers(0, 1 << bits, (groups, lanes))
    scales = random.uniform(scale, 9 * scale, (groups, lanes)).astype(np.float32)
    places = np.arange(rows) // group
    return (codes - zeros[places]).astype(np.float32) * scales[places]


@settings(max_examples=examples(80), deadline=None)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(40, 300),
    lanes=st.integers(1, 23),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([16, 32, 64, 128, 300]),
    shifted=st.booleans(),
    scale=st.sampled_from([1.0, 1e-30, 1e30]),
    across=st.booleans(),
)
def test_weights_that_were_quantized_become_codes_again(
    seed: int,
    rows: int,
    lanes: int,
    bits: int,
    group: int,
    shifted: bool,
    scale: float,
    across: bool,
) -> None:
    weights = multiples(seed, (rows, lanes), (bits, group, shifted), scale)
    axis = 0 if across else 1
    array = np.ascontiguousarray(weights.T if across else weights)
    encoding = FIT["quantized"](array, array.shape, axis, False)
    assert isinstance(encoding, Quantized)
    assert encoding.code_bits == bits
    widths = pieces_of(lanes)
    packing = Packing(array.shape, axis, (1 - axis,), 0, 1, lanes)
    stored = {
        part.name: Encoded(encoding, part.name, packing, widths).apply(array)[0]
        for part in encoding.parts(packing, widths)
    }
    np.testing.assert_array_equal(unpacked(encoding, stored, widths), weights)
    assert encoding.decoded(array, array.shape, axis) is array


@pytest.mark.parametrize("change", [1.0001, 0.7371])
def test_a_weight_beside_the_grid_is_noticed(change: float) -> None:
    weights = multiples(3, (512, 96), (4, 32, False))
    assert isinstance(FIT["quantized"](weights, weights.shape, 1, False), Quantized)
    weights = weights.copy()  # what was found of an array is remembered
    row, lane = np.argwhere(weights)[-7]
    weights[row, lane] *= np.float32(change)
    found = FIT["quantized"](weights, weights.shape, 1, False)
    assert isinstance(found, Refusal)
    assert "times a scale for each group" in found.reason


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("edge", [3e38, -3e38, 1e-45, 1e-38])
def test_weights_of_any_size_are_looked_at_without_a_warning(edge: float) -> None:
    weights = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32)
    weights[::3] = edge
    weights[1::3] = -edge
    assert isinstance(FIT["quantized"](weights, weights.shape, 1, False), Refusal)
    alone = np.full((64, 8), edge, np.float32)
    assert isinstance(FIT["quantized"](alone, alone.shape, 1, False), Quantized)


def assert_near(encoding: Encoding, weights: np.ndarray, decoded: np.ndarray) -> None:
    """Decoded weights are no further off than half a step, of 4 bits one at the positive end."""
    if isinstance(encoding, Palette):
        values = np.unique(decoded).astype(np.float64)
        nearest = np.abs(weights[..., None] - values).min(axis=-1)
        np.testing.assert_allclose(np.abs(weights - decoded.astype(np.float64)), nearest)
        return
    assert isinstance(encoding, ScaledIntegers)
    for first in range(0, len(weights), encoding.group):
        group = weights[first : first + encoding.group].astype(np.float64)
        wrong = np.abs(decoded[first : first + encoding.group] - group)
        step = np.abs(group).max(axis=0) / (127 if encoding.code_bits == 8 else 8)
        part = 0.5 if encoding.code_bits == 8 else 1.0
        # Scales that are subnormal are rounded themselves.
        assert (wrong <= step * part * 1.001 + 128 * 2.0**-149).all()


def test_the_largest_weight_is_an_extreme_code() -> None:
    weights = np.array([[1.0, -2.0, 3.0], [-4.0, 1.0, -3.0]], np.float32)
    for name, wanted in (
        ("int8", [[32, -127, 127], [-127, 64, -127]]),
        ("int4", [[2, -8, -8], [-8, 4, 7]]),
    ):
        encoding = fitted(name, weights, 1)
        assert isinstance(encoding, ScaledIntegers)
        codes = encoding.codes(weights, encoding.scales(weights))
        assert codes.tolist() == wanted


def test_palettes_tell_signs_of_zeros_apart() -> None:
    weights = np.zeros((30, 30), np.float32)
    weights[::2] = -0.0
    encoding = fitted("palette", weights, 1)
    assert encoding == Palette(4, exact=True)
    packing = Packing((30, 30), 1, (0,), 0, 1, 30)
    widths = (16, 8, 4, 2)
    (stored,) = Encoded(encoding, "numbers", packing, widths).apply(weights)
    numbers = numbers_of(stored, widths, 4)
    assert (numbers[::2] == 1).all()
    assert (numbers[1::2] == 0).all()
    assert fitted("palette", np.arange(300, dtype=np.float32).reshape(30, 10), 1).exact is False
    assert fitted("palette", np.arange(256, dtype=np.float32).reshape(32, 8), 1) == Palette(
        8, exact=True
    )


@pytest.mark.parametrize("name", [each.name for each in ENCODINGS])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(name: str, wrong: float) -> None:
    weights = np.ones((16, 16), np.float32)
    weights[3, 4] = wrong
    found = FIT[name](weights, weights.shape, 1, True)
    assert isinstance(found, Refusal)
    assert "not finite" in found.reason


# --- kernels ----------------------------------------------------------------------------------


def dense(
    rows: int,
    lanes: int,
    values: int = 0,
    across: bool = False,
    form: tuple[int, int, bool] | None = None,
) -> tuple[Net, str]:
    """A dense layer with ReLU; with ``form``, of weights that were quantized."""
    net = Net()
    weights = np.random.default_rng(rows).standard_normal((rows, lanes)).astype(np.float32)
    if form:
        weights = multiples(rows, (rows, lanes), form)
    if values:
        weights = net.random.choice(weights.reshape(-1)[:values], (rows, lanes))
    array = np.ascontiguousarray(weights.T if across else weights)
    y = net.op(
        "Gemm",
        net.input(1, rows),
        net.builder.constant(array, "w"),
        net.constant(lanes),
        transB=int(across),
    )
    return net, net.op("Relu", y)


def task_of(made: tuple[Net, str], machine: str = "x86-avx512", encoding: str = "") -> Task:
    net, value = made
    return replace(all_tasks_of(net, value, machine=machine)[-1], encoding=encoding)


def rounded(task: Task) -> Task:
    """The task with the weights that an encoding makes of its own."""
    products = packed.encoded_products(task)
    assert not isinstance(products, Refusal)
    (product,) = products
    name = product.product.parts.weight or ""
    shape = next(each.shape for each in task.inputs if each.name == name)
    old = task.arrays[name]
    new = product.encoding.decoded(old, shape, product.product.dimension)
    return replace(task, arrays={**task.arrays, name: new}, encoding="")


def right_offers(task: Task, off: float = 1e-4) -> list[Implementation]:
    """What is offered for a task; its results are those of plain loops and decoded weights."""
    plain = rounded(task)
    nest = next(each for each in alternatives(plain) if each.name == "nest").make()
    assert nest is not None
    wanted = computed(plain, nest, memory_of(plain))
    found: list[Implementation] = []
    for each in offers(packed.propose, task):
        made = each.make()
        assert made is not None
        assert made.scheme == each.name
        result = computed(task, made, memory_of(task))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=off)
        found.append(made)
    return found


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512", "aarch64-neon", "generic"])
@pytest.mark.parametrize(
    ("rows", "lanes", "values", "across"),
    [(2, 3, 0, False), (29, 70, 0, True), (67, 45, 9, False), (40, 37, 100, True)],
)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_compute_with_decoded_weights(
    name: str, rows: int, lanes: int, values: int, across: bool, machine: str
) -> None:
    """By the interpreter, bounds verified, beside plain loops over the decoded weights."""
    made = right_offers(task_of(dense(rows, lanes, values, across), machine, name))
    assert {each.scheme.rsplit("-", 1)[0] for each in made} == {f"packed-{name}"}


@pytest.mark.parametrize(
    ("name", "values", "streams"),
    [
        ("float28", 0, 4),
        ("palette", 9, 2),  # vectors share bytes in pairs
        ("palette", 100, 4),
        ("int8", 0, 4),
        ("int4", 0, 2),
    ],
)
def test_weights_from_memory_are_read_in_streams(name: str, values: int, streams: int) -> None:
    # Two whole blocks of four vectors, and a rest of two and a half.
    task = task_of(dense(300, 2 * 32 + 20, values), "x86-avx2", name)
    task = replace(task, target=with_one_cache(task.target, 1 << 10))
    schemes = [made.scheme for made in right_offers(task)]
    assert any(each.endswith(f"-1x4-in{streams}") for each in schemes)


FORMS = [(4, 32, False), (4, 16, True), (8, 128, False), (8, 32, True)]


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512", "aarch64-neon", "generic"])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_compute_with_the_codes_of_quantized_weights(
    form: tuple[int, int, bool], machine: str
) -> None:
    task = task_of(dense(70, 45, across=form[2], form=form), machine, "quantized")
    made = right_offers(task, off=2e-3)
    assert {each.scheme.rsplit("-", 1)[0] for each in made} == {"packed-quantized"}


@pytest.mark.parametrize("form", a_few([(form,) for form in FORMS], 1))
def test_codes_of_quantized_weights_are_chosen_unasked(form: tuple[int, int, bool]) -> None:
    task = task_of(dense(512, 256, form=form))
    task = replace(task, target=with_one_cache(task.target, 1 << 10))
    assert usual(task).name.startswith("packed-quantized-")
    exact = replace(task, exact=True)
    assert not any("quantized" in each.name for each in alternatives(exact))
    net = mlp(75, 37, 19, form=form)
    x = np.random.default_rng(0).standard_normal((1, 75)).astype(np.float32)
    (wanted,) = net.reference({"x": x})
    for machine in ("generic", "x86-avx2"):
        plan = net.plan(machine, encoding="quantized")
        assert {each for _, each in encodings_of(plan)} == {"quantized"}
        library = build(net.program(plan=plan), cache=Cache())
        np.testing.assert_allclose(library(x)[0], wanted, rtol=1e-3, atol=1e-2)


def test_exact_palettes_have_the_bits_of_other_loops() -> None:
    task = task_of(dense(67, 50, 12))
    tiled = next(each for each in alternatives(task) if each.name.startswith("tiled-1x"))
    found = [each for each in offers(packed.propose, task) if "palette" in each.name]
    assert len(found) == 2
    for each in found:
        assert each.sums == tiled.sums
        made, other = each.make(), tiled.make()
        assert made is not None
        assert other is not None
        memory = memory_of(task)
        np.testing.assert_array_equal(computed(task, made, memory), computed(task, other, memory))


def test_palettes_are_not_chosen_where_looking_up_takes_longer_than_memory() -> None:
    """Those of 8 bits, which are looked up lane by lane; of 4 bits it is one instruction."""
    task = task_of(dense(512, 256, 100))
    task = replace(task, target=with_one_cache(task.target, 1 << 10))
    costs = {each.name: each.cost for each in alternatives(task)}
    assert costs["packed-palette-1x8"] > costs["tiled-1x8-in4"]
    assert "palette" not in usual(task).name
    few = replace(task_of(dense(512, 256, 12)), target=task.target)
    assert usual(few).name == "packed-palette-1x8"


def test_lossy_encodings_are_for_those_who_ask() -> None:
    task = task_of(dense(64, 64))
    assert {each.name for each in offers(packed.propose, task)} == {"packed-1x4", "packed-1x2"}
    assert refusal(packed.propose, task_of(dense(64, 64, 5), "generic")).startswith("the target")
    asked = task_of(dense(64, 64), encoding="int8")
    assert usual(asked).name == "packed-int8-1x4"
    assert usual(replace(asked, threads=2)).name == "packed-int8-1x4"
    for name, each in proposals(asked):
        assert isinstance(each, Refusal) == (name != "packed")
        if isinstance(each, Refusal):
            assert each.reason == "the weights are stored as int8, which was asked for"
    exact = replace(asked, exact=True)
    assert refusal(packed.propose, exact) == (
        "int8 changes the rounding, and exact kernels were requested"
    )
    keys = {layer_key(replace(task, encoding=each)) for each in ("", *FIT)}
    assert len(keys) == 6


def test_a_small_palette_must_be_worth_it() -> None:
    assert FIT["palette"](
        np.arange(100.0, dtype=np.float32).reshape(10, 10), (10, 10), 1, False
    ) == (Refusal("the palette would take more than the weights"))


# --- networks ----------------------------------------------------------------------------------


def mlp(*sizes: int, values: int = 0, form: tuple[int, int, bool] | None = None) -> weft.Net:
    net = Net()
    x = net.input(1, sizes[0])
    for rows, lanes in pairwise(sizes):
        weights = net.random.standard_normal((rows, lanes)).astype(np.float32)
        if values:
            weights = net.random.choice(weights.reshape(-1)[:values], (rows, lanes))
        if form:
            weights = multiples(rows, (rows, lanes), form, 0.02)
        held = net.builder.constant(weights, "w")
        x = net.op("Relu", net.op("Gemm", x, held, net.constant(lanes)))
    return weft.Net(net.graph(x))


def encodings_of(plan: Plan) -> list[tuple[str, str]]:
    return [
        (each.value, each.encoding) for step in written(plan).body.steps for each in step.encodings
    ]


@pytest.mark.parametrize(("name", "flavour"), in_turn([(name,) for name in NAMES], [*FLAVOURS]))
def test_c_computes_what_the_interpreter_does(name: str, flavour: str, tmp_path: Path) -> None:
    net = mlp(75, 37, 19)
    x = np.random.default_rng(0).standard_normal((1, 75)).astype(np.float32)
    for machine, threads in (("generic", 1), ("x86-avx2", 2)):
        program = net.program(machine, encoding=name, threads=threads)
        (wanted,) = run(program, {"x": x}).values()
        library = build(program, flavour, cache=Cache(tmp_path))
        found = library(x)
        found = found[0] if isinstance(found, tuple) else found
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_plans_say_how_weights_are_stored_and_may_be_edited() -> None:
    net = mlp(96, 64, 48)
    plain, plan = net.plan("x86-avx512"), net.plan("x86-avx512", encoding="int8")
    assert encodings_of(plain) == []
    assert encodings_of(plan) == [("w", "int8"), ("w_2", "int8")]
    text = str(plan)
    assert 'constraints {encoding="int8"}' in text
    assert "      %w as int8, 6400 bytes, error 0.00" in text
    again = net.plan_from(text)
    assert str(again) == text
    assert net.source(plan=text) == net.source("x86-avx512", encoding="int8")
    # One layer as it was, the other one with fewer bits.
    line = next(each for each in text.splitlines() if " %w as int8" in each)
    edited = text.replace(f"{line}\n", "").replace("packed-int8-1x4", "tiled-1x2", 1)
    assert encodings_of(net.plan_from(edited)) == [("w_2", "int8")]
    edited = text.replace(line, "      %w as int4, 1 bytes").replace(
        "packed-int8-1x4", "packed-int4-1x4", 1
    )
    mixed = net.plan_from(edited)
    assert encodings_of(mixed) == [("w", "int4"), ("w_2", "int8")]
    assert str(net.plan_from(str(mixed))) == str(mixed)
    assert diff(written(plan), written(mixed)).changes == (
        "relu_out: kernel packed-int8-1x4 -> packed-int4-1x4",
        "relu_out: weights w as int8 -> w as int4",
    )


def test_a_toolkit_tests_itself_with_the_weights_that_it_has() -> None:
    net = mlp(96, 64, 48)
    plain, small = net.toolkit("generic"), net.toolkit("generic", encoding="int4")
    found = [each.golden.outputs[0].array for each in (plain, small)]
    assert not np.allclose(*found, rtol=1e-3)
    outputs = net.compile(encoding="int4", threads=1)(small.golden.inputs[0].array)
    np.testing.assert_allclose(outputs, found[1], rtol=1e-4, atol=1e-3)


def test_options() -> None:
    net = mlp(64, 32)
    with pytest.raises(
        UserError, match="encoding must be one of float28, palette, quantized, int8, int4"
    ):
        weft.Options(encoding="int9")
    with pytest.raises(UserError, match="encoding is not for exact or plain kernels"):
        weft.Options(encoding="int8", exact=True)
    with pytest.raises(UserError, match="encoded weights must be known"):
        weft.Options(encoding="int8", parameters="runtime")
    several = Net()
    matmul = several.op("MatMul", several.input(5, 64), several.constant(64, 32))
    with pytest.raises(UserError, match="int8 for a network where it applies to none"):
        weft.Net(several.graph(matmul)).plan(encoding="int8")
    with pytest.raises(UserError, match="encoding is fixed by the given plan"):
        net.plan(plan=str(net.plan("generic")), encoding="int8")
    assert isinstance(fitted("float28", np.ones((16, 16), np.float32), 1), FewerBits)
