"""``weft show``: what a file leaves open."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.commands import bad, good, record


@pytest.fixture
def text_model(tmp_path: Path) -> Path:
    """Two inputs that share two open sizes."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "sequence"])
        for name in ("ids", "mask")
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Add", ["ids", "mask"], ["y"])], "t", inputs, [output]
    )
    path = tmp_path / "text.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_it_says_what_must_be_given(text_model):
    assert bad("show", text_model) == (
        "error: onnx: only the leading dimension of an input may be open\n"
        "  got: ids[batch,sequence], mask[batch,sequence]\n"
        "  fix: Give what is open: --input sequence=SIZE; "
        'in Python: weft.load(path, {"sequence": SIZE})\n'
    )


def test_a_symbol_binds_all_inputs_and_an_open_batch_is_told(text_model):
    first, graph = good("show", text_model, "--input", "sequence=4").splitlines()[:2]
    assert first == (
        "// batch is open in ids, mask; here it is 1. "
        "Say --batch SIZE, or in Python net.compile(batch=SIZE)."
    )
    assert graph == "graph text(%ids: f32[1,4], %mask: f32[1,4]) -> (%y) {"
    bound = good("show", text_model, "--input", "sequence=4", "--input", "batch=2")
    assert bound.startswith("graph text(%ids: f32[2,4], %mask: f32[2,4]) -> (%y) {")
    stats = record("stats", text_model, "--input", "sequence=4", "--batch", "3")
    assert stats["layers"][0]["output"] == "f32[3,4]"
