# pyright: basic
"""Attention: with heads and projections, and the plain kinds."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.record import Config, Emit, Made, Tensor, layer


def _projection(
    g: Emit, c: Config, x: Tensor, part: str, inputs: int = 1
) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor times one of the layer's kernels, its last axes flattened, and their sizes."""
    name = "attention_output" if part == "output" else part
    names = ["kernel", *["bias"] * c.flag("use_bias", True)]
    kernel, *bias = g.arrays_of(*names, within=[(f"{part}_dense", name)])
    wide = int(np.prod(kernel.shape[:inputs]))
    made = g("MatMul", x, g.held(kernel.reshape(wide, -1), f"{part}/kernel"))
    if bias:
        made = g("Add", made, g.held(bias[0].reshape(-1), f"{part}/bias"))
    return made, kernel.shape[inputs:]


def _kept(g: Emit, mask: Tensor, *shape: int) -> Tensor:
    return g.reshape(g.cast(mask, DType.BOOL), shape)


def _pairs(
    g: Emit,
    query: Tensor,
    value: Tensor,
    given: Sequence[Tensor | None],
    window: int | None,
    causal: bool,
) -> Tensor | None:
    """Which queries see which keys, ``[batch or 1, queries, keys]``; nothing if all see all.

    Args:
        g: makes nodes.
        query: the queries.
        value: the values.
        given: masks of queries, of values, of keys, and of pairs.
        window: how far keys may be away.
        causal: whether later keys are hidden.
    """
    (batch, queries), keys = query.shape[:2], value.shape[1]
    of_queries, of_values, of_keys, of_pairs = given
    parts: list[Tensor] = []
    if of_queries is not None:
        parts.append(_kept(g, of_queries, batch, queries, 1))
    parts += [_kept(g, each, batch, 1, keys) for each in (of_values, of_keys) if each is not None]
    fixed = np.ones((queries, keys), bool)
    away = np.arange(queries)[:, None] - np.arange(keys)
    if causal:
        fixed &= away >= 0
    if window is not None:
        fixed &= np.abs(away) < window
    if not fixed.all():
        parts.append(g.held(fixed[None], "visible"))
    if of_pairs is not None:
        parts.append(g.cast(of_pairs, DType.BOOL))
    if not parts:
        return None
    made = parts[0]
    for each in parts[1:]:
        made = g("And", made, each)
    return made


def penalties(g: Emit, seen: Tensor, dtype: DType) -> Tensor:
    """What Keras adds to scores of queries and keys, of which only some are seen.

    A query that sees no key, as of a step that fills up, gets the mean of all values by them, where
    a mask of booleans would give it zeros.
    """
    zero = g.number(0, dtype)
    return g.where(seen, zero, -0.7 * (65500.0 if dtype is DType.F16 else 3.38953e38))


def _attend(
    g: Emit,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: tuple[int, int],
    scale: float,
    mask: Tensor | None,
) -> Tensor:
    """``[batch, steps, heads * size]`` each; the op shares heads of keys among those of queries."""
    if mask is not None:
        full = (q.shape[0], q.shape[1], k.shape[1])
        spread = mask if mask.rank > 3 else g.expand(mask, (mask.shape[0], *full[1:]))
        mask = g.reshape(spread, (spread.shape[0], 1, *full[1:])) if spread.rank == 3 else spread
    return g("Attention", q, k, v, mask, q_num_heads=heads[0], kv_num_heads=heads[1], scale=scale)


def _with_scores(
    g: Emit,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: tuple[int, int],
    scale: float,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Attention written out, for those that want the weights, ``[batch, heads, queries, keys]``."""

    def split(x: Tensor, count: int) -> Tensor:
        batch, steps, wide = x.shape
        made = g.transpose(g.reshape(x, (batch, steps, count, wide // count)), (0, 2, 1, 3))
        repeats = heads[0] // count
        if repeats == 1:
            return made
        shape = (batch, count, repeats, steps, wide // count)
        made = g.expand(g("Unsqueeze", made, axes=(2,)), shape)
        return g.reshape(made, (batch, heads[0], steps, wide // count))

    scores = g("MatMul", split(q, heads[0]), g.transpose(split(k, heads[1]), (0, 1, 3, 2)))
    scores = g.mul(scores, scale)
    if mask is not None:
        seen = g("Unsqueeze", mask, axes=(1,)) if mask.rank == 3 else mask
        weights = g("Softmax", g.where(seen, scores, -1e9), axis=-1)
        weights = g.where(seen, weights, 0.0) if g.major >= 3 else weights
    else:
        weights = g("Softmax", scores, axis=-1)
    made = g.transpose(g("MatMul", weights, split(v, heads[1])), (0, 2, 1, 3))
    return g.reshape(made, (*made.shape[:2], made.shape[2] * made.shape[3])), weights


@layer("MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention")
def heads_of_attention(
    g: Emit,
    c: Config,
    query: Tensor,
    value: Tensor,
    key: Tensor | None = None,
    query_mask: Tensor | None = None,
    value_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Made:
    c.heed(
        "num_heads", "num_query_heads", "num_key_value_heads", "key_dim", "value_dim", "head_dim",
        "output_shape", "attention_axes", "query_shape", "key_shape", "value_shape",
    )  # fmt: skip
    own_key = key is not None
    key = key if key is not None else value
    _check_axes(g, c, query)
    masks = (
        query_mask or g.mask(query),
        value_mask or g.mask(value),
        key_mask or (g.mask(key) if own_key else None),
        attention_mask,
    )
    window = c.size("sliding_window") if c.has("sliding_window") else None
    c.heed("sliding_window")
    seen = _pairs(g, query, value, masks, window, bool(use_causal_mask))
    (q, (count, size)), (k, (shared, _)), (v, _) = (
        _projection(g, c, _flat(g, x), part)
        for part, x in (("query", query), ("key", key), ("value", value))
    )
    scores: list[Tensor] = []
    if return_attention_scores:
        made, weights = _with_scores(g, q, k, v, (count, shared), 1 / sqrt(size), seen)
        scores = [weights]
    else:
        # Where Keras 3 takes a softmax of its own, a query that sees no key gets zeros.
        plain = c.number("dropout", 0.0) == 0 and query.rank == 3
        blind = any(each is not None for each in masks) and (plain or g.major < 3)
        if seen is not None and blind:
            seen = penalties(g, seen, q.dtype)
        made = _attend(g, q, k, v, (count, shared), 1 / sqrt(size), seen)
    if c.flag("use_gate"):
        gate, _ = _projection(g, c, _flat(g, query), "gate")
        made = g.mul(made, g("Sigmoid", gate))
    made, last = _projection(g, c, made, "output", inputs=2)
    made = g.reshape(made, (*query.shape[:-1], *last))
    if masks[0] is not None:
        g.masks[made.name] = masks[0]
    return [made, *scores] if scores else made


def _check_axes(g: Emit, c: Config, query: Tensor) -> None:
    axes = c.numbers("attention_axes") if c.has("attention_axes") else range(1, query.rank - 1)
    if sorted(g.axis(query, each) for each in axes) != list(range(1, query.rank - 1)):
        g.refuse("attention over some of the axes between batch and features is not supported")


def _flat(g: Emit, x: Tensor) -> Tensor:
    """``[batch, steps, features]``."""
    batch, *middle, features = x.shape
    return g.reshape(x, (batch, int(np.prod(middle)), features))


# --- without projections ------------------------------------------------------------------------


def _scale(g: Emit, c: Config, x: Tensor, concat: bool) -> list[Tensor]:
    """The learned scale, and the weight of the sum if there is one."""
    names = [*["scale"] * c.flag("use_scale"), *["concat_score_weight"] * concat]
    return [g.held(array, name) for array, name in zip(g.arrays_of(*names), names, strict=True)]


@layer("Attention", "AdditiveAttention")
def attention(
    g: Emit,
    c: Config,
    inputs: Sequence[Tensor],
    mask: Any = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Made:
    query, value, *rest = inputs
    key = rest[0] if rest else value
    # The class is known by a field that only one of them has.
    mode = c.text("score_mode", "additive")
    parameters = _scale(g, c, query, mode == "concat")
    scale = parameters[0] if c.flag("use_scale") else None
    if mode == "dot":
        turned = g.transpose(key, (*range(key.rank - 2), key.rank - 1, key.rank - 2))
        scores = g("MatMul", query, turned)
        scores = g("Mul", scores, scale) if scale is not None else scores
    else:
        each = g(
            "Add",
            g("Unsqueeze", query, axes=(query.rank - 1,)),
            g("Unsqueeze", key, axes=(key.rank - 2,)),
        )
        if mode == "concat":
            each = g("Mul", each, scale) if scale is not None else each
            each = g("Tanh", each)
            scores = g("ReduceSum", each, axes=(each.rank - 1,), keepdims=0)
            scores = g("Mul", scores, parameters[-1])
        else:
            each = g("Tanh", each)
            each = g("Mul", each, scale) if scale is not None else each
            scores = g("ReduceSum", each, axes=(each.rank - 1,), keepdims=0)
    masks = list(mask) if isinstance(mask, list | tuple) else [mask, None]
    seen = _pairs(g, query, value, (None, masks[1], None, None), None, bool(use_causal_mask))
    if seen is not None:
        scores = g.where(seen, scores, g.add(scores, -1e9))
    weights = g("Softmax", scores, axis=-1)
    made = g("MatMul", weights, value)
    if masks[0] is not None:
        kept = _kept(g, masks[0], *query.shape[:-1], 1)
        made = g.where(kept, made, 0.0)
        g.masks[made.name] = masks[0]
    return [made, weights] if return_attention_scores else made
