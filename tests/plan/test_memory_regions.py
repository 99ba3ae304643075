"""Several memory regions: where buffers go, what does not fit, and that plans and C carry it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.api.test_parameters import IMAGE, network
from tests.api.test_streams import STATES, detector
from tests.plan.test_memory import interval_lists
from tests.turns import a_few, examples
from weft.codegen.emit import emit
from weft.errors import UserError
from weft.plan.diff import diff
from weft.plan.interpret import run
from weft.plan.interval import Interval
from weft.plan.memory import aligned, place
from weft.plan.parse import parse
from weft.plan.plan import written
from weft.plan.program import located
from weft.plan.regions import place_in
from weft.plan.report import report, summary
from weft.plan.to_program import lower
from weft.targets.target import Memory

NAMES = ("dtcm", "sram", "psram")
TWO = {"dtcm": 6 << 10, "sram": 128 << 10}
THREE = {"dtcm": 3 << 10, "sram": 6 << 10, "psram": 128 << 10}


def regions(*sizes: int) -> list[Memory]:
    return [Memory(name, "ram", size) for name, size in zip(NAMES, sizes, strict=False)]


@settings(deadline=None, max_examples=examples(200))
@given(
    interval_lists(),
    st.lists(st.integers(1, 4000), min_size=1, max_size=3),
    st.lists(st.integers(0, 100_000), min_size=14, max_size=14),
    st.sampled_from([1, 64]),
)
def test_regions_hold_what_is_in_them(
    intervals: list[Interval], sizes: list[int], traffic: list[int], alignment: int
) -> None:
    carried = {each.name: size for each, size in zip(intervals, traffic, strict=False)}
    steps = [f"step {step}" for step in range(10)]
    given = regions(*sizes)
    try:
        placed = place_in(intervals, carried, given, alignment, steps)
    except UserError as error:
        # The size that it names is enough.
        (needed,) = re.findall(r"--region \w+=(\d+)", str(error))
        assert int(needed) > sizes[-1]
        given = regions(*sizes[:-1], int(needed))
        placed = place_in(intervals, carried, given, alignment, steps)
    arenas = placed.arenas
    if len(given) == 1:
        assert not arenas
        assert placed == place(intervals, alignment)
    where: dict[str, tuple[str, int, int]] = {}
    for each in intervals:
        if each.bytes:
            region, start = located(arenas, placed.offsets[each.name])
            assert start % alignment == 0
            where[each.name] = region, start, start + aligned(each.bytes, alignment)
    for region in given:
        ends = [end for name, _, end in where.values() if name in (region.name, "")]
        used = {each.name: each.bytes for each in arenas}.get(region.name, placed.bytes)
        assert max(ends, default=0) == used <= region.bytes
    for each in intervals:
        for other in intervals:
            if each is other or not each.bytes or not other.bytes:
                continue
            one, two = where[each.name], where[other.name]
            live = each.first <= other.last and other.first <= each.last
            assert not live or one[0] != two[0] or one[2] <= two[1] or two[2] <= one[1]
    assert sum(each.bytes for each in arenas) in (0, placed.bytes)


def test_the_nearest_region_has_what_is_used_most() -> None:
    lives = [
        Interval("large", 512, 0, 3),
        Interval("hot", 128, 0, 1),
        Interval("warm", 128, 1, 2),
        Interval("later", 128, 2, 3),
    ]
    carried = {"large": 1024, "hot": 4096, "warm": 1024, "later": 2048}
    steps = ["a", "b", "c", "d"]

    def homes(*sizes: int) -> dict[str, str]:
        placed = place_in(lives, carried, regions(*sizes), 64, steps)
        return {name: located(placed.arenas, at)[0] for name, at in placed.offsets.items()}

    near, mid, far = NAMES
    assert homes(128, 1024) == {"large": mid, "hot": near, "warm": mid, "later": near}
    assert homes(128, 128, 1024) == {"large": far, "hot": near, "warm": mid, "later": near}
    # What is live at once with room to spare goes near as a whole.
    assert set(homes(1024, 1024).values()) == {near}
    # Traffic gives way where the far region has no room for the rest.
    assert homes(512, 256) == {"large": near, "hot": mid, "warm": mid, "later": mid}


def test_what_does_not_fit_is_refused_with_figures() -> None:
    net = weft.load("examples/digits/digits.onnx")
    with pytest.raises(UserError) as caught:
        net.plan("cortex-m7", regions={"dtcm": 512, "sram": 4096})
    assert str(caught.value) == (
        "intermediate values must fit into the memory regions dtcm (512 bytes), sram "
        "(4,096 bytes); got 5,120 bytes that are live at once; the largest buffer, which must lie "
        "in one region, is /stem/stem.1/BatchNormalization_output_0 of 4,096 (step 1, MaxPool + "
        "Relu). They fit where sram has 5,120 bytes (--region sram=5120). Or name a further "
        "region, or cut the layers around that step into parts (`weft apply MODEL tile-chain`)"
    )
    found = net.plan("cortex-m7", regions={"dtcm": 512, "sram": 5120})
    assert [(each.name, each.bytes) for each in found.arenas] == [("dtcm", 512), ("sram", 5120)]
    for wrong, told in (
        ({"dtcm": 0}, "must have some bytes; got 0"),
        ({"a b": 64}, "each a C identifier; got a b"),
        ({"a": 64, "A": 64}, "different names"),
    ):
        with pytest.raises(UserError, match=told):
            weft.Options(regions=wrong)


def test_one_region_is_the_arena_of_old() -> None:
    net = weft.load("examples/digits/digits.onnx")
    one, old = net.plan("cortex-m7", regions={"sram": 5120}), net.plan("cortex-m7")
    assert not one.arenas
    made, before = (emit(lower(each, "net")) for each in (one, old))
    assert (made.header, made.sources) == (before.header, before.sources)
    with pytest.raises(UserError, match=r"sram has 5,120 bytes"):
        net.plan("cortex-m7", regions={"sram": 5119})
    text = str(one)
    assert 'regions=("sram=5120",)' in text
    assert str(net.plan_from(text)) == text
    with pytest.raises(UserError, match="within the 5056 bytes of sram"):
        net.plan_from(text.replace("sram=5120", "sram=5056"))


@pytest.mark.parametrize("sizes", a_few([TWO, THREE], 1), ids=["two", "three"])
@pytest.mark.parametrize(
    "case",
    [
        *("winograd", "threads", "states", "states-as-ports"),
        pytest.param("parameters", marks=pytest.mark.thorough),
    ],
)
def test_interpreter_and_c_give_what_one_arena_gives(
    case: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    if case.startswith("states"):
        net = weft.load(detector(tmp_path / "detector.onnx"))
        sizes = {name: size // 8 for name, size in sizes.items()}
        net = net.with_state(STATES) if case == "states" else net
    else:
        net = network(3)
    options = {"threads": {"threads": 2}, "parameters": {"parameters": "runtime"}}.get(case, {})
    plan = net.plan("host", regions=sizes, **options)
    assert sum(bool(each.bytes) for each in plan.arenas) > 1
    assert all(each.bytes <= sizes[each.name] for each in plan.arenas)
    text = str(plan)
    assert parse(text) == written(plan)
    again = net.plan_from(text)
    assert str(again) == text
    one, several = net.compile(**options), net.compile(regions=sizes, **options)
    library = several.library
    assert library.built.starts == tuple(each.start for each in plan.arenas)
    random = np.random.default_rng(1)
    for _ in range(3):
        shapes = [port.shape for port in library.inputs]
        inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        expected = one.library(*inputs)
        for found, wanted in zip(library(*inputs), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    if case == "winograd":
        found = run(library.program, {"x": IMAGE})
        np.testing.assert_allclose(next(iter(found.values())), one(IMAGE), rtol=1e-4, atol=1e-5)
    # What the cache has of it is called in the same way.
    recalled = net.compile(regions=sizes, **options)
    assert recalled.library.built.starts == library.built.starts


def test_a_text_moves_buffers_between_regions() -> None:
    net = weft.load("examples/digits/digits.onnx")
    plan = net.plan("cortex-m7", regions={"dtcm": 2048, "sram": 8192})
    text = str(plan)
    line = "%transpose_out: f32[1,2,2,32] arena dtcm at 0, 512 bytes"
    assert line in text
    assert "  arena dtcm 2048 bytes, at least 2048\n  arena sram 4096 bytes" in text
    moved = text.replace(line, line.replace("dtcm at 0", "sram at 4096"))
    with pytest.raises(UserError, match="must lie within the arena sram of 4096 bytes"):
        net.plan_from(moved)
    moved = moved.replace("arena sram 4096", "arena sram 4608").replace("arena 6144", "arena 6656")
    changes = diff(parse(text), written(net.plan_from(moved))).changes
    assert "transpose_out: lies arena dtcm at 0 -> arena sram at 4096" in changes
    assert "arena sram 4096 bytes -> 4608 bytes" in changes
    for old, new, told in (
        ("arena dtcm at 0, 512", "arena flash at 0, 512", "is one of dtcm, sram; got flash"),
        ("arena dtcm at 0, 512", "arena at 0, 512", "is one of dtcm, sram; got none"),
        ("arena dtcm 2048 bytes, at least 2048\n", "", "is as large as its regions"),
        ("arena dtcm 2048", "arena sram 2048", "a region stands once"),
        ('regions=("dtcm=2048"', 'regions=("dtcm=1984"', "within the 1984 bytes of dtcm"),
        ('regions=("dtcm=2048"', 'regions=("dtcm"', "a region is given as NAME=BYTES"),
        ('regions=("dtcm=2048", "sram=8192")', "", "regions of the arena must be none"),
    ):
        assert old in text
        with pytest.raises(UserError, match=told):
            net.plan_from(text.replace(old, new))
    other = net.plan("cortex-m7", regions={"dtcm": 1024, "sram": 8192})
    assert 'regions ("dtcm=2048", "sram=8192") -> ("dtcm=1024", "sram=8192")' in (
        diff(parse(text), written(other)).changes
    )
    with pytest.raises(UserError, match="regions is fixed by the given plan"):
        net.plan(plan=plan, regions={"dtcm": 64})


def test_reports_name_the_regions() -> None:
    net = weft.load("examples/digits/digits.onnx")
    found = report(net.plan("stm32f767"))
    assert [(each.name, each.bytes) for each in found.arenas] == [("DTCM", 5120), ("SRAM", 0)]
    assert str(found.rows[1].writes[0]).endswith("@DTCM+4096")
    assert "arena 5,120 bytes (DTCM 5,120, SRAM 0), lower bound" in summary(found)
    # Without regions it has the arena of any Cortex-M7.
    one, old = net.plan("stm32f767", regions={}), net.plan("cortex-m7")
    assert one.arenas == ()
    assert one.offsets == old.offsets
