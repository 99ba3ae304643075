"""What ops do on the side, written out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import assert_same, graph_of, infer, nodes_of, outputs_of
from weft.ir.verify import verify
from weft.recipes import apply
from weft.rewrite.rule import Exactness


def test_transposes_beside_gemm():
    graph = graph_of("""(%a: f32[4,2], %c: f32[2,3]) -> (%y, %z) {
      const %b: f32[3,4]
      %y: f32[2,3] = Gemm(%a, %b, %c) {alpha=2.0, transA=1, transB=1}
      %z: f32[2,2] = Gemm(%a, %a) {transA=1}
    }""")
    done = apply(graph, "explicit-transposes")
    verify(done, infer)
    assert [node.op for node in done.nodes] == ["Transpose", "Gemm", "Transpose", "Gemm"]
    assert "transA=1" not in str(nodes_of(done))
    assert_same(graph, done, Exactness.REASSOCIATING)
    assert apply(done, "explicit-transposes") is done


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_transposes_beside_recurrent_layers(op, gates):
    graph = graph_of(f"""(%x: f32[2,5,3], %h: f32[2,1,4]) -> (%y, %l) {{
      const %w: f32[1,{4 * gates},3]
      const %r: f32[1,{4 * gates},4]
      %y: f32[2,5,1,4], %l: f32[2,1,4] = {op}(%x, %w, %r, _, _, %h) {{hidden_size=4, layout=1}}
    }}""")
    done = apply(graph, "explicit-transposes")
    verify(done, infer)
    assert [node.op for node in done.nodes].count("Transpose") == 4
    assert_same(graph, done, Exactness.REASSOCIATING)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_casts_beside_half_precision(dtype):
    graph = graph_of(f"""(%x: {dtype}[1,3,6,6]) -> (%y, %m) {{
      const %w: {dtype}[4,3,3,3]
      const %b: {dtype}[4]
      %c: {dtype}[1,4,4,4] = Conv(%x, %w, %b)
      %r: {dtype}[1,4,4,4] = Sigmoid(%c)
      %y: {dtype}[1,4,4,4] = CastLike(%r, %w)
      %m: {dtype}[1,4,2,2] = MaxPool(%r) {{kernel=(2, 2), strides=(2, 2)}}
    }}""")
    done = apply(graph, "explicit-casts")
    verify(done, infer)
    by_op = {node.op: node for node in done.nodes}
    assert done.types[by_op["Conv"].outputs[0]].dtype.value == "f32"
    assert done.types[by_op["Sigmoid"].outputs[0]].dtype.value == "f32"
    assert done.types[by_op["MaxPool"].outputs[0]].dtype.value == dtype
    assert "CastLike" not in by_op
    assert_same(graph, done, Exactness.BIT_EXACT)
    assert apply(done, "explicit-casts") is done


def test_quantizers_beside_layers():
    graph = graph_of(
        """(%x: u8[1,4,5,5], %a: u8[3,4]) -> (%y, %p) {
          const %xs: f32[]
          const %xz: u8[]
          const %w: i8[6,2,3,3]
          const %ws: f32[6]
          const %wz: i8[6]
          const %ys: f32[]
          const %yz: u8[]
          const %b: i32[6]
          const %v: i8[4,5]
          const %vs: f32[5]
          const %vz: i8[5]
          %y: u8[1,6,3,3] = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {groups=2}
          %p: u8[3,5] = QLinearMatMul(%a, %xs, %xz, %v, %vs, %vz, %ys, %yz)
        }""",
        xs=np.array(0.5, np.float32),
        xz=np.array(3, np.uint8),
        ys=np.array(0.8, np.float32),
        yz=np.array(90, np.uint8),
        wz=np.zeros(6, np.int8),
        vz=np.zeros(5, np.int8),
    )
    done = apply(graph, "explicit-quantizers")
    verify(done, infer)
    made = {node.op for node in done.nodes}
    assert {"Conv", "MatMul", "QuantizeLinear", "DequantizeLinear"} <= made
    assert not {"QLinearConv", "QLinearMatMul"} & made
    for seed in range(3):
        expected, found = outputs_of(graph, seed), outputs_of(done, seed)
        for value, array in expected.items():
            assert len(np.unique(array)) > 4
            assert np.abs(found[value].astype(int) - array.astype(int)).max() <= 1
