"""`weft verify` compares compiled code with LiteRT's interpreter, value by value."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import good, record
from tests.frontends.litert.builder import Op, Sub, const, file
from tests.frontends.litert.cases import x
from tests.frontends.litert.test_states import counter, signed


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
