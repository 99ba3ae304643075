"""Short names for what converters name after everything that it came from.

TensorFlow's converter joins the names of all operations that became one operator by semicolons, and
begins each with the scopes of the model.  An operator is named after the layer that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from weft.frontends.litert.model import SubgraphInfo, TensorInfo
from weft.ir.short_names import MOST, short_names

_NOISE = re.compile(r"(/ReadVariableOp(/resource)?(;|$))|(__.*$)|(:\d+$)|(^serving_default_)")
_PORT = re.compile(r"^serving_default_|:0$")
_PREFERRED = {
    "CONV_2D": "Conv2D|convolution",
    "DEPTHWISE_CONV_2D": "depthwise",
    "FULLY_CONNECTED": "MatMul",
    "TRANSPOSE_CONV": "conv2d_transpose",
    "SOFTMAX": "Softmax",
}


def port_names(tensors: Iterable[TensorInfo], said: dict[int, str]) -> dict[int, str]:
    """Names of inputs or outputs by tensor: a signature's, else the tensors' own; short ones.

    Args:
        tensors: inputs or outputs of a subgraph.
        said: what a signature calls them.
    """
    each = {
        tensor.index: said.get(tensor.index) or _PORT.sub("", tensor.name) or "value"
        for tensor in tensors
    }
    short = short_names(each.values())
    return {index: short[name] for index, name in each.items()}


def shortest(name: str) -> str:
    """The last scopes of a name, as many as fit."""
    while len(name) > MOST and "/" in name:
        name = name.partition("/")[2]
    return name[-MOST:]


def operator_names(graph: SubgraphInfo) -> list[str]:
    """A short name for each operator, in order; not unique."""
    names = [_best(graph, each.name, each.outputs) for each in graph.operators]
    scope = scope_of(graph)
    cut = [name.removeprefix(scope) for name in names]
    return [
        shortest(name) or operator.name.lower()
        for name, operator in zip(cut, graph.operators, strict=True)
    ]


def scope_of(graph: SubgraphInfo) -> str:
    """The scopes, with the last slash, that the names of all operators begin with."""
    names = [_best(graph, each.name, each.outputs) for each in graph.operators]
    return _scope([name for name in names if "/" in name])


def _best(graph: SubgraphInfo, operator: str, outputs: Sequence[int]) -> str:
    """The part of an operator's name that says which layer it is."""
    if not outputs:
        return operator.lower()
    parts = [_NOISE.sub("", part) for part in graph.tensors[outputs[0]].name.split(";")]
    parts = [part for part in parts if part]
    pattern = _PREFERRED.get(operator)
    if pattern:
        # The last one: those before it may have lent weights of the same elements.
        own = [part for part in parts if re.search(rf"/({pattern})\d*$", part)]
        if own:
            return own[-1].rpartition("/")[0]
    return parts[0] if parts else operator.lower()


def _scope(names: Sequence[str]) -> str:
    """The scopes, with the last slash, that all names begin with."""
    scopes = zip(*(name.split("/")[:-1] for name in names), strict=False)
    shared = takewhile(lambda each: len(set(each)) == 1, scopes)
    return "".join(f"{each[0]}/" for each in shared) if len(names) > 1 else ""
