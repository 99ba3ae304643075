"""`weft verify` compares compiled code with LiteRT's interpreter, value by value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.cli.commands import good, record
from tests.cli.commands import weft as run
from tests.frontends.litert.builder import Op, Sub, const, file
from tests.frontends.litert.cases import CASES, x
from tests.frontends.litert.test_states import counter, signed
from weft.api.rounded import compare_rounded
from weft.errors import UserError
from weft.frontends.litert import loading
from weft.frontends.litert.reading import parse
from weft.frontends.litert.session import Session


def test_float_values(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    ops = (Op("MUL", (0, 1), (2,), "MulOptions"), Op("SOFTMAX", (2,), (3,), "SoftmaxOptions"))
    ops[1].values = {"beta": 1.0}
    tensors = (x(2, 3), const(2.0, "float32"), x(2, 3), x(2, 3))
    path.write_bytes(file([Sub(tensors, ops, (0,), (3,))]))
    found = record("verify", path)
    assert found["against"] == "LiteRT"
    assert found["passed"]
    assert "t3" in {each["value"] for each in found["layers"]}


def test_quantized_values(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    one, two, out = (x(2, 3, dtype="int8"), x(2, 3, dtype="int8"), x(2, 3, dtype="int8", high=4))
    op = Op("ADD", (0, 1), (2,), "AddOptions")
    path.write_bytes(file([Sub((one, two, out), (op,), (0, 1), (2,))]))
    found = record("verify", path)
    assert found["passed"]
    assert found["steps"] == 1
    assert [each["value"] for each in found["layers"]] == ["t2"]
    found = record("verify", path, "--tolerance", "0.01")
    assert found["passed"]
    assert [each["value"] for each in found["layers"]] == ["t2"]


def test_states_begin_as_the_files_do(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(counter(1.5))
    assert record("verify", path)["passed"]


def test_signatures(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(signed())
    for name, output in (("add", "sum"), ("scale", "product")):
        found = record("verify", path, "--signature", name)
        assert found["passed"]
        assert output in {each["value"] for each in found["layers"]}
    assert "product" in good("show", path, "--signature", "scale")


def hybrid() -> bytes:
    """A fully connected layer whose weights alone are integers."""
    weight = const(np.arange(-30, 30).reshape(6, 10), "int8", scale=0.05)
    op = Op("FULLY_CONNECTED", (0, 1), (2,), "FullyConnectedOptions")
    return file([Sub((x(2, 10), weight, x(2, 6)), (op,), (0,), (2,))])


def test_inputs_are_quantized_as_litert_does(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(hybrid())
    found = record("verify", path, "--tolerance", "1e-6")
    assert found["passed"], found
    assert "MatMulInteger" in good("show", path)
    assert "MatMulInteger" not in good("show", path, "--float-activations")
    found = record("verify", path, "--float-activations", "--against", "reference")
    assert found["passed"], found
    assert "differs from LiteRT" in run("verify", path, "--float-activations").stdout


def test_float_activations_of_other_files() -> None:
    with pytest.raises(UserError) as error:
        weft.load("net.onnx", float_activations=True)
    assert "onnx files have no layers that quantize their inputs as they run" in str(error.value)


def test_files_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(counter(2.5))
    seen: list[int] = []
    monkeypatch.setattr(loading, "parse", lambda content: seen.append(1) or parse(content))
    net = weft.load(path)
    assert net.states
    assert len(seen) == 1


def layers(*scales: float) -> bytes:
    """Quantized additions, each of the sum before to itself, with these scales of the sums."""
    tensors = [x(40, dtype="int8")]
    tensors += [replace(x(40, dtype="int8"), scale=scale, zero=3) for scale in scales]
    ops = [Op("ADD", (at, at), (at + 1,), "AddOptions") for at in range(len(scales))]
    return file([Sub(tensors, ops, (0,), (len(scales),))])


def test_each_operator_is_given_the_values_of_litert(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(layers(0.05, 0.11, 0.2))
    net = weft.load(path)
    given = np.arange(40, dtype=np.int8)
    expected = dict(Session(path, net.graph.producers)({"t0": given}))
    one = "t1/quantize_out"
    expected[one] = expected[one] + np.int8(2)  # as if LiteRT had another result
    found = compare_rounded(net, {"t0": given}, expected, weft.Options())
    largest = {each.value: each.largest for each in found.operators}
    assert largest[one] in (1, 2, 3)
    assert largest["t2/quantize_out"] in (1, 2, 3)  # it read what it was given
    assert largest["t3"] <= 1
    assert [each.largest for each in found.code] == [0]


def test_steps_that_are_not_allowed(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    # LiteRT counts the weights of pixels in few bits; the layer in float does not.
    case = next(each for each in CASES if each.name == "RESIZE_BILINEAR" and each.steps > 50)
    path.write_bytes(case.content())
    result = run("verify", path, "--rounding", "float")
    assert result.exit_code == 3
    assert "differs from LiteRT operator by operator" in result.stdout
    assert "(allowed: 1 step, 0.0001 of the range)" in result.stdout
    assert "from the reference: 1 in integers by at most 0 steps" in result.stdout
    assert "agrees with LiteRT" in good("verify", path, "--steps", 500)
