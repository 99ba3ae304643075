# pyright: basic
"""``weft.torch.prepare_qat``: a copy of a module that trains with the rounding of integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import nn

from weft.errors import UserError, nearest
from weft.records import dataclass
from weft.torch.qat.activations import ActivationQuantizer
from weft.torch.qat.bit_widths import Budget
from weft.torch.qat.dataflow import record
from weft.torch.qat.layers import (
    QuantizedLayer,
    become_quantized,
    channel_axis,
    problem,
)
from weft.torch.qat.placement import Placement, place
from weft.torch.qat.weights import (
    FEWEST,
    MOST,
    LsqWeightQuantizer,
    SatWeightQuantizer,
    WeightQuantizer,
)

Method: TypeAlias = Literal["lsq", "sat"]
M = TypeVar("M", bound=nn.Module)

_METHODS: Mapping[str, Callable[..., WeightQuantizer]] = {
    "lsq": LsqWeightQuantizer,
    "sat": SatWeightQuantizer,
}
_STATE = "_weft_qat"
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell)


@dataclass(frozen=True)
class QatState:
    """What ``prepare_qat`` did to a module.

    Attributes:
        layers: paths of the quantized layers, in the order of their calls.
        outputs: paths of modules behind which a quantizer stands.
        floats: by path, why a layer or a value stays in floats.
        budget: of learned bit widths.
    """

    layers: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    floats: Mapping[str, str] = field(default_factory=dict[str, str])
    budget: Budget | None = None


def state_of(module: nn.Module, action: str) -> QatState:
    """What ``prepare_qat`` did to a module; refuses others."""
    found = getattr(module, _STATE, None)
    if not isinstance(found, QatState):
        raise UserError(
            f"{action} takes a module that prepare_qat returned",
            got=type(module).__name__,
            fix="prepared = weft.torch.prepare_qat(module, example)",
        )
    return found


def prepare_qat(
    module: M,
    example: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    weights: int = 4,
    activations: int = 4,
    method: Method = "lsq",
    ends: int | None = 8,
    between: int | None = 8,
    layers: Mapping[str, int | None] | None = None,
    budget: Budget | None = None,
) -> M:
    """A copy of a module that rounds weights and activations to integers while it trains.

    Convolutions, transposed convolutions and linear layers round their weights, symmetrically and
    by output channel, and their inputs, by tensor.  The copy is of the same class, and its
    parameters and buffers keep their names; step sizes are added to them (``NAME.weight_quantizer.
    step``, ``NAME.input_quantizer.step`` and ``.zero_point``, ``NAME.output_quantizer...``).
    Batch normalization stays as it is while training; ``convert`` makes it part of the scales.
    Train the copy as usual, with ``qat_parameters(copy, lr)`` for the optimizer.

    Args:
        module: in float32, trained or not.  It does not change.
        example: a batch, or a tuple of all arguments, from which first step sizes come.
        kwargs: arguments by name.
        weights: bits of weights, 2 to 8; where to start if they are learned.
        activations: bits of what layers read, 2 to 8.
        method: ``lsq`` learns step sizes of weights; ``sat`` clamps weights by tanh and keeps
            their variance (scale-adjusted training).
        ends: bits of the first and the last layer's weights and inputs; ``None``: as the others.
        between: bits of activations that other ops read: sums of skip connections, pools, the
            output.  ``None`` leaves those in floats.
        layers: by the path of a layer other bits than the rest; ``None`` leaves it in floats.
        budget: learns bit widths of weights, layer by layer, within it (FracBits); see
            ``bit_penalty`` and ``freeze_bits``.

    Raises:
        UserError: nothing can be quantized, the module was prepared already, bits are outside 2
            to 8, or a path is not that of a layer.
    """
    _check(module, method, budget, weights=weights, activations=activations)
    _check_bits(**{name: each for name, each in (("ends", ends), ("between", between)) if each})
    args = example if isinstance(example, tuple) else (example,)
    copy = deepcopy(module)
    modules = dict(copy.named_modules())
    found, floats = _layers(modules, layers or {})
    flow = record(copy, found, args, dict(kwargs or {}))
    called = {call.path for call in flow.calls if call.name == "layer"}
    floats |= {path: "its forward is not called" for path in found if path not in called}
    order = list(dict.fromkeys(call.path for call in flow.calls if call.name == "layer"))
    if not order:
        told = "; ".join(f"{path or 'the module'}: {why}" for path, why in floats.items())
        raise UserError(
            "quantization-aware training needs a convolution or a linear layer",
            got=told or f"none in {type(module).__name__}",
        )
    widths = dict.fromkeys(order, weights)
    inputs = dict.fromkeys(order, activations)
    if ends is not None:
        for path in (order[0], order[-1]):
            widths[path] = inputs[path] = ends
    for path, chosen in (layers or {}).items():
        if chosen is not None and path in widths:
            widths[path] = inputs[path] = chosen
    own = set(layers or {}) | ({order[0], order[-1]} if ends else set())
    for path in order:
        layer: Any = modules[path]
        learned = budget is not None and path not in own
        quantizer = _METHODS[method](layer.weight, channel_axis(layer), widths[path], learned)
        become_quantized(layer, quantizer.to(layer.weight.device))
    placement = place(flow, modules, inputs, between)
    added = _add(placement, modules, inputs, between)
    _calibrate(copy, added, args, dict(kwargs or {}))
    state = QatState(tuple(order), tuple(placement.outputs), floats | placement.floats, budget)
    if budget is not None:
        budget.check(copy, state.layers)
    setattr(copy, _STATE, state)
    return copy


# --- what is asked for ------------------------------------------------------------------------


def _check(module: nn.Module, method: str, budget: object, **bits: int) -> None:
    if not isinstance(module, nn.Module):
        raise UserError("prepare_qat takes a module of PyTorch", got=type(module).__name__)
    if any(isinstance(each, QuantizedLayer) for each in module.modules()):
        raise UserError(
            "a module is prepared for quantization-aware training once",
            got="one that was prepared",
            fix="Prepare the module in floats again.",
        )
    if method not in _METHODS:
        raise UserError(
            "method must be lsq or sat", got=repr(method), fix=nearest(method, _METHODS)
        )
    if budget is not None and not isinstance(budget, Budget):
        raise UserError(
            "budget must be a weft.torch.Budget",
            got=repr(budget),
            fix="Budget(mean_bits=4), or Budget(bytes=20_000)",
        )
    _check_bits(**bits)


def _check_bits(**bits: int) -> None:
    for name, given in bits.items():
        if not isinstance(given, int) or isinstance(given, bool) or not FEWEST <= given <= MOST:
            raise UserError(
                f"{name} must be a whole number of bits, {FEWEST} to {MOST}", got=repr(given)
            )


def _layers(
    modules: Mapping[str, nn.Module], given: Mapping[str, int | None]
) -> tuple[list[str], dict[str, str]]:
    """Paths of layers that can be quantized, and why others cannot."""
    found: list[str] = []
    floats: dict[str, str] = {}
    for path, module in modules.items():
        why = problem(module)
        if why is None and given.get(path, 8) is None:
            why = "it was asked for"
        if isinstance(module, _RECURRENT):
            why = "recurrent layers are not quantized"
        if why is None:
            found.append(path)
        elif why:
            floats[path] = why
    for path, chosen in given.items():
        if path not in found and path not in floats:
            known = [*found, *floats]
            raise UserError(
                "layers must name convolutions or linear layers",
                got=repr(path),
                fix=nearest(path, known),
            )
        if chosen is not None:
            _check_bits(**{f"layers[{path!r}]": chosen})
    return found, floats


# --- quantizers of activations ----------------------------------------------------------------


def quantize_output(module: Any, _: Any, made: torch.Tensor) -> torch.Tensor:
    """The hook behind modules whose result is quantized."""
    return module.output_quantizer(made)


def _add(
    placement: Placement,
    modules: Mapping[str, nn.Module],
    bits: Mapping[str, int],
    between: int | None,
) -> list[ActivationQuantizer]:
    """Adds quantizers where they stand; returns each once."""
    shared: dict[tuple[int, int], ActivationQuantizer] = {}
    added: list[ActivationQuantizer] = []
    for path, key in placement.inputs.items():
        layer: Any = modules[path]
        if key is None:
            continue
        if (key, bits[path]) not in shared:
            made = ActivationQuantizer(bits[path]).to(layer.weight.device)
            shared[key, bits[path]] = made
            added.append(made)
        layer.input_quantizer = shared[key, bits[path]]
        layer.given = (layer.input_quantizer,)
    device = next(iter(modules[""].parameters())).device
    for path in placement.outputs:
        site: Any = modules[path]
        assert between is not None
        site.output_quantizer = ActivationQuantizer(between).to(device)
        site.register_forward_hook(quantize_output)
        added.append(site.output_quantizer)
    for path, source in placement.sources.items():
        layer, site = modules[path], modules[source]
        layer.given = layer.given or (site.output_quantizer,)
    for path, norm in placement.norms.items():
        layer = modules[path]
        layer.norm = (modules[norm],)
    return added


def _calibrate(
    module: nn.Module, quantizers: Sequence[ActivationQuantizer], args: Any, kwargs: Any
) -> None:
    """Finds first step sizes, by one run in floats with quantized weights."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    for each in quantizers:
        each.observing = True
    with torch.no_grad():
        module(*args, **kwargs)
    for each in quantizers:
        each.start()
    for each, training in modes:
        each.training = training
    for each, training in modes:
        for name in ("weight_quantizer", "input_quantizer", "output_quantizer"):
            added = each._modules.get(name)
            if added is not None:
                added.train(training)
