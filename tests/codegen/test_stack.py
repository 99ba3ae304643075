"""The stack that a run takes: what compilers say, summed along the calls."""

from __future__ import annotations

import pytest

from weft.codegen.stack import Called, CallGraph, frames_of

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
