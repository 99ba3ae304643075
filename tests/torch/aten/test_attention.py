"""Rows of attention."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 3)
SEEN = torch.rand(2, 1, 5, 6) > 0.3
ADDED = torch.randn(5, 6)


def attention(**options: object):
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: torch.Tensor):
        return functional.scaled_dot_product_attention(q, k, v, *mask, **options)

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


@pytest.mark.parametrize("compiled", [False, True])
def test_the_ops_of_fast_paths(compiled: bool):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    first = nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
    ).eval()
    attend = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    cases = {
        "layer": (layer, x),
        "first": (first, x),
        "padded": (lambda x, hidden: layer(x, src_key_padding_mask=hidden), x, hidden),
        "attend": (lambda x: attend(x, x, x, need_weights=False)[0], x),
        "cpu": (
            lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
            *(Q, K, torch.randn(2, 4, 6, 8)),
        ),
    }
    check(cases, compiled=compiled)


def test_dropout_is_refused():
    (why,) = refusals(attention(dropout_p=0.5), Q, K, V)
    assert "dropout" in why
