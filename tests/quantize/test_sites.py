"""Which values are quantized, which share a scale, and why the rest stays in floating point."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import graph_of
from weft.errors import UserError
from weft.quantize.config import QuantizationConfig, chosen_nodes, config_of
from weft.quantize.sites import QuantizationSites, find_sites


def sites(text: str, keep: tuple[str, ...] = (), **more: object) -> QuantizationSites:
    return find_sites(graph_of(text), keep, **more)


RESIDUAL = """(%x: f32[1,4,6,6]) -> (%y) {
    const %w: f32[4,4,3,3]
    const %b: f32[4]
    const %v: f32[4,4,1,1]
    %c: f32[1,4,6,6] = Conv(%x, %w, %b) {pads=(1, 1, 1, 1)}
    %r: f32[1,4,6,6] = Relu(%c)
    %m: f32[1,4,3,3] = MaxPool(%r) {kernel=(2, 2), strides=(2, 2)}
    %d: f32[1,4,3,3] = Conv(%m, %v)
    %a: f32[1,4,3,3] = Add(%d, %m)
    %y: f32[1,4,3,3] = Clip(%a) {min=0.0, max=6.0}
}"""


def test_activations_are_part_of_layers_and_pools_keep_the_scale():
    found = sites(RESIDUAL)
    assert found.values == ("x", "r", "m", "d", "y")
    assert found.members == {"x": ("x",), "r": ("r", "m"), "d": ("d",), "y": ("y",)}
    assert [(each.data, each.end, each.bias) for each in found.layers] == [
        ("x", "r", "b"),
        ("m", "d", None),
    ]
    assert not found.floats


def test_layers_on_request_stay_in_floating_point():
    found = sites(RESIDUAL, keep=("d",))
    assert [each.node.name for each in found.layers] == ["c"]
    assert found.floats == {"d": "kept in floating point on request"}
    # What is added to the float layer's output is quantized still.
    assert found.values == ("x", "r", "m", "d", "y")


def test_what_moves_elements_before_a_layer_is_quantized_too():
    found = sites(
        """(%x: f32[1,6,6,4]) -> (%y) {
    const %w: f32[4,4,3,3]
    %t: f32[1,4,6,6] = Transpose(%x) {perm=(0, 3, 1, 2)}
    %y: f32[1,4,4,4] = Conv(%t, %w)
}"""
    )
    assert found.members == {"x": ("x", "t"), "y": ("y",)}


def test_what_moves_elements_between_floats_stays():
    found = sites(
        """(%x: f32[4,6]) -> (%y, %z) {
    const %w: f32[6,2]
    %y: f32[4,2] = MatMul(%x, %w)
    %e: f32[4,6] = Exp(%x)
    %z: f32[6,4] = Transpose(%e) {perm=(1, 0)}
}"""
    )
    assert found.values == ("x", "y")
    assert found.floats == {
        "e": "Exp has no form of integers",
        "z": "what it reads is not quantized",
    }


def test_functions_have_fixed_ranges_where_they_are_no_outputs():
    text = """(%x: f32[4,6]) -> (%y, %s) {
    const %w: f32[6,5]
    const %v: f32[5,3]
    %a: f32[4,5] = MatMul(%x, %w)
    %t: f32[4,5] = Tanh(%a)
    %y: f32[4,3] = MatMul(%t, %v)
    %s: f32[4,3] = Softmax(%y)
}"""
    found = sites(text)
    assert found.fixed == {"t": (-1.0, 127 / 128)}
    assert found.floats == {"s": "it computes an output of the network"}
    assert sites(text, integer_io=True).fixed == {"t": (-1.0, 127 / 128), "s": (0.0, 255 / 256)}


def test_functions_without_a_known_range_are_calibrated():
    found = sites(
        """(%x: f32[1,3,4,4]) -> (%y) {
    const %w: f32[5,3,1,1]
    const %v: f32[2,5,1,1]
    %c: f32[1,5,4,4] = Conv(%x, %w)
    %h: f32[1,5,4,4] = HardSwish(%c)
    %p: f32[1,5,1,1] = GlobalAveragePool(%h)
    %y: f32[1,2,1,1] = Conv(%p, %v)
}"""
    )
    assert set(found.values) == {"x", "c", "h", "p", "y"}
    assert len(found.members) == 5
    assert not found.fixed
    assert not found.floats


def test_products_of_two_values_and_constants_that_are_added():
    found = sites(
        """(%x: f32[2,4,6]) -> (%y) {
    const %w: f32[6,6]
    const %b: f32[6]
    const %k: f32[2,4,6]
    %p: f32[2,4,6] = MatMul(%x, %w)
    %q: f32[2,4,6] = Add(%p, %b)
    %t: f32[2,6,4] = Transpose(%q) {perm=(0, 2, 1)}
    %a: f32[2,4,6] = Add(%q, %k)
    %y: f32[2,4,4] = MatMul(%a, %t)
}"""
    )
    assert set(found.values) == {"x", "q", "t", "k", "a", "y"}
    assert [each.bias for each in found.layers] == ["b"]
    assert found.members["q"] == ("q", "t")


def test_a_weight_that_is_computed_stays():
    found = sites("""(%x: f32[1,3,4,4], %w: f32[5,3,1,1]) -> (%y) {
    %y: f32[1,5,4,4] = Conv(%x, %w)
}""")
    assert found.floats == {"y": "its weight is no constant in floating point"}


@pytest.mark.parametrize(
    ("attributes", "inputs", "why"),
    [
        ("alpha=2.0", "%x, %w, %b", "the product is scaled or transposed"),
        ("beta=2.0", "%x, %w, %b", "what is added is not one constant for each output"),
        ("alpha=1.0", "%x, %w, %c", "what is added is not one constant for each output"),
    ],
)
def test_products_that_are_no_layers(attributes, inputs, why):
    text = f"""(%x: f32[4,6]) -> (%y) {{
    const %w: f32[6,2]
    const %b: f32[2]
    const %c: f32[4,2]
    %y: f32[4,2] = Gemm({inputs}) {{{attributes}}}
}}"""
    found = sites(text)
    assert not found.layers
    assert found.floats == {"y": why}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: chosen_nodes(["/conv3"], ["/conv1", "/conv2"], "keep_float"),
            "quantize: keep_float names no layer /conv3. Did you mean /conv2 or /conv1?",
        ),
        (
            lambda: config_of({"wieghts": 4}),
            "quantize: there is no option wieghts. Did you mean weights or weight_bits?",
        ),
        (
            lambda: config_of({"activations": 4}),
            "quantize: activations have 8 or 16 bits; got 4 bits",
        ),
        (lambda: config_of({"weights": 9}), "quantize: weights have 2 to 8 bits; got 9"),
        (
            lambda: QuantizationConfig(weight_bits={"a": 1}),
            "quantize: weights have 2 to 8 bits; got 1, 8",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UserError) as found:
        make()
    assert str(found.value) == message


def test_names_with_patterns():
    names = ["/a/conv", "/a/gemm", "/b/conv"]
    assert chosen_nodes(["/a/*"], names, "keep_float") == {"/a/conv", "/a/gemm"}
    assert chosen_nodes(["*conv", "/a/gemm"], names, "keep_float") == set(names)
