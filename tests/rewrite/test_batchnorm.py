"""Batch normalization: folded into the layer beside it, or split."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.batchnorm import FOLD, SPLIT

PARAMETERS = """
    const %s: f32[4]
    const %h: f32[4]
    const %m: f32[4]
    const %v: f32[4]
"""


def test_after_convolution_with_a_symbolic_batch() -> None:
    graph, _ = check(
        FOLD,
        f"""(%x: f32[N,3,8,8]) -> (%y) {{
            const %w: f32[4,3,3,3]
            const %b: f32[4]
            {PARAMETERS}
            %c: f32[N,4,8,8] = Conv(%x, %w, %b) {{pads=(1,1,1,1)}}
            %y: f32[N,4,8,8] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        "%y: f32[N,4,8,8] = Conv(%x, %w_1, %b_1) {pads=(1, 1, 1, 1)}",
        {"fold-batch-norm": 1},
    )
    node = graph.nodes[0]
    assert node.name == "c"
    assert node.origin.sources == ("c", "y")
    assert node.origin.rules == ("fold-batch-norm",)


@pytest.mark.parametrize(
    ("weight", "layer", "after"),
    [
        ("f32[4,1,3,3]", "Conv(%x, %w) {groups=4}", "Conv(%x, %w_1, %bias) {groups=4}"),
        (
            "f32[4,2,3,3]",
            "ConvTranspose(%x, %w) {groups=2}",
            "ConvTranspose(%x, %w_1, %bias) {groups=2}",
        ),
    ],
)
def test_after_grouped_convolutions(weight: str, layer: str, after: str) -> None:
    size = "6,6" if "Transpose" not in layer else "10,10"
    check(
        FOLD,
        f"""(%x: f32[2,4,8,8]) -> (%y) {{
            const %w: {weight}
            {PARAMETERS}
            %c: f32[2,4,{size}] = {layer}
            %y: f32[2,4,{size}] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        f"%y: f32[2,4,{size}] = {after}",
        {"fold-batch-norm": 1},
    )


@pytest.mark.parametrize(
    ("layer", "after"),
    [
        (
            "Gemm(%x, %w, %b) {alpha=0.5, beta=2.0}",
            "Gemm(%x, %w_1, %b_1) {alpha=0.5}",
        ),
        ("MatMul(%x, %w)", "Gemm(%x, %w_1, %bias)"),
    ],
)
def test_after_products(layer: str, after: str) -> None:
    bias = "const %b: f32[1,4]" if "%b" in layer else ""
    check(
        FOLD,
        f"""(%x: f32[3,5]) -> (%y) {{
            const %w: f32[5,4]
            {bias}
            {PARAMETERS}
            %c: f32[3,4] = {layer}
            %y: f32[3,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        f"%y: f32[3,4] = {after}",
        {"fold-batch-norm": 1},
    )


def test_after_product_with_transposed_weights() -> None:
    check(
        FOLD,
        f"""(%x: f32[3,5]) -> (%y) {{
            const %w: f32[4,5]
            {PARAMETERS}
            %c: f32[3,4] = Gemm(%x, %w) {{transB=1}}
            %y: f32[3,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        "%y: f32[3,4] = Gemm(%x, %w_1, %bias) {transB=1}",
        {"fold-batch-norm": 1},
    )


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_with_channels_last(op: str) -> None:
    size = "6,6" if op == "Conv" else "10,10"
    check(
        FOLD,
        f"""(%x: f32[2,8,8,4]) -> (%y) {{
            const %w: f32[4,4,3,3]
            {PARAMETERS}
            %c: f32[2,{size},4] = {op}ChannelsLast(%x, %w)
            %y: f32[2,{size},4] = BatchNormalizationChannelsLast(%c, %s, %h, %m, %v)
        }}""",
        f"%y: f32[2,{size},4] = {op}ChannelsLast(%x, %w_1, %bias)",
        {"fold-batch-norm": 1},
    )


def test_normalized_along_another_axis() -> None:
    check_refused(
        FOLD,
        f"""(%x: f32[2,6,6,4]) -> (%y) {{
            const %w: f32[4,4,3,3]
            {PARAMETERS}
            %c: f32[2,4,4,4] = ConvChannelsLast(%x, %w)
            %y: f32[2,4,4,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        ["fold-batch-norm at y was not applied: the constant is not one number per channel"],
    )


def test_shared_weights_stay_for_the_other_layer() -> None:
    graph, _ = check(
        FOLD,
        f"""(%x: f32[1,4,8,8]) -> (%y, %z) {{
            const %w: f32[4,4,1,1]
            const %b: f32[4]
            {PARAMETERS}
            %c: f32[1,4,8,8] = Conv(%x, %w, %b)
            %y: f32[1,4,8,8] = BatchNormalization(%c, %s, %h, %m, %v)
            %d: f32[1,4,8,8] = Conv(%x, %w, %b)
            %z: f32[1,4,8,8] = BatchNormalization(%d, %h, %s, %m, %v)
            %e: f32[1,4,8,8] = Conv(%z, %w, %b)
            %f: f32[1,4,8,8] = Neg(%e)
        }}""".replace("-> (%y, %z)", "-> (%y, %z, %f)"),
        """
        %y: f32[1,4,8,8] = Conv(%x, %w_1, %b_1)
        %z: f32[1,4,8,8] = Conv(%x, %w_2, %b_2)
        %e: f32[1,4,8,8] = Conv(%z, %w, %b)
        %f: f32[1,4,8,8] = Neg(%e)
        """,
        {"fold-batch-norm": 2},
    )
    assert sorted(graph.constants) == ["b", "b_1", "b_2", "w", "w_1", "w_2"]


def test_before_layers() -> None:
    check(
        FOLD,
        f"""(%x: f32[2,4,6,6]) -> (%y) {{
            const %w: f32[6,2,3,3]
            {PARAMETERS}
            %n: f32[2,4,6,6] = BatchNormalization(%x, %s, %h, %m, %v)
            %y: f32[2,6,4,4] = Conv(%n, %w) {{groups=2}}
        }}""",
        "%y: f32[2,6,4,4] = Conv(%x, %w_1, %bias) {groups=2}",
        {"fold-batch-norm-before": 1},
    )
    check(
        FOLD,
        f"""(%x: f32[2,4]) -> (%y) {{
            const %w: f32[4,3]
            const %b: f32[3]
            {PARAMETERS}
            %n: f32[2,4] = BatchNormalization(%x, %s, %h, %m, %v)
            %y: f32[2,3] = Gemm(%n, %w, %b) {{alpha=2.0}}
        }}""",
        "%y: f32[2,3] = Gemm(%x, %w_1, %b_1) {alpha=2.0}",
        {"fold-batch-norm-before": 1},
    )


def test_two_consumers_of_the_convolution_keep_it() -> None:
    check_refused(
        FOLD,
        f"""(%x: f32[1,3,4,4]) -> (%y, %c) {{
            const %w: f32[4,3,1,1]
            {PARAMETERS}
            %c: f32[1,4,4,4] = Conv(%x, %w)
            %y: f32[1,4,4,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        [],
    )


def test_refusals() -> None:
    check_refused(
        FOLD,
        f"""(%x: f32[2,4,6,6]) -> (%y) {{
            const %w: f32[6,4,3,3]
            {PARAMETERS}
            %n: f32[2,4,6,6] = BatchNormalization(%x, %s, %h, %m, %v)
            %y: f32[2,6,6,6] = Conv(%n, %w) {{pads=(1,1,1,1)}}
        }}""",
        [
            "fold-batch-norm-before at y was not applied: "
            "the convolution pads with zeros, which must not be shifted"
        ],
    )
    check_refused(
        FOLD,
        f"""(%x: f32[1,3,4,4], %b: f32[4]) -> (%y) {{
            const %w: f32[4,3,1,1]
            {PARAMETERS}
            %c: f32[1,4,4,4] = Conv(%x, %w, %b)
            %y: f32[1,4,4,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        ["fold-batch-norm at y was not applied: the bias is not one constant for each channel"],
    )
    check_refused(
        FOLD,
        f"""(%x: f32[1,4,3]) -> (%y) {{
            const %w: f32[3,4]
            {PARAMETERS}
            %c: f32[1,4,4] = MatMul(%x, %w)
            %y: f32[1,4,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        ["fold-batch-norm at y was not applied: the constant is not one number per channel"],
    )


def test_a_broken_variance_is_left_alone() -> None:
    check_refused(
        (*FOLD, *SPLIT),
        f"""(%x: f32[1,3,4,4]) -> (%y) {{
            const %w: f32[4,3,1,1]
            {PARAMETERS}
            %c: f32[1,4,4,4] = Conv(%x, %w)
            %y: f32[1,4,4,4] = BatchNormalization(%c, %s, %h, %m, %v)
        }}""",
        [
            "fold-batch-norm at y was not applied: a factor or shift is not a finite number",
            "split-batch-norm at y was not applied: a factor or shift is not a finite number",
        ],
        v=np.array([1, -1, 1, 1], np.float32),
    )


def test_alone_with_channels_last() -> None:
    graph, _ = check(
        SPLIT,
        f"""(%x: f32[1,5,5,4]) -> (%y) {{
            {PARAMETERS}
            %y: f32[1,5,5,4] = BatchNormalizationChannelsLast(%x, %s, %h, %m, %v)
        }}""",
        "%mul_out: f32[1,5,5,4] = Mul(%x, %s_1)\n%y: f32[1,5,5,4] = Add(%mul_out, %h_1)",
        {"split-batch-norm": 1},
    )
    assert graph.types["s_1"].dims == (4,)


def test_alone_it_is_a_product_and_a_sum() -> None:
    check(
        SPLIT,
        f"""(%x: f32[N,4,6]) -> (%y) {{
            {PARAMETERS}
            %y: f32[N,4,6] = BatchNormalization(%x, %s, %h, %m, %v)
        }}""",
        """
        %mul_out: f32[N,4,6] = Mul(%x, %s_1)
        %y: f32[N,4,6] = Add(%mul_out, %h_1)
        """,
        {"split-batch-norm": 1},
    )
