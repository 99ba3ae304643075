"""Pools past pointwise convolutions."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.pooling import RULES

_NAME = "average-pool-before-pointwise"


@pytest.mark.parametrize(
    "pool",
    [
        "{kernel=(2, 2), strides=(2, 2)}",
        "{kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)}",
        "{kernel=(2, 3), strides=(3, 2), ceil_mode=1}",
        "{kernel=(2, 2), strides=(2, 2), count_include_pad=1}",
    ],
)
@pytest.mark.parametrize("bias", ["", "b"])
def test_before_a_pointwise_convolution(pool: str, bias: str) -> None:
    rows, columns = (3, 4) if "ceil_mode" in pool else (4, 4)
    operands = f"%w{', %b' if bias else ''}"
    check(
        RULES,
        f"""(%x: f32[N,6,8,8]) -> (%y) {{
            const %w: f32[4,3,1,1]
            {"const %b: f32[4]" if bias else ""}
            %c: f32[N,4,8,8] = Conv(%x, {operands}) {{groups=2}}
            %y: f32[N,4,{rows},{columns}] = AveragePool(%c) {pool}
        }}""",
        f"""
        %averagepool_out: f32[N,6,{rows},{columns}] = AveragePool(%x) {pool}
        %y: f32[N,4,{rows},{columns}] = Conv(%averagepool_out, {operands}) {{groups=2}}
        """,
        {_NAME: 1},
    )


def test_padding_that_counts_without_a_bias() -> None:
    pool = "{kernel=(3,), strides=(2,), pads=(1, 1), count_include_pad=1}"
    check(
        RULES,
        f"""(%x: f32[2,3,8]) -> (%y) {{
            const %w: f32[5,3,1]
            %c: f32[2,5,8] = Conv(%x, %w)
            %y: f32[2,5,4] = AveragePool(%c) {pool}
        }}""",
        f"""
        %averagepool_out: f32[2,3,4] = AveragePool(%x) {pool}
        %y: f32[2,5,4] = Conv(%averagepool_out, %w)
        """,
        {_NAME: 1},
    )


def test_global() -> None:
    check(
        RULES,
        """(%x: f32[1,3,4,4], %w: f32[5,3,1,1]) -> (%y) {
            %c: f32[1,5,4,4] = Conv(%x, %w)
            %y: f32[1,5,1,1] = GlobalAveragePool(%c)
        }""",
        """
        %globalaveragepool_out: f32[1,3,1,1] = GlobalAveragePool(%x)
        %y: f32[1,5,1,1] = Conv(%globalaveragepool_out, %w)
        """,
        {_NAME: 1},
    )


@pytest.mark.parametrize(
    ("pool", "size", "reason"),
    [
        ("{kernel=(3,), pads=(1, 1)}", 8, "the pool leaves as many elements as there were"),
        (
            "{kernel=(3,), strides=(2,), pads=(1, 1), count_include_pad=1}",
            4,
            "the pool counts padding, which the bias is not added to",
        ),
    ],
)
def test_refused(pool: str, size: int, reason: str) -> None:
    check_refused(
        RULES,
        f"""(%x: f32[1,3,8]) -> (%y) {{
            const %w: f32[5,3,1]
            const %b: f32[5]
            %c: f32[1,5,8] = Conv(%x, %w, %b)
            %y: f32[1,5,{size}] = AveragePool(%c) {pool}
        }}""",
        [f"{_NAME} at y was not applied: {reason}"],
    )


def test_wider_and_shared_convolutions_stay() -> None:
    check_refused(
        RULES,
        """(%x: f32[1,3,8]) -> (%y, %z) {
            const %w: f32[5,3,3]
            const %v: f32[5,5,1]
            %c: f32[1,5,6] = Conv(%x, %w)
            %d: f32[1,5,3] = AveragePool(%c) {kernel=(2,), strides=(2,)}
            %e: f32[1,5,3] = Conv(%d, %v)
            %y: f32[1,5,1] = AveragePool(%e) {kernel=(3,)}
            %z: f32[1,5,3] = Exp(%e)
        }""",
        [],
    )
