"""The converted graph computes what the module computes, in Weft and in onnxruntime."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weft
from tests.torch.qat.nets import apart, images, residual
from weft.errors import UserError
from weft.torch import convert, prepare_qat

ort = pytest.importorskip("onnxruntime")
exact_options = pytest.importorskip("tests.exact_sessions").exact_options


@pytest.mark.parametrize("method", ["lsq", "sat"])
@pytest.mark.parametrize(("bits", "between"), [(8, 8), (4, 8), (2, None)])
def test_the_graph_gives_what_the_module_gives(method, bits, between, tmp_path):
    module: Any = prepare_qat(
        residual(), images(), weights=bits, activations=bits, method=method, between=between
    )
    x = images()
    module.train()(x).sum().backward()
    module.eval()
    net = convert(module, x[:1])
    with torch.no_grad():
        expected = module(x).numpy()
    given, weights = module.head.input_quantizer.step, module.head.weight_quantizer
    # One step of an output, or of an input that was about to be rounded to another one.
    step = (
        module.head.output_quantizer.step
        if between
        else given * 127 * weights.scale(module.head.weight)
    )
    step = 1.01 * float(step.detach().max())
    by_image = apart(net, module, x)
    assert by_image.max() < step
    assert (by_image < 1e-5).mean() > 0.9
    net.save(tmp_path / "q.onnx")
    path, options = tmp_path / "q.onnx", exact_options()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    by_ort = np.concatenate([session.run(None, {"x": each[None].numpy()})[0] for each in x])
    assert np.abs(by_ort - expected).max() < step


def test_every_layer_becomes_one_of_integers():
    module = prepare_qat(residual(), images())
    net = convert(module, images(1))
    integers = net.apply("integers")
    ops = [node.op for node in integers.graph.nodes]
    assert ops.count("QLinearConv") == 4
    assert not {"Conv", "Gemm", "MatMul", "BatchNormalization"} & set(ops)
    x = images(1)
    compiled = integers.simplified().compile()
    assert np.array_equal(np.asarray(compiled(x.numpy())), integers.reference(x.numpy())[0])


def test_weights_are_those_of_the_module_in_the_range_of_their_bits():
    module: Any = prepare_qat(residual(), images())
    net = convert(module, images(1))
    stored = [each for each in net.graph.constants.values() if each.dtype == np.int8 and each.ndim]
    largest = sorted((each.shape, int(np.abs(each.astype(int)).max())) for each in stored)
    assert largest == [
        ((5, 32), 127),
        ((8, 1, 3, 3), 7),
        ((8, 2, 3, 3), 127),
        ((8, 8, 1, 1), 7),
    ]


def test_a_linear_layer_of_sequences_and_a_sequence_of_inputs():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

        def forward(self, x: torch.Tensor, more: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": self.down(nn.functional.gelu(self.up(x))) + more}

    x, more = torch.randn(3, 5, 6), torch.randn(3, 5, 6)
    module: Any = prepare_qat(Two(), (x, more))
    net = convert(module, (x, more))
    assert list(net.outputs) == ["sum"]
    with torch.no_grad():
        expected = module.eval()(x, more)["sum"].numpy()
    made = net.reference(x.numpy(), more.numpy())[0]
    assert np.abs(made - expected).max() <= 1.01 * float(module.down.output_quantizer.step.detach())


def test_a_module_that_was_not_prepared():
    with pytest.raises(UserError) as error:
        convert(residual(), images(1))
    assert str(error.value) == (
        "convert takes a module that prepare_qat returned; got Residual. "
        "prepared = weft.torch.prepare_qat(module, example)"
    )


def test_bits_that_are_still_learned():
    module: Any = prepare_qat(residual(), images(), budget=weft.torch.Budget(mean_bits=4))
    with torch.no_grad():
        module.pointwise.weight_quantizer.bits.fill_(3.4)
    with pytest.raises(UserError) as error:
        convert(module, images(1))
    assert str(error.value) == (
        "bits must be whole numbers to be exported; got 3.40 bits in pointwise. "
        "Call weft.torch.freeze_bits(module), and train on for a few epochs."
    )
