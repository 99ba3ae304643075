"""Transposes of rows moved around products with one matrix."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite import row_order, transposes, views
from weft.rewrite.row_order import RULES, split_of

SUNK, SPLIT, ABOVE = RULES


def test_below_a_product() -> None:
    check(
        RULES,
        """(%x: f32[2,3,4]) -> (%y) {
            const %w: f32[4,5]
            %t: f32[3,2,4] = Transpose(%x) {perm=(1,0,2)}
            %y: f32[3,2,5] = MatMul(%t, %w)
        }""",
        """
        %matmul_out: f32[2,3,5] = MatMul(%x, %w)
        %y: f32[3,2,5] = Transpose(%matmul_out) {perm=(1, 0, 2)}
        """,
        {"sink-transpose-below-product": 1},
    )


@pytest.mark.parametrize(
    ("weights", "perm", "made"), [("4,5", "(1,2,0)", "[3,4,5]"), ("3,4,5", "(1,0,2)", "[3,2,5]")]
)
def test_other_products_stay(weights: str, perm: str, made: str) -> None:
    shape = "4,3,4" if perm == "(1,2,0)" else "2,3,4"
    turned = "[3,4,4]" if perm == "(1,2,0)" else "[3,2,4]"
    check_refused(
        (SUNK,),
        f"""(%x: f32[{shape}]) -> (%y) {{
            const %w: f32[{weights}]
            %t: f32{turned} = Transpose(%x) {{perm={perm}}}
            %y: f32{made} = MatMul(%t, %w)
        }}""",
        [],
    )


def test_split_before() -> None:
    check(
        (*RULES, *views.RULES),
        """(%x: f32[5,2,12]) -> (%y) {
            %v: f32[5,8,3] = Reshape(%x) {shape=(5,8,3), allowzero=0}
            %t: f32[8,5,3] = Transpose(%v) {perm=(1,0,2)}
            %y: f32[2,4,5,3] = Reshape(%t) {shape=(2,4,5,3), allowzero=0}
        }""",
        """
        %reshape_out: f32[5,2,4,3] = Reshape(%x) {shape=(5, 2, 4, 3)}
        %y: f32[2,4,5,3] = Transpose(%reshape_out) {perm=(1, 2, 0, 3)}
        """,
        {"split-before-transpose": 1, "merge-views": 1},
    )


def test_a_view_that_joins_axes_stays() -> None:
    check_refused(
        (SPLIT,),
        """(%x: f32[2,3,4]) -> (%y) {
            %t: f32[3,2,4] = Transpose(%x) {perm=(1,0,2)}
            %y: f32[6,4] = Reshape(%t) {shape=(6,4), allowzero=0}
        }""",
        [],
    )


@pytest.mark.parametrize(
    ("dims", "into", "found"),
    [
        ((6, 4), (2, 3, 4), [(2, 3), (4,)]),
        ((1, 6, 1, 4), (6, 4), [(), (6,), (), (4,)]),
        ((6, 4), (1, 6, 1, 4, 1), [(1, 6), (1, 4, 1)]),
        ((1,), (1, 1), [(1, 1)]),
        ((), (), None),
        ((6, 4), (3, 8), None),
        ((6, 4), (24,), None),
    ],
)
def test_split_of(
    dims: tuple[int, ...], into: tuple[int, ...], found: list[tuple[int, ...]] | None
) -> None:
    assert split_of(dims, into) == found


ATTENDED = """(%a: f32[2,3,4]) -> (%y) {{
    const %w: f32[5,4]
    const %c: f32[{bias}]
    %v: f32[3,2,4] = {made}
    %r: f32[6,4] = Reshape(%v) {{shape=(6,4), allowzero=0}}
    %p: f32[6,5] = Gemm(%r, %w, %c) {{transB=1}}
    %s: f32[3,2,5] = Reshape(%p) {{shape=(3,2,5), allowzero=0}}
    %y: f32[2,3,5] = Transpose(%s) {{perm=(1,0,2)}}
}}"""
TURNED = "Transpose(%a) {perm=(1,0,2)}"


def test_above_a_product() -> None:
    check(
        (ABOVE, *transposes.RULES),
        ATTENDED.format(bias="5", made=TURNED),
        """
        %reshape_out: f32[6,4] = Reshape(%a) {shape=(6, 4)}
        %gemm_out: f32[6,5] = Gemm(%reshape_out, %w, %c) {transB=1}
        %y: f32[2,3,5] = Reshape(%gemm_out) {shape=(2, 3, 5)}
        """,
        {"transpose-before-gemm": 1, "merge-transposes": 1},
    )


@pytest.mark.parametrize(
    ("bias", "made", "why"),
    [
        ("6,1", TURNED, "what is added is not the same for all rows"),
        ("5", "Reshape(%a) {shape=(3,2,4), allowzero=0}", "no transpose above could take it in"),
    ],
)
def test_not_above(bias: str, made: str, why: str) -> None:
    check_refused(
        (ABOVE,),
        ATTENDED.format(bias=bias, made=made),
        [f"transpose-before-gemm at y was not applied: {why}"],
    )


SEQUENCE_FIRST = """(%x: i32[2,6,8]) -> (%y) {
    const %w: i32[8,24]
    const %b: i32[24]
    const %o: i32[8,8]
    const %c: i32[8]
    %t: i32[6,2,8] = Transpose(%x) {perm=(1,0,2)}
    %m: i32[6,2,24] = MatMul(%t, %w)
    %n: i32[6,2,24] = Add(%m, %b)
    %q: i32[6,8,6] = Reshape(%n) {shape=(6,8,6), allowzero=0}
    %h: i32[8,6,6] = Transpose(%q) {perm=(1,0,2)}
    %g: i32[2,4,6,6] = Reshape(%h) {shape=(2,4,6,6), allowzero=0}
    %s: i32[2,4,6,6] = MatMul(%g, %g)
    %i: i32[6,2,4,6] = Transpose(%s) {perm=(2,0,1,3)}
    %r: i32[36,8] = Reshape(%i) {shape=(36,8), allowzero=0}
    %p: i32[36,8] = Gemm(%r, %o, %c)
    %y: i32[36,8] = Relu(%p)
}"""


def test_a_sequence_in_front() -> None:
    """As PyTorch's ``MultiheadAttention`` is exported: only what a head needs is left."""
    check(
        (*row_order.RULES, *transposes.RULES, *views.RULES),
        SEQUENCE_FIRST,
        """
        %matmul_out: i32[2,6,24] = MatMul(%x, %w)
        %add_out: i32[2,6,24] = Add(%matmul_out, %b_1)
        %reshape_2_out: i32[2,6,4,6] = Reshape(%add_out) {shape=(2, 6, 4, 6)}
        %g: i32[2,4,6,6] = Transpose(%reshape_2_out) {perm=(0, 2, 1, 3)}
        %s: i32[2,4,6,6] = MatMul(%g, %g)
        %i: i32[6,2,4,6] = Transpose(%s) {perm=(2, 0, 1, 3)}
        %r: i32[36,8] = Reshape(%i) {shape=(36, 8)}
        %p: i32[36,8] = Gemm(%r, %o, %c)
        %y: i32[36,8] = Relu(%p)
        """,
        {
            "sink-transpose-below-product": 1,
            "sink-transpose-beside-constant": 1,
            "split-before-transpose": 2,
            "merge-views": 1,
            "merge-transposes": 1,
        },
    )
