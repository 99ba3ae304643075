# pyright: basic
"""Tables of integers as part of the model."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.preprocessing import encoded
from weft.frontends.keras.record import Config, Emit, Tensor, layer

_MOST = 1 << 20


def _tokens(g: Emit, c: Config) -> np.ndarray:
    """The integers of the table, without those that stand for a mask and for unknown ones."""
    found = c.get("vocabulary")
    if isinstance(found, dict):
        found = found.get("config", found).get("value")
    if not isinstance(found, list | tuple) or not 0 < len(found) <= _MOST:
        g.refuse("its vocabulary must be a list in its configuration")
    if not all(type(each) is int for each in found):
        g.refuse("its vocabulary must be integers")
    return np.asarray(found, np.int64)


@layer("IntegerLookup")
def integer_lookup(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("sparse", "vocabulary_dtype", "vocabulary_size", "encoding", "max_tokens")
    mode = c.text("output_mode", "int", ("int", "one_hot", "multi_hot", "count"))
    c.heed("idf_weights")
    unknown, mask, count = c.get("oov_token", -1), c.get("mask_token"), c.get("num_oov_indices", 1)
    if type(unknown) is not int or type(count) is not int or not isinstance(mask, int | None):
        g.refuse("oov_token, mask_token and num_oov_indices must be integers")
    masked = mask is not None and mode == "int"
    special = np.asarray([mask] * masked + [unknown] * count, np.int64)
    tokens = _tokens(g, c)
    if np.array_equal(tokens[: special.size], special):
        tokens = tokens[special.size :]
    if len(np.unique(tokens)) != len(tokens):
        g.refuse("its vocabulary must not repeat integers")
    x = g.cast(inputs, DType.I64)
    if c.flag("invert"):
        return _inverted(g, x, np.concatenate([special, tokens]), unknown)
    if count < 1:
        # Keras stops at unknown integers then; a network has no way to.
        g.refuse("num_oov_indices must be at least 1")
    row = g.held(tokens, "vocabulary")
    equal = g("Equal", g("Unsqueeze", x, axes=(x.rank,)), row)
    places = g.held(np.arange(special.size, special.size + tokens.size), "places")
    place = g("ReduceSum", g.where(equal, places, 0), axes=(x.rank,), keepdims=0)
    # Places of the table come after those of unknown integers, of which there is at least one.
    other = g("Mod", x, g.held(np.asarray(count, np.int64), "unknown"))
    index = g.where(g("Greater", place, g.cast(0, DType.I64)), place, g.add(other, int(masked)))
    if masked:
        index = g.where(g("Equal", x, g.cast(int(mask or 0), DType.I64)), g.mul(index, 0), index)
    depth = special.size + tokens.size
    if c.flag("pad_to_max_tokens") and mode != "int":
        depth = c.size("max_tokens")
    return encoded(g, index, depth, mode, g.compute)


def _inverted(g: Emit, x: Tensor, table: np.ndarray, unknown: int) -> Tensor:
    last = g.cast(len(table) - 1, DType.I64)
    zero = g.cast(0, DType.I64)
    held = g("Min", g("Max", x, zero), last)
    return g.where(g("Equal", held, x), g("Gather", g.held(table, "vocabulary"), held), unknown)
