"""Constant factors and terms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.factors import CHEAPEN, FOLD


@pytest.mark.parametrize(
    ("weight", "layer", "size", "rule", "after"),
    [
        ("4,3,3,3", "Conv(%x, %w)", "1,4,6,6", "fold-multiply", "Conv(%x, %w_1)"),
        ("4,3,3,3", "Conv(%x, %w, %b)", "1,4,6,6", "fold-multiply", "Conv(%x, %w_1, %b_1)"),
        ("4,3,3,3", "Conv(%x, %w)", "1,4,6,6", "fold-add", "Conv(%x, %w_1, %k_1)"),
        (
            "3,4,3,3",
            "ConvTranspose(%x, %w)",
            "1,4,10,10",
            "fold-multiply",
            "ConvTranspose(%x, %w_1)",
        ),
        ("8,4", "MatMul(%x, %w)", "1,3,8,4", "fold-multiply", "MatMul(%x, %w_1)"),
    ],
)
def test_into_layers(weight: str, layer: str, size: str, rule: str, after: str) -> None:
    op = "Mul" if "mult" in rule else "Add"
    channels = "f32[4]" if "MatMul" in layer else "f32[4,1,1]"
    check(
        FOLD,
        f"""(%x: f32[1,3,8,8]) -> (%y) {{
            const %w: f32[{weight}]
            {"const %b: f32[4]" if "%b" in layer else ""}
            const %k: {channels}
            %c: f32[{size}] = {layer}
            %y: f32[{size}] = {op}(%k, %c)
        }}""",
        f"%y: f32[{size}] = {after.replace('%k_1', '%bias')}",
        {rule: 1},
    )


def test_before_layers() -> None:
    check(
        FOLD,
        """(%x: f32[1,4,8,8]) -> (%y) {
            const %w: f32[6,2,3,3]
            const %b: f32[6]
            const %k: f32[4,1,1]
            %m: f32[1,4,8,8] = Mul(%x, %k)
            %y: f32[1,6,8,8] = Conv(%m, %w, %b) {groups=2, pads=(1,1,1,1)}
        }""",
        "%y: f32[1,6,8,8] = Conv(%x, %w_1, %b) {pads=(1, 1, 1, 1), groups=2}",
        {"fold-multiply-before": 1},
    )
    check(
        FOLD,
        """(%x: f32[1,4,8,8]) -> (%y) {
            const %w: f32[4,2,3,3]
            const %k: f32[1,4,1,1]
            %m: f32[1,4,8,8] = Mul(%x, %k)
            %y: f32[1,4,10,10] = ConvTranspose(%m, %w) {groups=2}
        }""",
        "%y: f32[1,4,10,10] = ConvTranspose(%x, %w_1) {groups=2}",
        {"fold-multiply-before": 1},
    )
    check(
        FOLD,
        """(%x: f32[2,4]) -> (%y) {
            const %w: f32[3,4]
            const %b: f32[3]
            const %k: f32[4]
            %m: f32[2,4] = Add(%x, %k)
            %y: f32[2,3] = Gemm(%m, %w, %b) {transB=1, alpha=0.5, beta=3.0}
        }""",
        "%y: f32[2,3] = Gemm(%x, %w_1, %b_1) {alpha=0.5, transB=1}",
        {"fold-add-before": 1},
    )


def test_what_does_not_go_into_layers() -> None:
    head = """(%x: f32[1,4,8,8]) -> (%y) {
        const %w: f32[4,4,3,3]
        const %k: f32[8,8]
        const %j: f32[4,1,1]
    """
    check_refused(
        FOLD,
        head
        + """
            %c: f32[1,4,8,8] = Conv(%x, %w) {pads=(1,1,1,1)}
            %y: f32[1,4,8,8] = Mul(%c, %k)
        }""",
        ["fold-multiply at y was not applied: the constant is not one number per channel"],
    )
    check_refused(
        FOLD,
        head
        + """
            %a: f32[1,4,8,8] = Add(%x, %j)
            %y: f32[1,4,8,8] = Conv(%a, %w) {pads=(1,1,1,1)}
        }""",
        [
            "fold-add-before at y was not applied: "
            "the convolution pads with zeros, which must not be shifted"
        ],
    )
    check_refused(
        FOLD,
        head
        + """
            %a: f32[1,4,8,8] = Add(%x, %j)
            %y: f32[1,4,10,10] = ConvTranspose(%a, %w)
        }""",
        [
            "fold-add-before at y was not applied: "
            "a transposed convolution sums fewer taps at the border"
        ],
    )
    check_refused(
        FOLD,
        """(%x: f32[1,2,3]) -> (%y) {
            const %w: f32[3,4]
            const %k: f32[4]
            %c: f32[1,2,4] = MatMul(%x, %w)
            %y: f32[1,2,4] = Add(%c, %k)
        }""",
        [
            "fold-add at y was not applied: a product of more than two dimensions has no bias",
            "matmul-add-to-gemm at y was not applied: both factors must be matrices",
        ],
    )
    check_refused(
        FOLD,
        """(%x: f16[2,3]) -> (%y) {
            const %w: f16[3,4]
            const %k: f16[] = [60000.0]
            %c: f16[2,4] = MatMul(%x, %w)
            %y: f16[2,4] = Mul(%c, %k)
        }""",
        ["fold-multiply at y was not applied: the weights would not fit f16"],
    )


def test_product_and_term_are_one_gemm() -> None:
    check(
        FOLD,
        """(%a: f32[N,3], %b: f32[3,4]) -> (%y) {
            const %k: f32[4]
            %p: f32[N,4] = MatMul(%a, %b)
            %y: f32[N,4] = Add(%k, %p)
        }""",
        "%y: f32[N,4] = Gemm(%a, %b, %k)",
        {"matmul-add-to-gemm": 1},
    )


def test_constants_among_themselves() -> None:
    check(
        CHEAPEN,
        """(%x: f32[2,4]) -> (%y) {
            const %j: f32[4]
            const %k: f32[2,4]
            %m: f32[2,4] = Mul(%x, %j)
            %n: f32[2,4] = Mul(%k, %m)
            %o: f32[2,4] = Add(%n, %j)
            %y: f32[2,4] = Sub(%o, %k)
        }""",
        """
        %n: f32[2,4] = Mul(%x, %k_1)
        %y: f32[2,4] = Add(%n, %k_2_1)
        """,
        {"merge-multiply": 1, "subtract-to-add": 1, "merge-add": 1},
    )
    check_refused(
        CHEAPEN,
        """(%x: f32[2,4]) -> (%y) {
            const %j: f32[4]
            const %k: f32[2,1]
            %m: f32[2,4] = Mul(%x, %j)
            %y: f32[2,4] = Mul(%k, %m)
        }""",
        ["merge-multiply at y was not applied: together the constants would be larger"],
    )


def test_division() -> None:
    text = """(%x: f32[4]) -> (%y) {
        const %k: f32[4]
        %y: f32[4] = Div(%x, %k)
    }"""
    after = "%y: f32[4] = Mul(%x, %k_1)"
    exact = np.array([0.25, -8, 1, 2.0**100], np.float32)
    check(CHEAPEN, text, after, {"divide-by-power-of-two": 1}, k=exact)
    check(CHEAPEN, text, after, {"divide-by-constant": 1}, k=exact + np.float32(3))
    check_refused(
        CHEAPEN,
        text,
        [
            "divide-by-power-of-two at y was not applied: "
            "a divisor is no power of two whose reciprocal is a normal number",
            "divide-by-constant at y was not applied: "
            "a divisor has no reciprocal that is a normal number",
        ],
        k=np.array([1, 2, 0, 4], np.float32),
    )
    check_refused(
        CHEAPEN,
        """(%x: i32[4]) -> (%y) {
            const %k: i32[] = [2]
            %y: i32[4] = Div(%x, %k)
        }""",
        [],
    )


@pytest.mark.parametrize(
    ("power", "after"),
    [
        ("2.0", "%y: f32[4] = Mul(%x, %x)"),
        ("3.0", "%mul_out: f32[4] = Mul(%x, %x)\n%y: f32[4] = Mul(%mul_out, %x)"),
    ],
)
def test_powers(power: str, after: str) -> None:
    check(
        CHEAPEN,
        f"""(%x: f32[4]) -> (%y) {{
            const %k: f32[] = [{power}]
            %y: f32[4] = Pow(%x, %k)
        }}""",
        after,
        {"expand-power": 1},
    )


def test_a_factor_after_a_bias_multiplies_both() -> None:
    check(
        FOLD,
        """(%x: f32[1,2,3]) -> (%y) {
            const %w: f32[3,4]
            const %j: f32[4]
            const %k: f32[4]
            %c: f32[1,2,4] = MatMul(%x, %w)
            %a: f32[1,2,4] = Add(%j, %c)
            %y: f32[1,2,4] = Mul(%a, %k)
        }""",
        """
        %mul_out: f32[1,2,4] = MatMul(%x, %w_1)
        %y: f32[1,2,4] = Add(%mul_out, %j_1)
        """,
        {"multiply-before-add": 1, "fold-multiply": 1},
    )


@pytest.mark.parametrize(
    ("factors", "after"),
    [
        ("MatMul(%m, %b)", "MatMul(%a, %b)"),
        ("MatMul(%b, %m)", "MatMul(%b, %a)"),
    ],
)
def test_scale_after_product(factors: str, after: str) -> None:
    check(
        CHEAPEN,
        f"""(%a: f32[2,4,4], %b: f32[2,4,4]) -> (%y) {{
            const %k: f32[1]
            %m: f32[2,4,4] = Mul(%a, %k)
            %y: f32[2,4,4] = {factors}
        }}""",
        f"""
        %matmul_out: f32[2,4,4] = {after}
        %y: f32[2,4,4] = Mul(%matmul_out, %k)
        """,
        {"scale-after-product": 1},
    )


def test_scales_of_both_factors_after_product() -> None:
    check(
        CHEAPEN,
        """(%a: f32[2,3,4], %b: f32[2,5,4]) -> (%y) {
            const %k: f32[1]
            const %j: f32[1]
            %m: f32[2,3,4] = Mul(%a, %k)
            %n: f32[2,5,4] = Mul(%b, %j)
            %t: f32[2,4,5] = Transpose(%n) {perm=(0,2,1)}
            %y: f32[2,3,5] = MatMul(%m, %t)
        }""",
        """
        %transpose_out: f32[2,4,5] = Transpose(%b) {perm=(0, 2, 1)}
        %matmul_1_out: f32[2,3,5] = MatMul(%a, %transpose_out)
        %y: f32[2,3,5] = Mul(%matmul_1_out, %k_1)
        """,
        {"scale-after-product": 2, "merge-multiply": 1},
    )


def test_scale_stays_before_product() -> None:
    check_refused(
        CHEAPEN,
        """(%a: f32[2,3,4], %b: f32[2,4,5]) -> (%y) {
            const %k: f32[4]
            %m: f32[2,3,4] = Mul(%a, %k)
            %y: f32[2,3,5] = MatMul(%m, %b)
        }""",
        ["scale-after-product at y was not applied: the factor is not one number"],
    )
