"""The queries that are measured find what there is, on small networks of the families."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import weft
from bench.asked import DENSENET, RESNET, TRANSFORMER, Asked, Walk
from weft import layers, ops
from weft.ir.graph import Graph
from weft.match.query import Query
from weft.ops.values import Value


def normed(x: Value, channels: int, kernel: int, strides: int = 1) -> Value:
    conv = layers.Conv(channels, kernel, strides=strides, padding=kernel // 2, bias=False)
    return layers.BatchNorm()(conv(x))


def bottleneck(x: Value, channels: int, strides: int) -> Value:
    y = ops.relu(normed(x, channels, 1))
    y = normed(ops.relu(normed(y, channels, 3, strides)), 4 * channels, 1)
    same = strides == 1 and x.type.shape[1] == 4 * channels
    return ops.relu(ops.add(y, x if same else normed(x, 4 * channels, 1, strides)))


def classified(x: Value) -> Value:
    return layers.Linear(5)(layers.Flatten()(layers.GlobalAveragePool()(x)))


def residual(x: Value) -> Value:
    x = layers.MaxPool(3, 2, 1)(ops.relu(normed(x, 8, 7, 2)))
    for channels, strides in ((4, 1), (4, 1), (8, 2), (8, 1), (16, 2)):
        x = bottleneck(x, channels, strides)
    return classified(x)


def dense(x: Value) -> Value:
    x = layers.MaxPool(3, 2, 1)(ops.relu(normed(x, 8, 7, 2)))
    for last in (False, False, True):
        made = [x]
        for _ in range(3):
            y = ops.relu(layers.BatchNorm()(ops.concat(made, axis=1)))
            y = ops.relu(normed(y, 8, 1))
            made.append(layers.Conv(4, 3, padding=1, bias=False)(y))
        x = ops.relu(layers.BatchNorm()(ops.concat(made, axis=1)))
        if not last:
            x = layers.AveragePool(2, 2)(layers.Conv(8, 1, bias=False)(x))
    return classified(x)


def attention(x: Value) -> Value:
    steps, width, heads = 6, 8, 2
    y = layers.Linear(3 * width)(ops.transpose(x, perm=(1, 0, 2)))
    y = ops.unsqueeze(ops.reshape(y, (steps, 1, 3, width)), (0,))
    y = ops.squeeze(ops.transpose(y, perm=(3, 1, 2, 0, 4)), (3,))
    shares = [ops.gather(y, np.array(place), axis=0) for place in range(3)]
    q, k, v = (
        ops.transpose(ops.reshape(each, (steps, heads, width // heads)), perm=(1, 0, 2))
        for each in shares
    )
    scores = ops.matmul(q * 0.7, ops.transpose(k, perm=(0, 2, 1)) * 0.7)
    y = ops.transpose(ops.matmul(ops.softmax(scores, axis=-1), v), perm=(1, 0, 2))
    return ops.transpose(ops.reshape(y, (steps, 1, width)), perm=(1, 0, 2))


def encoder(x: Value) -> Value:
    for _ in range(3):
        x = layers.LayerNorm()(ops.add(x, attention(x)))
        y = layers.Linear(16)(x)
        y = ops.mul(ops.mul(y, ops.add(ops.erf(ops.div(y, 1.414)), 1.0)), 0.5)
        x = layers.LayerNorm()(ops.add(x, layers.Linear(8)(y)))
    return x


@cache
def graph_of(family: str) -> Graph:
    build, type = {
        "resnet": (residual, "f32[1,3,64,64]"),
        "densenet": (dense, "f32[1,3,64,64]"),
        "transformer": (encoder, "f32[1,6,8]"),
    }[family]
    return weft.trace(build, type).graph


ASKED = {"resnet": RESNET, "densenet": DENSENET, "transformer": TRANSFORMER}


@pytest.mark.parametrize(
    ("family", "asked"), [(family, each) for family, some in ASKED.items() for each in some]
)
def test_as_many_as_are_counted(family: str, asked: Asked) -> None:
    graph = graph_of(family)
    found = Query.read(asked.text, asked.predicates).matches(graph)
    assert len(found) == asked.count(Walk(graph)) > 0


def test_there_are_ten_of_each() -> None:
    assert {family: len(some) for family, some in ASKED.items()} == dict.fromkeys(ASKED, 10)
