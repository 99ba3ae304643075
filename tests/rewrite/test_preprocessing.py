"""Images of bytes, channels last, before a convolution: scale, mean and deviation fold."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.rewrite.checks import assert_same, check, check_refused
from weft.ir.graph import Graph
from weft.rewrite.factors import FOLD
from weft.rewrite.padding import RULES as PADDING
from weft.rewrite.rule import Exactness

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def preprocessed(order: str, pad: int) -> weft.Net:
    """An image, the steps of ``order`` by their initials, and a convolution.

    cast, scale, mean, deviation, transpose, Pad; without a Pad the convolution pads.
    """
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32)
    bias = rng.normal(0, 0.2, 4).astype(np.float32)
    x = weft.input("x", "u8[1,6,7,3]")
    y, first = x, False
    for step in order:
        shape = (3, 1, 1) if first else (3,)
        if step == "c":
            y = weft.ops.cast(y, to="f32")
        elif step == "s":
            y = y / np.float32(255)
        elif step == "m":
            y = y - MEAN.reshape(shape)
        elif step == "d":
            y = y / DEVIATION.reshape(shape)
        elif step == "t":
            y, first = weft.ops.transpose(y, perm=(0, 3, 1, 2)), True
        else:
            sides = (0, 0, pad, pad) if first else (0, pad, pad, 0)
            y = weft.ops.pad(y, pads=sides * 2)
    rest = 0 if "p" in order else pad
    return weft.net([x], [weft.ops.conv(y, weights, bias, pads=(rest,) * 4)])


def operations(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize(
    "order", ["ctsmd", "tcsmd", "csmdt", "cstmd", "ctsmdp", "csmdpt", "csmptd", "csmtpd"]
)
def test_zeros_around_the_normalized_image(order: str) -> None:
    """What the convolution pads must not be shifted: the mean stays, in the pass of the cast."""
    net = preprocessed(order, pad=1)
    found = net.simplified()
    assert operations(found.graph) == ["Cast", "Add", "Transpose", "Conv"]
    assert found.graph.nodes[-1].attributes.pads == (1, 1, 1, 1)
    assert_same(net.graph, found.graph, Exactness.REASSOCIATING)


@pytest.mark.parametrize("order", ["ptcsmd", "tpcsmd", "pcsmdt", "ctpsmd", "cpstmd", "ctspmd"])
def test_zeros_around_the_bytes(order: str) -> None:
    """The shift is the same all over what is padded: the bias takes it."""
    net = preprocessed(order, pad=1)
    found = net.simplified()
    assert sorted(operations(found.graph)) == ["Cast", "Conv", "Transpose"]
    assert found.graph.nodes[-1].attributes.pads == (1, 1, 1, 1)
    assert_same(net.graph, found.graph, Exactness.REASSOCIATING)


@pytest.mark.parametrize("order", ["ctsmd", "csmdt", "cstmd"])
def test_no_padding(order: str) -> None:
    net = preprocessed(order, pad=0)
    found = net.simplified()
    assert operations(found.graph) == ["Cast", "Transpose", "Conv"]
    assert_same(net.graph, found.graph, Exactness.REASSOCIATING)


def test_compiled() -> None:
    net = preprocessed("ctsmd", pad=1)
    image = np.random.default_rng(1).integers(0, 256, (1, 6, 7, 3)).astype(np.uint8)
    (want,) = net.reference(image)
    np.testing.assert_allclose(net.compile(threads=1)(image), want, atol=1e-5)


def test_factor_past_term() -> None:
    text = """(%x: f32[1,4,8,8]) -> (%y) {
        const %w: f32[6,4,3,3]
        const %j: f32[4,1,1]
        const %k: f32[4,1,1]
        %m: f32[1,4,8,8] = Mul(%x, %j)
        %a: f32[1,4,8,8] = Add(%m, %k)
        %y: f32[1,6,8,8] = Conv(%a, %w) {pads=(1,1,1,1)}
    }"""
    after = """
        %add_out: f32[1,4,8,8] = Add(%x, %k_1)
        %y: f32[1,6,8,8] = Conv(%add_out, %w_1) {pads=(1, 1, 1, 1)}
    """
    check(FOLD, text, after, {"multiply-after-add": 1})
    check_refused(
        FOLD,
        text,
        [
            "fold-add-before at y was not applied: "
            "the convolution pads with zeros, which must not be shifted",
            "multiply-after-add at y was not applied: "
            "the term divided by the factor is not a finite number",
        ],
        j=np.array([1, 2, 0, 4], np.float32).reshape(4, 1, 1),
    )


def test_pad_of_bytes_that_are_not_zero_stays() -> None:
    check_refused(
        PADDING,
        """(%x: u8[1,6,6,2]) -> (%y) {
            const %w: f32[4,2,3,3]
            const %one: u8[] = [1]
            %p: u8[1,8,8,2] = Pad(%x, %one) {pads=(0,1,1,0,0,1,1,0)}
            %c: f32[1,8,8,2] = Cast(%p) {to=f32}
            %t: f32[1,2,8,8] = Transpose(%c) {perm=(0,3,1,2)}
            %y: f32[1,4,6,6] = Conv(%t, %w)
        }""",
        ["pad-into-conv-cast-transpose at y was not applied: the padding is not zero"],
    )
