"""Views in a row."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.views import RULES


@pytest.mark.parametrize(
    ("first", "shape", "second", "after"),
    [
        ("Flatten(%x) {axis=1}", "2,12", "Unsqueeze(%v) {axes=(0,)}", "1,2,12"),
        ("Unsqueeze(%x) {axes=(0,2)}", "1,2,1,3,4", "Squeeze(%v) {axes=(0,)}", "2,1,3,4"),
        ("Reshape(%x) {shape=(6,4)}", "6,4", "Reshape(%v) {shape=(4,-1)}", "4,6"),
    ],
)
def test_two_views(first: str, shape: str, second: str, after: str) -> None:
    dims = ", ".join(after.split(","))
    check(
        RULES,
        f"""(%x: f32[2,3,4]) -> (%y) {{
            %v: f32[{shape}] = {first}
            %y: f32[{after}] = {second}
        }}""",
        f"%y: f32[{after}] = Reshape(%x) {{shape=({dims})}}",
        {"merge-views": 1},
    )


def test_views_that_cancel() -> None:
    check(
        RULES,
        """(%a: f32[N,3,4]) -> (%y) {
            %x: f32[N,3,4] = Neg(%a)
            %v: f32[N,12] = Flatten(%x)
            %w: f32[N,3,4] = Reshape(%v) {shape=(0,3,4)}
            %y: f32[N,3,4] = Exp(%w)
        }""",
        "%x: f32[N,3,4] = Neg(%a)\n%y: f32[N,3,4] = Exp(%x)",
        {"merge-views": 1},
    )


def test_a_symbolic_batch_stays_in_front() -> None:
    check(
        RULES,
        """(%x: f32[N,3,4]) -> (%y, %v) {
            %v: f32[N,12] = Flatten(%x)
            %y: f32[N,2,6] = Reshape(%v) {shape=(-1,2,6)}
        }""",
        "%v: f32[N,12] = Flatten(%x)\n%y: f32[N,2,6] = Reshape(%x) {shape=(0, 2, 6)}",
        {"merge-views": 1},
    )


def test_an_empty_view() -> None:
    check(
        RULES,
        """(%x: f32[0,4]) -> (%y) {
            %v: f32[4,0] = Reshape(%x) {shape=(4,0), allowzero=1}
            %y: f32[2,0,5] = Reshape(%v) {shape=(2,0,5), allowzero=1}
        }""",
        "%y: f32[2,0,5] = Reshape(%x) {shape=(2, 0, 5), allowzero=1}",
        {"merge-views": 1},
    )


def test_transposes_that_move_nothing() -> None:
    check(
        RULES,
        """(%x: f32[2,1,3,1]) -> (%y) {
            %y: f32[1,2,1,3] = Transpose(%x) {perm=(1,0,3,2)}
        }""",
        "%y: f32[1,2,1,3] = Reshape(%x) {shape=(1, 2, 1, 3)}",
        {"transpose-to-reshape": 1},
    )
    check_refused(
        RULES,
        """(%x: f32[2,1,3,1]) -> (%y) {
            %y: f32[3,2,1,1] = Transpose(%x) {perm=(2,0,1,3)}
        }""",
        [],
    )
    # The batch may turn out to be more than one.
    check_refused(
        RULES,
        """(%x: f32[N,2,3]) -> (%y) {
            %y: f32[N,3,2] = Transpose(%x) {perm=(0,2,1)}
        }""",
        [],
    )


@pytest.mark.parametrize("constant", ["1,6,1,2,2", "3,1,2", "1"])
def test_a_constant_is_added_before_a_view(constant: str) -> None:
    check(
        RULES,
        f"""(%x: f32[6,3,2,2]) -> (%y) {{
            const %k: f32[{constant}]
            %v: f32[1,6,3,2,2] = Reshape(%x) {{shape=(1,6,3,2,2)}}
            %a: f32[1,6,3,2,2] = Add(%k, %v)
            %y: f32[6,3,2,2] = Reshape(%a) {{shape=(-1,3,2,2)}}
        }}""",
        "%y: f32[6,3,2,2] = Add(%x, %k_1)",
        {"add-before-view": 1},
    )


def test_a_constant_that_spreads_or_lies_otherwise_is_added_in_the_view() -> None:
    check_refused(
        RULES,
        """(%x: f32[6,3]) -> (%y) {
            const %k: f32[2,3,3]
            %v: f32[2,3,3] = Reshape(%x) {shape=(2,3,3)}
            %a: f32[2,3,3] = Add(%v, %k)
            %y: f32[6,3] = Reshape(%a) {shape=(6,3)}
        }""",
        [],
    )
