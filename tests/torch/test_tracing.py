"""Modules as nets."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.torch.small import Small, image
from weft.errors import UserError
from weft.torch import trace


def test_a_net_computes_what_the_module_computes():
    module, x = Small().eval(), image()
    net = trace(module, x)
    assert (list(net.inputs), list(net.outputs)) == (["x"], ["output"])
    with torch.no_grad():
        np.testing.assert_allclose(net.reference(x.numpy())[0], module(x).numpy(), atol=1e-5)


def test_refusals():
    with pytest.raises(UserError) as error:
        trace(Small(), image())
    assert str(error.value) == (
        "a module that is traced changes no buffers and no inputs; "
        "got norm.running_mean, norm.running_var, norm.num_batches_tracked. "
        "Call eval() on it first."
    )

    class Unknown(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x[0, 0])

    with pytest.raises(UserError) as error:
        trace(Unknown(), image())
    assert str(error.value) == (
        "a network needs every op of the module imported; "
        "got linalg_inv: linalg_inv.default is not supported"
    )
