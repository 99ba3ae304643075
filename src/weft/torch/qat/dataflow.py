# pyright: basic
"""Which layer reads what another one made: one run of a module, recorded.

Functions are seen as they are called (a mode of PyTorch), modules by hooks, values by the identity
of their tensors.  What is recorded tells where a quantizer can stand and what it would change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils import _pytree as pytree

from weft.records import dataclass


@dataclass
class Value:
    """A tensor at one time; one that is written in place becomes another value.

    Attributes:
        made_by: what computed it; ``None`` for inputs and weights.
        read_by: what reads it, in order.
        sites: paths of the modules that return it, innermost first.
    """

    made_by: Call | None = None
    read_by: list[Call] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)


@dataclass
class Call:
    """A layer or a function that ran.

    Attributes:
        name: of the function (``relu``), or ``layer``.
        path: of the layer, or of the module that called the function.
        inputs: tensors that it reads, by position, weights included.
        outputs: tensors that it makes.
    """

    name: str
    path: str
    inputs: list[Value]
    outputs: list[Value]


@dataclass
class Dataflow:
    """What a run did.

    Attributes:
        calls: in order.
        outputs: what the module returned.
        counts: how often each module was called.
    """

    calls: list[Call] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class _Recorder(TorchFunctionMode):
    def __init__(self, layers: Collection[str], parameters: Collection[int]) -> None:
        super().__init__()
        self.layers = layers
        self.parameters = parameters
        self.flow = Dataflow()
        self.stack: list[str] = []
        self.values: dict[int, Value] = {}
        self.tensors: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        inside = bool(self.stack) and self.stack[-1] in self.layers
        inputs = [] if inside else self.given((args, kwargs))
        made = func(*args, **kwargs)
        if inputs and _computes(func):
            path = self.stack[-1] if self.stack else ""
            self.call(_name_of(func), path, inputs, made)
        return made

    def given(self, nested: Any) -> list[Value]:
        """The values of the tensors in arguments, weights left out."""
        found = (each for each in pytree.tree_leaves(nested) if isinstance(each, torch.Tensor))
        return [self.value(each) for each in found if id(each) not in self.parameters]

    def value(self, tensor: torch.Tensor) -> Value:
        if id(tensor) not in self.values:
            # Kept, so that no other tensor gets its identity.
            self.tensors.append(tensor)
            self.values[id(tensor)] = Value()
        return self.values[id(tensor)]

    def call(self, name: str, path: str, inputs: list[Value], made: Any) -> None:
        tensors = [each for each in pytree.tree_leaves(made) if isinstance(each, torch.Tensor)]
        if not tensors:
            return
        call = Call(name, path, inputs, [])
        for tensor in tensors:
            self.tensors.append(tensor)
            self.values[id(tensor)] = made_here = Value(call)
            call.outputs.append(made_here)
        for value in inputs:
            value.read_by.append(call)
        self.flow.calls.append(call)

    # --- modules ------------------------------------------------------------------------------

    def enter(self, path: str) -> None:
        self.stack.append(path)
        self.flow.counts[path] = self.flow.counts.get(path, 0) + 1

    def leave(self, path: str, args: Any, kwargs: Any, made: Any) -> None:
        self.stack.pop()
        if path in self.layers:
            self.call("layer", path, self.given((args, kwargs)), made)
        if isinstance(made, torch.Tensor):
            self.value(made).sites.append(path)


def _name_of(func: Any) -> str:
    """``add`` for ``torch.add``, ``Tensor.add_``, ``a + b`` and ``a += b``."""
    name = str(getattr(func, "__name__", ""))
    if not name or name == "fn":
        name = (resolve_name(func) or "").rsplit(".", 1)[-1]
    plain = name.strip("_")
    return plain[1:] if plain in _OPERATORS else plain


_OPERATORS = frozenset("iadd radd isub rsub imul rmul".split())
"""Operators that write their first operand, or have their operands swapped."""


def _computes(func: Any) -> bool:
    """Whether a function gives tensors that are computed, and not a property such as a shape."""
    return getattr(func, "__name__", "") not in ("__get__", "__set__", "size", "dim", "numel")


def record(module: nn.Module, layers: Collection[str], args: Any, kwargs: Any) -> Dataflow:
    """Runs a module once, in evaluation mode, and records what it does.

    Args:
        module: restored to the mode that it was in.
        layers: paths of the modules that count as one call each.
        args: of the call.
        kwargs: arguments by name.
    """
    weights = {id(each) for each in (*module.parameters(), *module.buffers())}
    recorder = _Recorder(layers, weights)
    handles: list[Any] = []
    for path, each in module.named_modules():

        def enter(_: Any, __: Any, path: str = path) -> None:
            recorder.enter(path)

        def leave(_: Any, args: Any, kwargs: Any, made: Any, path: str = path) -> None:
            recorder.leave(path, args, kwargs, made)

        handles.append(each.register_forward_pre_hook(enter, prepend=True))
        handles.append(each.register_forward_hook(leave, with_kwargs=True))
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        with torch.no_grad(), recorder:
            made = module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for each, training in modes:
            each.training = training
    recorder.flow.outputs = recorder.given(made)
    return recorder.flow
