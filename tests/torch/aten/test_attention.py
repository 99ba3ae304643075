# pyright: basic
"""Rows of attention."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 3)
SEEN = torch.rand(2, 1, 5, 6) > 0.3
ADDED = torch.randn(5, 6)


def attention(**options: Any):
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *masks: torch.Tensor):
        mask = masks[0] if masks else None
        return functional.scaled_dot_product_attention(q, k, v, mask, **options)

    return function


@pytest.mark.parametrize("compiled", [False, True])
def test_attention(compiled: bool):
    none = SEEN.clone()
    none[0, 0, 2] = False
    cases = {
        "plain": (attention(), Q, K, V),
        "causal": (attention(is_causal=True), Q, K, V),
        "scaled": (attention(scale=0.1), Q, K, V),
        "seen": (attention(), Q, K, V, SEEN),
        "nothing_seen": (attention(), Q, K, V, none),
        "added": (attention(), Q, K, V, ADDED),
        "one_column": (attention(), Q, K, V, ADDED[:, :1]),
        "grouped": (attention(enable_gqa=True), Q, K[:, :2], V[:, :2]),
        "three": (attention(), Q[0], K[0], V[0], ADDED),
        "three_batches": (attention(), Q[0], K[0], V[0], ADDED.expand(4, 5, 6).contiguous()),
        "two": (attention(), Q[0, 0], K[0, 0], V[0, 0]),
        "five": (attention(), Q[None], K[None], V[None], SEEN[None]),
        "broadcast": (attention(), Q, K[:1], V[:1]),
    }
    check(cases, compiled=compiled)


def fast_layer(layer: nn.TransformerEncoderLayer, **mask: object):
    """A layer by the op that PyTorch runs it with in inference."""
    attend = layer.self_attn

    def function(x: torch.Tensor, *hidden: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._transformer_encoder_layer_fwd(
            x,
            attend.embed_dim,
            attend.num_heads,
            *(attend.in_proj_weight, attend.in_proj_bias),
            *(attend.out_proj.weight, attend.out_proj.bias),
            *(layer.activation_relu_or_gelu == 2, layer.norm_first, layer.norm1.eps),
            *(layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias),
            *(layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias),
            *hidden,
            *mask.values(),
        )

    return function


@pytest.mark.parametrize("compiled", [False, True])
def test_the_ops_of_fast_paths(compiled: bool):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    first = nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
    ).eval()
    own = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def attend(x: torch.Tensor, *hidden: torch.Tensor) -> torch.Tensor:
        weights = (own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias)
        options = {"mask": hidden[0], "mask_type": 1} if hidden else {}
        return torch.ops.aten._native_multi_head_attention(
            *(x, x, x, 8, 2, *weights), need_weights=False, **options
        )[0]

    cases = {
        "layer": (fast_layer(layer), x),
        "first": (fast_layer(first), x),
        "padded": (fast_layer(layer, mask_type=1), x, hidden),
        "attend": (attend, x),
        "attend_padded": (attend, x, hidden),
        "cpu": (
            lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
            *(Q, K, torch.randn(2, 4, 6, 8)),
        ),
    }
    check(cases, compiled=compiled)


def test_layers_as_they_are_exported():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    attend = nn.MultiheadAttention(8, 2, kdim=6, vdim=4).eval()
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x, key, value = torch.randn(2, 5, 8), torch.randn(3, 2, 6), torch.randn(3, 2, 4)
    cases = {
        "layer": (lambda x, hidden: layer(x, src_key_padding_mask=hidden), x, hidden),
        "attend": (attend, torch.randn(5, 2, 8), key, value),
    }
    check(cases)


def test_dropout_is_refused():
    (why,) = refusals(attention(dropout_p=0.5), Q, K, V)
    assert "dropout" in why
