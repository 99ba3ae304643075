"""Networks from files, from values and from functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.net import Net
from weft.api.source import open_file
from weft.deferred import later
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.naming import require_mapping
from weft.ir.types import TensorType, parse_type

if TYPE_CHECKING:
    from weft.frontends.keras import is_model, load_live, paired_states
    from weft.frontends.source import states_of
    from weft.ir.compose import merge as merge_graphs
    from weft.ops.trace import graph_of
    from weft.ops.trace import trace as trace_graph
    from weft.ops.values import Value, input_value
else:
    is_model = later("weft.frontends.keras.live").is_model
    load_live = later("weft.frontends.keras.live").load_live
    paired_states = later("weft.frontends.keras.importer").paired_states
    states_of = later("weft.frontends.source").states_of
    merge_graphs = later("weft.ir.compose").merge
    graph_of, trace_graph = later("weft.ops.trace").graph_of, later("weft.ops.trace").trace
    input_value = later("weft.ops.values").input_value

_WITHOUT_STATES = (".onnx", ".weft")
"""Suffixes of formats that declare no states."""


def load(
    path: str | Path | Any,
    inputs: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    signature: str = "",
    float_activations: bool = False,
    rounding: str = "",
) -> Net:
    """Reads a network from a file of ONNX, Keras or LiteRT, or from one that ``Net.save`` wrote.

    The file must stay as it is while the network is in use: a large one does not stay in memory
    when it was compiled, and is read again for whatever else is asked of it.

    Args:
        path: the file; external data must lie in its folder.  Or a built ``keras.Model``.
        inputs: shapes of graph inputs, for dimensions that the file leaves open; or such a
            size by its name: ``{"sequence": 128}`` holds in all inputs that have it.
        constants: values of graph inputs that never change; these are then no inputs.
        signature: the function to read from a LiteRT file that has several; the first if not
            given.
        float_activations: for LiteRT files whose weights alone are integers: whether their layers
            compute in float.  LiteRT's quantize their inputs in each run, and so do Weft's unless
            this is set.
        rounding: of quantized layers, which compute in integers: ``litert``, as LiteRT's reference
            kernels, in fixed point; ``onnx``, by scales in float, halves to even; ``float`` for
            layers that compute in float between dequantizers and quantizers.  By default LiteRT
            files have the first, ONNX files the second, and others keep what they are.

    Raises:
        UserError: the file is broken, or has nodes that Weft cannot import: all of them
            are listed with the reasons.
    """
    if not isinstance(path, str | Path) and is_model(path):
        shapes = {
            name: (size,) if isinstance(size, int) else size
            for name, size in (inputs or {}).items()
        }
        graph = load_live(path, shapes, constants)
        return Net(graph, None, tuple(paired_states(graph).items()))
    path = Path(path)
    opened = open_file(
        path,
        inputs,
        constants,
        signature,
        float_activations=float_activations,
        rounding=rounding,
    )
    if path.suffix.lower() in _WITHOUT_STATES:
        # A start from the cache imports no frontend.
        return Net(*opened)
    return Net(*opened, states_of(path, signature))


def input(name: str, type: str | TensorType) -> Value:
    """A value that a network in the making is given: ``weft.input("x", "f32[1,3,32,32]")``."""
    return input_value(name, parse_type(type) if isinstance(type, str) else type)


def net(
    inputs: Sequence[Value], outputs: Sequence[Value], *, name: str = "net", seed: int = 0
) -> Net:
    """The network between values.

    Args:
        inputs: values of ``weft.input``, in order.
        outputs: what the network gives, in order.
        name: of the network.
        seed: of the weights of layers that were given none; the same seed gives a weight of
            the same name the same elements.
    """
    return Net(graph_of(inputs, outputs, name, seed))


def merge(
    parts: Mapping[str, Net | Graph], wiring: Mapping[str, str], *, name: str = "merged"
) -> Net:
    """One network of several.

    Every name gets its part's name and a dot in front: ``head.image``.

    Args:
        parts: the networks by name.
        wiring: for an input (``head.image``) the output (``backbone.features``) that feeds it.
            Inputs that nothing feeds are inputs of the whole; outputs that feed nothing are
            its outputs, in the order of the parts.
        name: of the network.

    Raises:
        UserError: a name or a type does not fit, or the wiring goes in a circle.
    """
    require_mapping(parts, "merge: parts are networks by name")
    require_mapping(wiring, "merge: wiring gives an output, by the input that it feeds")
    for part, given in parts.items():
        if not isinstance(given, Graph | Net):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                "merge: a part must be a network or a graph",
                got=type(given).__name__,
                where=f"part {part}",
                fix="weft.trace turns a function or a layer into a network.",
            )
    graphs = {
        part: given.graph if isinstance(given, Net) else given for part, given in parts.items()
    }
    return Net(merge_graphs(name, graphs, wiring))


def trace(
    function: Callable[..., Any], *types: str | TensorType, name: str = "net", seed: int = 0
) -> Net:
    """The network that a function of values computes: of a layer, of layers in sequence.

    Args:
        function: takes a value for each type, gives one or several.
        types: of the inputs, such as ``f32[1,3,32,32]``; a leading size may be a name.
        name: of the network.
        seed: see ``net``.
    """
    found = [parse_type(each) if isinstance(each, str) else each for each in types]
    return Net(trace_graph(function, found, name, seed))
