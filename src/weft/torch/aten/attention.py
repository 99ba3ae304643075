# pyright: basic
"""Attention."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.torch.aten.linear import linear
from weft.torch.aten.normalization import layer_norm
from weft.torch.aten.record import Emit, aten


def _four(g: Emit, x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Batch, heads, length and width of an operand: two axes for all those before the length."""
    lead = batch if len(batch) == 2 else (prod(batch[:-1]), batch[-1]) if batch else (1, 1)
    if x.shape[:-2] != batch:
        x = g.expand(x, (*batch, *x.shape[-2:]))
    return g.reshape(x, (*lead, *x.shape[-2:]))


def attend(
    g: Emit,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Attention of operands with any axes before length and width."""
    leads = [each.shape[:-2] for each in (query, key, value)]
    if enable_gqa and query.rank >= 3:
        # Heads may differ; all other axes broadcast.
        batch = np.broadcast_shapes(*(lead[:-1] for lead in leads))
        wanted = [(*batch, lead[-1]) for lead in leads]
    else:
        wanted = [tuple(np.broadcast_shapes(*leads))] * 3
    q, k, v = (_four(g, each, lead) for each, lead in zip((query, key, value), wanted, strict=True))
    mask = attn_mask
    if mask is not None and (mask.rank > 4 or (mask.rank > 2 and len(wanted[0]) != 2)):
        mask = _four(g, mask, wanted[0])
    if mask is not None and mask.shape[-1] != k.shape[2]:
        mask = g.expand(mask, (*mask.shape[:-1], k.shape[2]))
    made = g("Attention", q, k, v, mask, is_causal=int(is_causal), scale=scale)
    return g.reshape(made, (*wanted[0], *made.shape[-2:]))


@aten("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    g: Emit,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p:
        g.refuse("dropout in attention is not supported")
    return attend(g, query, key, value, attn_mask, is_causal, scale, enable_gqa)


@aten(
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "_scaled_dot_product_attention_math.default",
)
def with_more(
    g: Emit,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor | None, ...]:
    if dropout_p:
        g.refuse("dropout in attention is not supported")
    return (attend(g, query, key, value, attn_mask, is_causal, scale, enable_gqa), None)


# --- whole layers, as torch.nn calls them in inference ----------------------------------------


def _seen(g: Emit, mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """What is seen, of a mask in which zeros are seen."""
    if mask is None:
        return None
    if mask_type == 1:
        # Of keys: [batch, keys].
        mask = g.reshape(mask, (mask.shape[0], 1, 1, mask.shape[1]))
    return g("Not", g.cast(mask, DType.BOOL))


def _heads(g: Emit, x: Tensor, count: int) -> Tensor:
    batch, length, width = x.shape
    return g.transpose(g.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def _self_attention(
    g: Emit,
    operands: tuple[Tensor, Tensor, Tensor],
    count: int,
    qkv: tuple[Tensor, Tensor],
    projection: tuple[Tensor, Tensor],
    mask: Tensor | None,
) -> Tensor:
    width = operands[0].shape[-1]
    parts: list[Tensor] = []
    for place, operand in enumerate(operands):
        weight, bias = (g.slice(each, 0, place * width, (place + 1) * width) for each in qkv)
        parts.append(_heads(g, linear(g, operand, weight, bias), count))
    made = g("Attention", *parts, mask)
    made = g.reshape(g.transpose(made, (0, 2, 1, 3)), operands[0].shape)
    return linear(g, made, *projection)


@aten("_native_multi_head_attention.default")
def native_multi_head_attention(
    g: Emit,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor | None, ...]:
    made = _self_attention(
        g,
        (query, key, value),
        num_head,
        (qkv_weight, qkv_bias),
        (proj_weight, proj_bias),
        _seen(g, mask, mask_type),
    )
    return (made, None)


@aten("_transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(
    g: Emit,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    seen = _seen(g, mask, mask_type)

    def attention(x: Tensor) -> Tensor:
        qkv, projection = (qkv_weight, qkv_bias), (proj_weight, proj_bias)
        return _self_attention(g, (x, x, x), num_heads, qkv, projection, seen)

    def feed(x: Tensor) -> Tensor:
        made = linear(g, x, ffn_weight_1, ffn_bias_1)
        return linear(g, g("Gelu" if use_gelu else "Relu", made), ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return layer_norm(g, x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return layer_norm(g, x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        made = g("Add", src, attention(first(src)))
        return g("Add", made, feed(second(made)))
    made = first(g("Add", src, attention(src)))
    return second(g("Add", made, feed(made)))
