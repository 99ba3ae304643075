# pyright: basic
"""Rows of normalizations."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

ROWS, LINE, IMAGE = torch.randn(3, 6), torch.randn(2, 6, 5), torch.randn(2, 6, 4, 3)
CUBE = torch.randn(1, 6, 2, 3, 2)


def trained(module: Any) -> Any:
    """A module with statistics and parameters that are not ones and zeros."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5)
    return module.eval()


@pytest.mark.parametrize("compiled", [False, True])
def test_normalizations(compiled: bool):
    native = torch.ops.aten
    cases = {
        "batch_rows": (trained(nn.BatchNorm1d(6)), ROWS),
        "batch_line": (trained(nn.BatchNorm1d(6, affine=False)), LINE),
        "batch_image": (trained(nn.BatchNorm2d(6, eps=1e-3)), IMAGE),
        "batch_cube": (trained(nn.BatchNorm3d(6)), CUBE),
        "batch_own": (trained(nn.BatchNorm2d(6, track_running_stats=False)), IMAGE),
        "batch_none": (
            lambda x: native._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[0],
            IMAGE,
        ),
        "response": (nn.LocalResponseNorm(3), IMAGE),
        "normalize": (lambda x: functional.normalize(x, dim=1), IMAGE),
        "layer": (trained(nn.LayerNorm(5)), LINE),
        "layer_plain": (nn.LayerNorm([4, 3], elementwise_affine=False), IMAGE),
        "layer_biasless": (trained(nn.LayerNorm([6, 4, 3], bias=False)), IMAGE),
        "native_layer": (lambda x: native.native_layer_norm(x, [5], None, None, 1e-5), LINE),
        "group": (trained(nn.GroupNorm(3, 6)), IMAGE),
        "group_plain": (nn.GroupNorm(2, 6, affine=False), LINE),
        "group_rows": (trained(nn.GroupNorm(2, 6)), ROWS),
        "native_group": (
            lambda x: native.native_group_norm(x, None, None, 2, 6, 12, 3, 1e-5)[0],
            IMAGE,
        ),
        "instance": (nn.InstanceNorm2d(6), IMAGE),
        "instance_affine": (trained(nn.InstanceNorm1d(6, affine=True)), LINE),
        "instance_tracked": (trained(nn.InstanceNorm2d(6, track_running_stats=True)), IMAGE),
        "rms": (trained(nn.RMSNorm(5)), LINE),
        "rms_plain": (lambda x: functional.rms_norm(x, (4, 3), eps=1e-3), IMAGE),
    }
    check(cases, compiled=compiled)


def test_weights_of_given_lengths():
    named = nn.utils.parametrizations.weight_norm
    cases = {
        "rows": (named(nn.Linear(6, 4)), ROWS),
        "columns": (named(nn.Linear(6, 4), dim=1), ROWS),
        "whole": (named(nn.Conv1d(6, 4, 3), dim=-1), LINE),
    }
    check(cases)


def test_changing_statistics_are_refused():
    mean, variance = torch.zeros(6), torch.ones(6)

    def train(x: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(x, mean, variance, training=True)

    assert any("changes its statistics" in why for why in refusals(train, IMAGE))
