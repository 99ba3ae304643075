# pyright: basic
"""Where quantizers of activations stand.

A layer reads its input through a quantizer of few bits.  What else reads the result of a layer or
of arithmetic (a skip connection, a pool, the caller) gets it from a quantizer of more bits, behind
the module that returns it, so that the exported graph computes in integers throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from weft.records import dataclass
from weft.torch.qat.dataflow import Call, Dataflow, Value

MOVES = frozenset(
    "view view_as reshape flatten unflatten permute transpose movedim moveaxis squeeze unsqueeze t "
    "contiguous clone expand expand_as repeat getitem narrow select chunk split unbind dropout "
    "dropout1d dropout2d dropout3d feature_dropout to float max_pool1d max_pool2d max_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d pixel_shuffle pixel_unshuffle "
    "channel_shuffle roll flip detach swapaxes rot90 tile identity".split()
)
"""Functions whose results are elements of what they are given."""
BOUNDS = frozenset("relu relu6 hardtanh clamp clip threshold".split())
"""Functions that integers compute by saturation."""
ARITHMETIC = frozenset(
    "add sub mul cat concat concatenate mean avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d interpolate upsample".split()
)
"""Functions whose operands and results are quantized."""
_OF_TWO = frozenset({"add", "sub", "mul"})
"""Those of them that count only between two tensors."""
_HOLDERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
"""Modules that would call a quantizer added to them."""


@dataclass
class Placement:
    """Where quantizers stand.

    Attributes:
        inputs: for each layer, the key of what it reads: layers with the same key and the same
            bits share a quantizer; ``None`` where the value is quantized already.
        outputs: paths of modules behind which a quantizer stands.
        sources: for layers without a quantizer of their own, the module that quantizes what they
            read.
        norms: for layers that are called once, the batch normalization that alone reads them.
        floats: by the path of a module, why a value in it stays in floats.
    """

    inputs: dict[str, int | None] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    norms: dict[str, str] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)


def place(
    flow: Dataflow, modules: Mapping[str, nn.Module], bits: Mapping[str, int], between: int | None
) -> Placement:
    """Decides where quantizers stand.

    Args:
        flow: a recorded run.
        modules: by path.
        bits: of the input, for each layer that is quantized.
        between: bits of what other ops than layers read; ``None`` leaves it in floats.
    """
    made = Placement()
    layers = [call for call in flow.calls if call.name == "layer" and call.path in bits]
    sites: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for value in _between(flow, layers) if between is not None else ():
        site = _site(value, flow, modules)
        if site is not None:
            sites[id(value)] = site
            made.outputs.append(site)
            continue
        path, name = ("", "inputs") if value.made_by is None else _place_of(value.made_by)
        names.setdefault(path, []).append(name)
    for path, each in names.items():
        made.floats[path] = f"no module returns what {', '.join(dict.fromkeys(each))} gives"
    for call in layers:
        root = id(_root(call.inputs[0]))
        if between is not None and between <= bits[call.path] and root in sites:
            made.inputs.setdefault(call.path, None)
            made.sources[call.path] = sites[root]
        elif made.inputs.get(call.path) is None:
            made.inputs[call.path] = root
        norm = _norm(call)
        if flow.counts[call.path] == 1 and isinstance(modules.get(norm), BatchNorm):
            made.norms[call.path] = norm
    return made


def _place_of(call: Call) -> tuple[str, str]:
    return call.path, call.name


def _norm(call: Call) -> str:
    """The module that calls ``batch_norm`` with a layer's result, if nothing else reads it."""
    readers = call.outputs[0].read_by
    return readers[0].path if [each.name for each in readers] == ["batch_norm"] else ""


def _root(value: Value) -> Value:
    """The value whose elements a value has."""
    while value.made_by is not None and value.made_by.name in MOVES:
        value = value.made_by.inputs[0]
    return value


def _between(flow: Dataflow, layers: list[Call]) -> list[Value]:
    """Results of layers and of arithmetic, and operands of arithmetic, that others read."""
    found: dict[int, Value] = {}
    outputs = {id(_root(value)) for value in flow.outputs}
    known = {id(call) for call in layers}
    for call in flow.calls:
        arithmetic = call.name in ARITHMETIC
        arithmetic &= len(call.inputs) > 1 or call.name not in _OF_TWO
        if id(call) in known or arithmetic:
            value = _result(call)
            if id(value) in outputs or _has_other_readers(value, known):
                found[id(value)] = value
        if arithmetic:
            for operand in map(_root, call.inputs):
                found[id(operand)] = operand
    return list(found.values())


def _result(call: Call) -> Value:
    """What is left of a call behind the normalization and the bound that only read it."""
    value = call.outputs[0]
    for names in (frozenset({"batch_norm"}), BOUNDS):
        if len(value.read_by) == 1 and value.read_by[0].name in names:
            value = value.read_by[0].outputs[0]
    return value


def _has_other_readers(value: Value, layers: set[int]) -> bool:
    """Whether something else than a quantized layer reads a value's elements."""
    for call in value.read_by:
        if call.name in MOVES:
            if any(_has_other_readers(each, layers) for each in call.outputs):
                return True
        elif id(call) not in layers:
            return True
    return False


def _site(value: Value, flow: Dataflow, modules: Mapping[str, nn.Module]) -> str | None:
    """The innermost module that returns a value, and nothing else at other times."""
    for path in value.sites:
        if flow.counts[path] == 1 and not isinstance(modules[path], _HOLDERS):
            return path
    return None
