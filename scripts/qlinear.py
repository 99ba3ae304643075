"""Rewrites a quantized model from QuantizeLinear/DequantizeLinear form into QLinearConv form.

    python scripts/qlinear.py kws_int8.onnx kws_qlinear.onnx

``DequantizeLinear -> Conv | MatMul [-> Add] [-> Relu] -> QuantizeLinear`` becomes one
QLinearConv: a product of one row is a convolution by a 1x1 window, and a Relu is what the
output's saturation does where its zero point is the smallest number of its type.  Everything
else stays as it is.  It needs nothing but onnx.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass
class Rewriter:
    """One run over a model."""

    model: onnx.ModelProto
    added: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}

    def run(self) -> onnx.ModelProto:
        """The model in QLinearConv form."""
        nodes: list[onnx.NodeProto] = []
        for node in self.model.graph.node:
            made = self.layer(node) if node.op_type == "QuantizeLinear" else None
            nodes += made or [node]
        graph = self.model.graph
        kept = _live(nodes, [each.name for each in graph.output])
        del graph.node[:]
        graph.node.extend(kept)
        used = {name for node in kept for name in node.input}
        initializers = [each for each in (*graph.initializer, *self.added) if each.name in used]
        del graph.initializer[:]
        graph.initializer.extend(initializers)
        onnx.checker.check_model(self.model)
        return self.model

    def layer(self, quantize: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The nodes that stand for the layer whose output is quantized here."""
        below = self.maker(quantize.input[0])
        if below is not None and below.op_type == "Relu":
            zero = self.arrays[quantize.input[2]]
            if zero != np.iinfo(zero.dtype).min:
                return None
            below = self.maker(below.input[0])
        bias = ""
        if below is not None and below.op_type == "Add":
            bias, below = below.input[1], self.maker(below.input[0])
        if below is None or below.op_type not in ("Conv", "MatMul"):
            return None
        if below.op_type == "Conv" and len(below.input) > 2:
            bias = below.input[2]
        data, weight = self.maker(below.input[0]), self.maker(below.input[1])
        if not (_dequantizes(data) and _dequantizes(weight)):
            return None
        assert data is not None
        assert weight is not None
        inputs = [*data.input, *weight.input, *quantize.input[1:]]
        if bias:
            inputs.append(self.sum_bias(bias, data, weight))
        output = quantize.output[0]
        if below.op_type == "Conv":
            made = helper.make_node("QLinearConv", inputs, [output], output)
            made.attribute.extend(below.attribute)
            return [made]
        return self.product(inputs, output)

    def product(self, inputs: list[str], output: str) -> list[onnx.NodeProto]:
        """A matrix product of one row as a convolution between two reshapes."""
        weight = self.arrays[inputs[3]]
        depth, columns = weight.shape
        inputs[3] = self.constant(f"{inputs[3]}_oihw", weight.T.reshape(columns, depth, 1, 1))
        image = self.constant(f"{output}_image", np.array([1, depth, 1, 1], np.int64))
        row = self.constant(f"{output}_row", np.array([1, columns], np.int64))
        before, after = f"{inputs[0]}_image", f"{output}_conv"
        return [
            helper.make_node("Reshape", [inputs[0], image], [before]),
            helper.make_node("QLinearConv", [before, *inputs[1:]], [after], output),
            helper.make_node("Reshape", [after, row], [output]),
        ]

    def sum_bias(self, bias: str, data: onnx.NodeProto, weight: onnx.NodeProto) -> str:
        """The name of the bias as whole numbers; its scale must be that of the products."""
        found = self.maker(bias)
        if not _dequantizes(found):
            raise SystemExit(f"{bias} is no dequantized bias")
        assert found is not None
        product = self.arrays[data.input[1]] * self.arrays[weight.input[1]]
        if not np.allclose(self.arrays[found.input[1]], product, rtol=1e-5):
            raise SystemExit(f"{bias} has a scale of its own")
        return found.input[0]

    def maker(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a value."""
        return self.makers.get(name)

    def constant(self, name: str, array: np.ndarray) -> str:
        """A new initializer."""
        self.added.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def _dequantizes(node: onnx.NodeProto | None) -> bool:
    return node is not None and node.op_type == "DequantizeLinear"


def _live(nodes: list[onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    """Nodes that some output needs, in their order."""
    wanted = set(outputs)
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(node.input)
    return kept[::-1]


def main() -> None:
    """``qlinear.py IN OUT``."""
    source, target = sys.argv[1:]
    onnx.save(Rewriter(onnx.load(source)).run(), target)


if __name__ == "__main__":
    main()
