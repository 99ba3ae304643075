"""Faults and noise in what a network computes: nodes that damage values, always alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from weft.compress.faults import (
    UNSIGNED,
    FaultParameters,
    Kind,
    NoiseParameters,
    activation_faults,
    chosen_values,
    generator,
    masks,
    shape_of,
    sigma_of,
)
from weft.compress.insert import insert_behind
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ops.build import GraphBuilder
from weft.ops.cast import BitCastAttributes
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness

_DAMAGE: Mapping[Kind, str] = {
    "flip": "BitwiseXor",
    "stuck0": "BitwiseAnd",
    "stuck1": "BitwiseOr",
}


def fault_activations(graph: Graph, parameters: FaultParameters) -> Graph:
    """Put nodes behind values that damage their bits, in every run and sample the same."""
    found = masks(graph, activation_faults(graph, parameters))
    if not found:
        return graph
    parts = {
        name: partial(_bitwise, mask=mask, kind=parameters.kind, dtype=graph.types[name].dtype)
        for name, mask in found.items()
    }
    return insert_behind(graph, parts, "fault-activations")


def _bitwise(
    builder: GraphBuilder,
    value: str,
    *,
    mask: np.ndarray,
    kind: Kind,
    dtype: DType,
) -> str:
    bits = UNSIGNED[dtype.bytes]
    given = builder.constant(~mask if kind == "stuck0" else mask, f"{value}_fault")
    if dtype is bits:
        return builder.op(_DAMAGE[kind], value, given)
    raw = builder.op("BitCast", value, attributes=BitCastAttributes(bits))
    damaged = builder.op(_DAMAGE[kind], raw, given)
    return builder.op("BitCast", damaged, attributes=BitCastAttributes(dtype))


def noise_activations(graph: Graph, parameters: NoiseParameters) -> Graph:
    """Put additions of constant Gaussian noise behind floating-point values."""
    sigma = sigma_of(parameters, "noise-activations")
    chosen = chosen_values(graph, parameters.tensors, "noise-activations")
    parts = {
        name: partial(
            _noisy,
            noise=generator(parameters.seed, name).normal(0, sigma, shape_of(graph.types[name])),
        )
        for name in chosen
        if graph.types[name].dtype.is_float
    }
    return insert_behind(graph, parts, "noise-activations") if parts else graph


def _noisy(builder: GraphBuilder, value: str, *, noise: np.ndarray) -> str:
    dtype = builder.types[value].dtype
    return builder.op(
        "Add",
        value,
        builder.constant(noise.astype(dtype.numpy), f"{value}_noise"),
    )


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="fault-activations",
        doc="Puts nodes behind computed values (floats and 8-bit integers) and graph inputs that "
        "damage bits: each bit with the probability `rate`, `count` of them, or those `at` given "
        "places. The damage is part of the network: every run and every sample has the same. "
        "Values without damage get no nodes.",
        exactness=Exactness.APPROXIMATE,
        parameters=FaultParameters,
        apply=fault_activations,
    ),
    Recipe(
        name="noise-activations",
        doc="Adds constant Gaussian noise of the standard deviation `sigma` to graph inputs and "
        "to computed floating-point values.",
        exactness=Exactness.APPROXIMATE,
        parameters=NoiseParameters,
        apply=noise_activations,
    ),
)
