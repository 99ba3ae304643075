"""The stack that a run takes: what compilers say, summed along the calls."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from weft.codegen.flavours import FLAVOURS
from weft.codegen.helpers import assembly_stack, helper
from weft.codegen.stack import Called, CallGraph, frames_of

ASSEMBLY = {
    "depth": "depth_3",
    "loads": "dual_1x4",
    "spread": "spread_4",
    "scale_f32": "scale_f32",
    "scale_i32": "scale_i32_10",
    "winograd_in": "winograd_in",
    "winograd_2x4": "winograd_2x4_4_1",
    "planes": "planes",
    "depth_s": "depth_s1_0",
    "bytes": "bytes_1x4_0",
    "add_i8": "add_i8_20_17_0",
    "patch": "patch_2_3_2_1",
    "sums": "mve_i32_16_3_160_48_0_16_4_1",
    "mve_copy": "mve_copy",
    "mve_fill": "mve_fill",
    "mve_patch": "mve_patch_4_3_12_4",
    "mve_planes": "mve_planes_12_196_14_192_16_0",
    "mve_depth": "mve_depth_f32_12_12_192_16_14_14_3_3_1_1",
    "mve_add": "mve_add_8_8_8_8_0",
    "mve_add_f32": "mve_add_f32_8_8_8_8",
    "mve_pool": "mve_pool_max_2_2_16_8",
    "mve_lookup": "mve_lookup_16_16_16",
}
"""A helper of each text in assembly."""
_REGISTERS = re.compile(r'"(v?)(push|pop) \{(.*?)\}')
_ROOM = re.compile(r'"(sub|add) sp, (?:sp, )?#(\d+)')
_OTHERS = re.compile(r'"blx? |\bsp!|\[sp\], |\[sp[^]]*\]!')
"""Other instructions that move it, and calls."""
GCC = "a.c:7:12:leaf.constprop\t40\tstatic\na.c:7:12:leaf.constprop\t24\tstatic\n"
CLANG = "a.c:9:run\t56\tstatic\n"


def test_what_compilers_write():
    assert frames_of([GCC, CLANG]) == {"leaf": 40, "run": 56}
    assert frames_of(["a.c:7:12:leaf\t8\tstatic\na.c:7:12:leaf.part\t100\tstatic\n"]) == {
        "leaf": 108
    }
    assert frames_of(["a.c:7:12:leaf\t8\tdynamic,bounded\n"]) == {"leaf": 8}
    assert frames_of(["a.c:7:12:leaf\t8\tdynamic\n"]) is None


@pytest.mark.parametrize(
    ("frames", "wanted"),
    [
        ({"leaf": 40, "kernel": 200, "other": 40, "run": 56}, 56 + 200 + 40 + 3 * 16 + 96),
        ({"leaf": 40, "other": 300, "run": 56}, 56 + 300 + 2 * 16 + 256),
        ({"run": 300}, 300 + 16 + 256),
        ({"leaf": 40}, None),
        ({}, None),
    ],
)
def test_the_deepest_calls_count(frames, wanted):
    """Functions that are missing were put into those that call them."""
    functions = (
        Called("leaf", 96, ()),
        Called("kernel", 96, ("leaf",)),
        Called("other", 256, ()),
        Called("run", 96, ("kernel", "other")),
    )
    assert CallGraph(functions, 16).bytes(frames) == wanted


@pytest.mark.parametrize(
    ("symbols", "pointers", "link", "wanted"),
    [
        ({"leaf", "run"}, False, 16, 56 + 40 + 2 * 16),
        ({"leaf", "run"}, False, 0, 56 + 40),
        ({"leaf", "run", "memcpy"}, False, 0, 56 + 40 + 2 * 16 + 96),
        ({"leaf", "run"}, True, 0, 56 + 40 + 2 * 16 + 96),
        (None, False, 0, 56 + 40 + 2 * 16 + 96),
    ],
)
def test_objects_that_need_nothing_else(symbols, pointers, link, wanted):
    """Libraries are allowed for where a function is named that the compiler says nothing of."""
    graph = CallGraph((Called("leaf", 96, ()), Called("run", 96, ("leaf",))), 16, pointers)
    assert graph.bytes({"leaf": 40, "run": 56}, symbols, link) == wanted


def test_assembly_that_is_called():
    """Compilers say that a naked function takes nothing."""
    functions = (Called("fast", 0, (), 324), Called("run", 96, ("fast",)))
    assert CallGraph(functions, 16).bytes({"fast": 0, "run": 56}) == 56 + 324 + 2 * 16
    assert CallGraph(functions, 16).bytes({"run": 56}) == 56 + 324 + 16


def moved(text: str, saves: str, takes: str) -> int:
    """Bytes by which instructions of these names move the stack pointer."""
    found = sum(int(room) for name, room in _ROOM.findall(text) if name == takes)
    for double, name, registers in _REGISTERS.findall(text):
        for each in registers.split(", ") if name == saves else ():
            first, _, last = each.partition("-")
            count = int(last[1:]) - int(first[1:]) + 1 if last else 1
            found += count * (8 if double else 4)
    return found


def test_every_text_in_assembly_has_a_helper_here():
    folder = files("weft.codegen").joinpath("c")
    texts = [
        part
        for each in folder.iterdir()
        for part in each.read_text(encoding="utf-8").split("//@ ")
        if "naked" in part
    ]
    assert sorted(each.split("\n")[0] for each in texts) == sorted(ASSEMBLY)


@pytest.mark.parametrize("kind", ASSEMBLY)
def test_what_helpers_in_assembly_take(kind):
    """What its instructions take, it says; it gives that back, and calls nothing."""
    name = ASSEMBLY[kind]
    text, calls = helper(f"weft_{name}", FLAVOURS["c99"])
    taken = assembly_stack(f"weft_{name}")
    assert taken == moved(text, "push", "sub") == moved(text, "pop", "add") > 0
    assert f"/* {taken} bytes of the stack */" in text
    assert (calls, _OTHERS.findall(text)) == ((), [])


def test_helpers_in_c_are_counted_by_compilers():
    assert assembly_stack("weft_winograd_out") == assembly_stack("weft_f16_to_f32") == 0
