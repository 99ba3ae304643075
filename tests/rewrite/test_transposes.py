"""Transposes cancelled, merged and sunk."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.transposes import RULES


def test_cancelled() -> None:
    check(
        RULES,
        """(%a: f32[N,2,3,4]) -> (%y, %t) {
            %x: f32[N,2,3,4] = Neg(%a)
            %t: f32[N,3,4,2] = Transpose(%x) {perm=(0,2,3,1)}
            %u: f32[N,2,3,4] = Transpose(%t) {perm=(0,3,1,2)}
            %y: f32[N,2,3,4] = Exp(%u)
        }""",
        """
        %x: f32[N,2,3,4] = Neg(%a)
        %t: f32[N,3,4,2] = Transpose(%x) {perm=(0, 2, 3, 1)}
        %y: f32[N,2,3,4] = Exp(%x)
        """,
        {"merge-transposes": 1},
    )


def test_merged() -> None:
    check(
        RULES,
        """(%x: f32[2,3,4]) -> (%y) {
            %t: f32[4,3,2] = Transpose(%x)
            %y: f32[4,2,3] = Transpose(%t) {perm=(0,2,1)}
        }""",
        "%y: f32[4,2,3] = Transpose(%x) {perm=(2, 0, 1)}",
        {"merge-transposes": 1},
    )


def test_sunk_until_they_cancel() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[1,2,3,4]) -> (%y) {
            const %k: f32[2]
            const %s: f32[1] = [3.0]
            %t: f32[1,3,4,2] = Transpose(%x) {perm=(0,2,3,1)}
            %r: f32[1,3,4,2] = LeakyRelu(%t) {alpha=0.5}
            %a: f32[1,3,4,2] = Sub(%k, %r)
            %b: f32[1,3,4,2] = Mul(%a, %s)
            %y: f32[1,2,3,4] = Transpose(%b) {perm=(0,3,1,2)}
        }""",
        """
        %leakyrelu_out: f32[1,2,3,4] = LeakyRelu(%x) {alpha=0.5}
        %sub_out: f32[1,2,3,4] = Sub(%k_1, %leakyrelu_out)
        %y: f32[1,2,3,4] = Mul(%sub_out, %s_1)
        """,
        {"sink-transpose": 1, "sink-transpose-beside-constant": 2, "merge-transposes": 1},
    )
    assert graph.constants["k_1"].shape == (1, 2, 1, 1)


def test_equal_transposes_of_both_inputs() -> None:
    check(
        RULES,
        """(%a: f32[2,3], %b: f32[1,3]) -> (%y) {
            %s: f32[3,2] = Transpose(%a)
            %t: f32[3,1] = Transpose(%b) {perm=(1,0)}
            %y: f32[3,2] = Sub(%s, %t)
        }""",
        "%sub_out: f32[2,3] = Sub(%a, %b)\n%y: f32[3,2] = Transpose(%sub_out)",
        {"sink-transposes": 1},
    )


def test_one_transpose_as_both_inputs() -> None:
    check(
        RULES,
        """(%a: f32[2,3]) -> (%y) {
            %s: f32[3,2] = Transpose(%a)
            %y: f32[3,2] = Mul(%s, %s)
        }""",
        "%mul_out: f32[2,3] = Mul(%a, %a)\n%y: f32[3,2] = Transpose(%mul_out)",
        {"sink-transposes": 1},
    )


@pytest.mark.parametrize(
    ("rest", "reasons"),
    [
        (
            "%u: f32[3,2,2] = Transpose(%b) {perm=(2,1,0)}\n%y: f32[3,2,2] = Add(%t, %u)",
            ["sink-transposes at y was not applied: the inputs are transposed differently"],
        ),
        ("%y: f32[3,2,2] = Add(%t, %c)", []),
        ("%y: f32[3,2,2] = Softmax(%t)", []),
        (
            "%y: f32[1,3,2,2] = Add(%t, %k)",
            [
                "sink-transpose-beside-constant at y was not applied: "
                "the constant has more axes than the transposed value"
            ],
        ),
    ],
)
def test_not_sunk(rest: str, reasons: list[str]) -> None:
    check_refused(
        RULES,
        f"""(%a: f32[2,2,3], %b: f32[2,2,3], %c: f32[3,2,2]) -> (%y) {{
            const %k: f32[1,1,1,2]
            %t: f32[3,2,2] = Transpose(%a) {{perm=(2,0,1)}}
            {rest}
        }}""",
        reasons,
    )
