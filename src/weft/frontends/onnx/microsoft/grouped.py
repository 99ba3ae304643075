"""Rotary embedding, and attention of grouped queries over a cache."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from weft.frontends.onnx.microsoft.attention import packed
from weft.frontends.onnx.microsoft.body import Body, Writer

_QUERY, _KEY, _VALUE, _PAST, _LENGTHS, _TOTAL, _COSINES, _PLACES, _BIAS = 0, 1, 2, 3, 5, 6, 7, 9, 10
"""Inputs; the values of the past follow its keys, and sines the cosines."""


def _rotary(body: Body) -> None:
    body.only(is_packed_batching=0, scale=1.0)
    x, places, cosines, sines = (body.taken(place) for place in range(4))
    if body.rank(1) == 1:
        step = body.counted(body.extent(x, 1 if body.rank(0) == 3 else 2))
        rows = body.axes(body.op("Add", step, places), 0)
        batch = body.op("Shape", x, start=0, end=1)
        places = body.op("Expand", rows, body.op("Concat", batch, body.constant(1), axis=0))
    given = {"interleaved": body.given.get("interleaved", 0)}
    if body.rank(0) == 3:
        heads = body.given.get("num_heads", 0)
        given["num_heads"] = heads or body.size(0, 2) // (2 * body.size(2, 1))
    rotated = body.given.get("rotary_embedding_dim", 0)
    if rotated:
        given["rotary_embedding_dim"] = rotated
    body.op("RotaryEmbedding", x, cosines, sines, places, output="out0", **given)


def _grouped(body: Body) -> None:
    """Attention over a cache, in which each batch entry may have another number of keys.

    The cache that is written has room for all keys, or as much as the one that is read.
    """
    body.only(causal=1, smooth_softmax=0, sliding_window_cache=0, kv_cache_bit_width=0)
    body.only(k_quant_type="NONE", v_quant_type="NONE", qk_output=0)
    body.without(head_sink=11, k_scale=12, v_scale=13, query_seqlens=14)
    queries, groups = body.given["num_heads"], body.given["kv_num_heads"]
    q, k, v = body.taken(_QUERY), body.taken(_KEY), body.taken(_VALUE)
    width = body.size(_QUERY, 2)
    head = width // (queries if k else queries + 2 * groups)
    if not k:
        q, k, v = body.split(q, 2, queries * head, groups * head, groups * head)
    new, total = body.size(_QUERY, 1), body.number(_TOTAL, "total_sequence_length")
    before = body.size(_PAST, 2) if body.taken(_PAST) else 0
    room = max(total, before)
    # Where each batch entry's new keys go: behind those of its past.
    ends = body.op("Cast", body.reshaped(body.taken(_LENGTHS), -1), to=TensorProto.INT64)
    start = body.op("Add", ends, body.constant(1 - new))
    if total == new:  # there is no past, but the last of them may only fill up
        start = body.op("Sub", ends, ends)
    places = body.op("Add", body.axes(start, 1), body.axes(body.counted(body.extent(q, 1)), 0))
    if body.given.get("do_rotary", 0):
        q, k = _rotated(body, (q, k), (queries, groups), body.taken(_PLACES) or places, head)
    caches = [
        _cached(body, _apart(body, each, groups), _PAST + at, start, (before, new, room))
        for at, each in enumerate((k, v))
    ]
    for at, cache in enumerate(caches):
        body.passed(cache, 1 + at)
    mask = _seen(body, places, room)
    if body.taken(_BIAS):
        if room != total:
            raise body.refuse("with a bias of scores for fewer keys than the cache holds")
        low = body.scalar(float(np.finfo(np.float32).min), q)
        mask = body.op("Where", mask, body.scalar(0, q), low)
        mask = body.op("Add", mask, body.taken(_BIAS))
    given = {name: value for name, value in body.chosen("scale", "softcap").items() if value}
    made = body.op("Attention", _apart(body, q, queries), *caches, mask, **given)
    body.passed(packed(body, made), 0)


def _seen(body: Body, places: str, room: int) -> str:
    """Which keys of a cache a query may see: those up to its place, of a window if there is one."""
    keys = body.axes(body.counted(body.array(np.array(room, np.int64))), 0, 1, 2)
    last = body.axes(places, 1, 3)
    seen = body.op("LessOrEqual", keys, last)
    window = body.given.get("local_window_size", -1)
    if window <= 0:
        return seen
    first = body.op("Sub", last, body.array(np.array(window, np.int64)))
    return body.op("And", seen, body.op("Less", first, keys))


def _rotated(
    body: Body, parts: tuple[str, str], heads: tuple[int, int], places: str, head: int
) -> tuple[str, str]:
    """Queries and keys, turned by what caches of cosines and sines say."""
    given = {"interleaved": body.given.get("rotary_interleaved", 0)}
    wide = 2 * body.size(_COSINES, 1)
    if wide != head:
        given["rotary_embedding_dim"] = wide
    caches = body.taken(_COSINES), body.taken(_COSINES + 1)
    q, k = (
        body.op("RotaryEmbedding", each, *caches, places, num_heads=count, **given)
        for each, count in zip(parts, heads, strict=True)
    )
    return q, k


def _cached(body: Body, new: str, past: int, start: str, sizes: tuple[int, int, int]) -> str:
    """A cache with new rows written from a place on.

    Args:
        body: of the call.
        new: the rows, by heads.
        past: the input that is the cache so far.
        start: the place for each batch entry.
        sizes: rows of the cache so far, new ones, and those of the result.
    """
    before, count, room = sizes
    if before == 0 and count == room:
        return new
    cache = body.taken(past)
    if before < room:
        lead, last = (body.op("Shape", new, start=at, end=end) for at, end in ((0, 2), (3, 4)))
        shape = body.op("Concat", lead, body.constant(room - before), last, axis=0)
        zeros = body.op("Expand", body.scalar(0, new), shape)
        cache = body.op("Concat", cache, zeros, axis=2) if before else zeros
    return body.op("TensorScatter", cache, new, start, axis=2)


def _apart(body: Body, x: str, heads: int) -> str:
    """Heads one after the other."""
    return body.op("Transpose", body.reshaped(x, 0, 0, heads, -1), perm=[0, 2, 1, 3])


GROUPED: Mapping[str, Writer] = MappingProxyType(
    {"GroupQueryAttention": _grouped, "RotaryEmbedding": _rotary}
)
"""The function that writes the body of a call, by op name."""
