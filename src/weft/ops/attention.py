"""Attention, expanded so that fusion sees the products and the softmax between them.

Scores are computed in ``f32`` for half types and rounded at the outputs.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, TensorType
from weft.ops.accumulate import exact, floating
from weft.ops.record import Builder, Call, Expand, Op, Param
from weft.ops.steps import Steps
from weft.ops.support import at_rank, known
from weft.records import dataclass

Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS = range(7)
"""Positions of the inputs."""


@dataclass(frozen=True, slots=True)
class AttentionAttributes(Attributes):
    """Of ``Attention``.

    Attributes:
        scale: of the scores; ``None`` is one over the root of the head size.
        is_causal: 1 hides the keys after each query.
        q_num_heads: heads of packed (three-dimensional) queries.
        kv_num_heads: heads of packed keys and values.
        softcap: bound of the scores by tanh; 0 for none.
        softmax_precision: ``f64`` computes the softmax in it; others make no difference.
        qk_matmul_output_mode: what the fourth output is: 0 scaled products, 1 after the
            bound, 2 after the mask, 3 after the softmax.
        left_window_size: keys further before the query are hidden; -1 for none.
        right_window_size: keys further after the query are hidden; -1 for none.
    """

    scale: float | None = None
    is_causal: int = 0
    q_num_heads: int = 0
    kv_num_heads: int = 0
    softcap: float = 0.0
    softmax_precision: DType | None = None
    qk_matmul_output_mode: int = 0
    left_window_size: int = -1
    right_window_size: int = -1


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of one use; ``keys`` counts the past ones too."""

    batch: Dim
    heads: int
    groups: int
    queries: int
    past: int
    keys: int
    width: int
    value_width: int
    packed: bool


def _unpacked(call: Call, position: int, heads: int, name: str) -> tuple[Dim, int, int, int]:
    """Batch, heads, length and width of an operand of either layout."""
    found = call.type(position)
    if len(found.shape) == 4:
        batch, *rest = found.shape
        count, length, width = (known(call, dim) for dim in rest)
        return batch, count, length, width
    if len(found.shape) != 3:
        raise call.error(f"{name} must have 3 or 4 dimensions", got=f"{name} {found}")
    batch, length, width = found.shape
    total = known(call, width)
    if heads < 1 or total % heads:
        raise call.error(f"{heads} heads must divide the width of {name}", got=f"{name} {found}")
    return batch, heads, known(call, length), total // heads


def _sizes(call: Call) -> _Sizes:
    a: AttentionAttributes = call.attributes
    batch, heads, queries, width = _unpacked(call, Q, a.q_num_heads, "q")
    _, groups, length, key_width = _unpacked(call, K, a.kv_num_heads, "k")
    _, value_groups, value_length, value_width = _unpacked(call, V, a.kv_num_heads, "v")
    got = f"q {call.type(Q)}, k {call.type(K)}, v {call.type(V)}"
    if width != key_width or (groups, length) != (value_groups, value_length):
        raise call.error("q and k must agree in width, k and v in heads and length", got=got)
    if groups < 1 or heads % groups:
        raise call.error(f"{groups} heads of keys must divide {heads} of queries", got=got)
    past = 0
    if call.has(PAST_KEY) or call.has(PAST_VALUE):
        past_key = at_rank(call, PAST_KEY, 4)
        past = known(call, past_key.shape[2])
        for position, size in ((PAST_KEY, key_width), (PAST_VALUE, value_width)):
            if call.type(position).shape[1:] != (groups, past, size):
                raise call.error(
                    f"the past must be [batch,{groups},length,{size}]",
                    got=str(call.type(position)),
                )
    packed = len(call.type(Q).shape) == 3
    return _Sizes(batch, heads, groups, queries, past, past + length, width, value_width, packed)


def _check_mask(call: Call, sizes: _Sizes) -> None:
    if not call.has(MASK):
        return
    mask = call.type(MASK)
    target: tuple[Dim, ...] = (sizes.batch, sizes.heads, sizes.queries)
    rows = mask.shape[:-1]
    fits = 1 <= len(mask.shape) <= 4 and all(
        dim in (1, wanted) for dim, wanted in zip(rows[::-1], target[::-1], strict=False)
    )
    if not fits or known(call, mask.shape[-1]) > sizes.keys:
        raise call.error(
            f"the mask must broadcast to [{','.join(map(str, target))},{sizes.keys}]",
            got=f"mask {mask}",
        )
    if mask.dtype is not DType.BOOL and not mask.dtype.is_float:
        raise call.error("the mask must be bool or floating-point", got=f"mask {mask}")


def _infer_attention(call: Call) -> tuple[TensorType, ...]:
    q = floating(call)
    sizes = _sizes(call)
    _check_mask(call, sizes)
    if not 0 <= call.attributes.qk_matmul_output_mode <= 3:
        raise call.error(
            "qk_matmul_output_mode must be 0, 1, 2 or 3",
            got=str(call.attributes.qk_matmul_output_mode),
        )
    if call.has(LENGTHS) and at_rank(call, LENGTHS, 1).shape[0] != sizes.batch:
        raise call.error("there must be one length of keys for each entry of the batch")
    if call.has(LENGTHS) and call.has(PAST_KEY):
        raise call.error("lengths of keys cannot be given together with a past")
    lead = (sizes.batch, sizes.groups, sizes.keys)
    shape: tuple[Dim, ...] = (sizes.batch, sizes.heads, sizes.queries, sizes.value_width)
    if sizes.packed:
        shape = (sizes.batch, sizes.queries, sizes.heads * sizes.value_width)
    types = (
        TensorType(q.dtype, shape),
        TensorType(call.type(K).dtype, (*lead, sizes.width)),
        TensorType(call.type(V).dtype, (*lead, sizes.value_width)),
        TensorType(q.dtype, (sizes.batch, sizes.heads, sizes.queries, sizes.keys)),
    )
    return types[: max(1, call.outputs)]


def _scale(call: Call, sizes: _Sizes) -> float:
    scale = call.attributes.scale
    return 1 / sqrt(sizes.width) if scale is None else float(scale)


# --- expansion ------------------------------------------------------------------------------


def _heads(steps: Steps, x: str, heads: int) -> str:
    """``[batch, heads, length, width]`` of an operand of either layout."""
    if steps.rank(x) == 4:
        return x
    length, total = (dim for dim in steps.builder.types[x].shape[1:] if isinstance(dim, int))
    return steps.transpose(steps.reshape(x, (0, length, heads, total // heads)), (0, 2, 1, 3))


def _regrouped(steps: Steps, x: str, shape: tuple[int, int, int]) -> str:
    """The value with other dimensions after the first, if they are others."""
    same = steps.builder.types[x].shape[1:] == shape
    return x if same else steps.reshape(x, (0, *shape))


def _frontier(call: Call, steps: Steps, sizes: _Sizes, lengths: str) -> list[str]:
    """The conditions on which a key is seen that follow from positions alone."""
    a = call.attributes
    left, right = a.left_window_size, a.right_window_size
    if a.is_causal:
        right = 0 if right < 0 else min(right, 0)
    found: list[str] = []
    keys = steps.constant(np.arange(sizes.keys, dtype=np.int64))
    if left >= 0 or right >= 0:
        places = np.arange(sizes.queries, dtype=np.int64)[:, None] + sizes.past
        position = steps.constant(places)
        if lengths:
            position = steps.add(position, steps.sub(lengths, sizes.queries))
        if right >= 0:
            last = steps.add(position, right) if right else position
            found.append(steps.op("LessOrEqual", keys, last))
        if left >= 0:
            found.append(steps.op("LessOrEqual", steps.sub(position, left), keys))
    if lengths:
        found.append(steps.op("Less", keys, lengths))
    return found


def _masked(call: Call, steps: Steps, sizes: _Sizes, scores: str, mask: str, lengths: str) -> str:
    """The scores with the mask added and ``-inf`` where a key is not seen."""
    if lengths:
        lengths = steps.unsqueeze(steps.cast(lengths, DType.I64), 1, 2, 3)
    seen = _frontier(call, steps, sizes, lengths)
    if mask:
        missing = sizes.keys - known(call, call.type(MASK).shape[-1])
        if missing:
            pads = (*(0,) * (2 * steps.rank(mask) - 1), missing)
            seen.append(
                steps.constant(np.arange(sizes.keys, dtype=np.int64) < sizes.keys - missing)
            )
            mask = steps.op("Pad", mask, pads=pads)
        if steps.dtype(mask) is DType.BOOL:
            seen.append(mask)
        else:
            scores = steps.add(scores, steps.cast(mask, steps.dtype(scores)))
    for condition in seen:
        hidden = steps.scalar(-np.inf, steps.dtype(scores))
        scores = steps.op("Where", condition, scores, hidden)
    return scores


def _softmax(steps: Steps, scores: str, guarded: bool) -> str:
    """Softmax in which a row of ``-inf`` gives zeros (if there may be one)."""
    largest = steps.reduce("ReduceMax", scores, (-1,))
    if guarded:
        zero = steps.scalar(0, steps.dtype(scores))
        nothing = steps.pair("Equal", largest, -np.inf)
        largest = steps.op("Where", nothing, zero, largest)
    powers = steps.op("Exp", steps.sub(scores, largest))
    total = steps.reduce("ReduceSum", powers, (-1,))
    if guarded:
        one = steps.scalar(1, steps.dtype(scores))
        total = steps.op("Where", steps.pair("Equal", total, 0.0), one, total)
    return steps.div(powers, total)


def _expand_attention(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps, sizes = Steps(builder), _sizes(call)
    a: AttentionAttributes = call.attributes
    given = (*inputs, *("",) * (7 - len(inputs)))
    q = _heads(steps, given[Q], sizes.heads)
    k, v = (_heads(steps, given[place], sizes.groups) for place in (K, V))
    if sizes.past or call.has(PAST_KEY):
        k = steps.concat([given[PAST_KEY], k], 2)
        v = steps.concat([given[PAST_VALUE], v], 2)
    # Queries of one group of heads are rows of one product with the group's keys.
    rows = sizes.heads // sizes.groups * sizes.queries
    grouped = _regrouped(steps, steps.wide(q), (sizes.groups, rows, sizes.width))
    product = steps.op("MatMul", grouped, steps.transpose(steps.wide(k), (0, 1, 3, 2)))
    scaled = steps.mul(product, _scale(call, sizes))
    raw = _regrouped(steps, scaled, (sizes.heads, sizes.queries, sizes.keys))
    bounded = raw
    if a.softcap:
        bounded = steps.mul(steps.op("Tanh", steps.div(raw, a.softcap)), a.softcap)
    masked = _masked(call, steps, sizes, bounded, given[MASK], given[LENGTHS])
    precise = masked
    if a.softmax_precision is DType.F64:
        precise = steps.cast(masked, DType.F64)
    wide = steps.dtype(raw)
    weights = steps.cast(_softmax(steps, precise, masked != bounded), wide)
    mixed = steps.op(
        "MatMul",
        _regrouped(steps, weights, (sizes.groups, rows, sizes.keys)),
        steps.wide(v),
    )
    y = _regrouped(steps, mixed, (sizes.heads, sizes.queries, sizes.value_width))
    if sizes.packed:
        y = steps.transpose(y, (0, 2, 1, 3))
        y = steps.reshape(y, (0, sizes.queries, sizes.heads * sizes.value_width))
    dtype = call.type(Q).dtype
    found = [steps.cast(y, dtype), k, v]
    if call.outputs > 3:
        shown = (raw, bounded, masked, weights)[a.qk_matmul_output_mode]
        found.append(steps.cast(shown, dtype))
    return tuple(found[: max(1, call.outputs)])


# --- reference ------------------------------------------------------------------------------


def _split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def _seen(call: Call, sizes: _Sizes, lengths: np.ndarray | None) -> np.ndarray:
    """Which key each query sees by position: ``[batch or 1, 1, queries, keys]``."""
    a: AttentionAttributes = call.attributes
    keys = np.arange(sizes.keys)
    start = np.full((1, 1, 1, 1), sizes.past)
    found = np.ones((1, 1, sizes.queries, sizes.keys), np.bool_)
    if lengths is not None:
        count = lengths.reshape(-1, 1, 1, 1)
        start = count - sizes.queries
        found = found & (keys < count)
    position = start + np.arange(sizes.queries)[:, None]
    if a.is_causal:
        found = found & (keys <= position)
    if a.right_window_size >= 0:
        found = found & (keys <= position + a.right_window_size)
    if a.left_window_size >= 0:
        found = found & (keys >= position - a.left_window_size)
    return found


def _bias(
    call: Call, sizes: _Sizes, mask: np.ndarray | None, lengths: np.ndarray | None
) -> np.ndarray:
    """What is added to the scores: the mask, and ``-inf`` for keys that are not seen."""
    seen = _seen(call, sizes, lengths)
    bias = np.zeros((1, 1, 1, 1))
    if mask is not None:
        widths = [(0, 0)] * (mask.ndim - 1) + [(0, sizes.keys - mask.shape[-1])]
        if mask.dtype == np.bool_:
            seen = seen & np.pad(mask, widths)
        else:
            bias = np.pad(mask.astype(np.float64), widths, constant_values=-np.inf)
    return np.where(seen, bias, -np.inf)


def _reference_attention(call: Call, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
    a: AttentionAttributes = call.attributes
    sizes = _sizes(call)
    q, k, v, mask, past_key, past_value, lengths = (*inputs, *(None,) * (7 - len(inputs)))
    assert q is not None
    assert k is not None
    assert v is not None
    dtype = q.dtype
    q = _split_heads(q, sizes.heads)
    k, v = _split_heads(k, sizes.groups), _split_heads(v, sizes.groups)
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    repeats = sizes.heads // sizes.groups
    keys, values = (np.repeat(exact(each), repeats, axis=1) for each in (k, v))
    raw = np.matmul(exact(q) * _scale(call, sizes), np.swapaxes(keys, 2, 3))
    bounded = a.softcap * np.tanh(raw / a.softcap) if a.softcap else raw
    masked: np.ndarray = bounded + _bias(call, sizes, mask, lengths)
    largest: np.ndarray = masked.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(masked - np.where(np.isneginf(largest), 0, largest))
    total: np.ndarray = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    y = np.matmul(weights, values)
    if sizes.packed:
        y = y.transpose(0, 2, 1, 3)
        y = y.reshape(*y.shape[:2], y.shape[2] * y.shape[3])
    shown = (raw, bounded, masked, weights)[a.qk_matmul_output_mode]
    return (y.astype(dtype), k, v, shown.astype(dtype))[: max(1, call.outputs)]


OPS: tuple[Op, ...] = (
    Op(
        name="Attention",
        inputs=(
            Param("q"),
            Param("k"),
            Param("v"),
            Param("attn_mask", optional=True),
            Param("past_key", optional=True),
            Param("past_value", optional=True),
            Param("nonpad_kv_seqlen", optional=True),
        ),
        infer=_infer_attention,
        reference=_reference_attention,
        compute=Expand(_expand_attention),
        attributes=AttentionAttributes,
        outputs=(
            Param("y"),
            Param("present_key", optional=True),
            Param("present_value", optional=True),
            Param("qk_matmul_output", optional=True),
        ),
        doc="Means of values, weighted by the softmax of scaled products of queries and keys.",
    ),
)
