"""``weft impls``: an op, a node, a model, the generators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import good, weft
from weft.kernels.generators import GENERATORS


def test_an_op():
    text = good("impls", "conv", "--target", "x86-avx512", "--dtype", "float32")
    assert "conv_out_channels_last f32[1,64,56,56]: Conv\n" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["generator", "alternative", "cycles", "adds", "up", "as"] in lines
    chosen = [line for line in lines if line[-1:] == ["chosen"]]
    assert chosen[0][0] == "winograd"
    assert ["map", "refused:", "something", "is", "reduced"] in lines


def test_an_op_as_asked():
    arguments = ("--input", "f32[1,8,9,9]", "--input", "f32[4,8,3,3]", "--exact")
    text = good("impls", "Conv", "strides=2,2", *arguments, "--target", "x86-avx2")
    assert "conv_out_channels_last f32[1,4,4,4]: Conv" in text
    assert "refused: it rounds more than the definition, and exact kernels were asked for" in text


def test_what_has_no_loops():
    assert "chosen: extern\nno loops to choose\n" in good("impls", "TopK", "k=3", "axis=1")


def test_a_model_and_a_node(digits: Path):
    lines = good("impls", digits, "--target", "x86-avx2").splitlines()
    assert lines[0].split()[:3] == ["node", "does", "makes"]
    assert lines[1].split()[:3] == ["/stem/stem.0/Conv", "Conv", "f32[1,16,8,8]"]
    text = good("impls", f"{digits}:/stem/stem.1/BatchNormalization", "--target", "x86-avx2")
    assert "nodes: /stem/stem.0/Conv\n" in text


def test_json(digits: Path):
    text = good("impls", f"{digits}:/stem/stem.0/Conv", "--target", "x86-avx2", "--json")
    (layer,) = json.loads(text)["layers"]
    answers = {each["generator"]: each for each in layer["answers"]}
    assert answers["tiled"]["refusal"] == ""
    assert answers["gates"]["refusal"] != ""
    chosen = [one["chosen"] for each in answers.values() for one in each["alternatives"]]
    assert sum(chosen) == 1
    assert [each["generator"] for each in json.loads(good("impls", "--json"))] == [*GENERATORS]


def test_the_generators():
    text = good("impls")
    for name, generator in GENERATORS.items():
        assert f"{name}: {generator.doc}\n" in text
        assert all(f"  needs: {need}\n" in text for need in generator.needs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("Clp",),
            "error: expected an op or a model file\n  got: Clp\n  fix: Did you mean Clip?\n",
        ),
        (
            ("conv", "stride=2"),
            "error: conv: there is no input or attribute stride\n"
            "  got: kernel, strides, dilations, pads, groups, x, w, b\n"
            "  fix: Did you mean strides?\n",
        ),
        (
            ("add", "--dtype", "float31"),
            "error: an element type is one of f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, "
            "u32, u64, bool\n  got: float31\n",
        ),
        (
            ("add", "--dtype", "i8", "--input", "i8[3]"),
            "error: --dtype is for inputs that are not given\n  got: i8 and --input\n",
        ),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str):
    result = weft("impls", *arguments)
    assert result.exit_code == 1
    assert result.stderr == message


def test_attributes_are_for_ops(digits: Path):
    result = weft("impls", digits, "strides=2")
    assert result.stderr == "error: attributes and --dtype are for ops\n  got: strides=2\n"
