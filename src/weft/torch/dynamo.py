# pyright: basic
"""``torch.compile(model, backend="weft")``: graphs that Dynamo captures, compiled by Weft.

Dynamo gives a graph of PyTorch's functions whose inputs are the arguments, numbers that stand for
sizes, and the parameters and buffers of modules.  The latter are bound into a module, which is
then compiled as any other is, for the sizes of each call.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.registry import register_backend

from weft.errors import UserError, nearest
from weft.torch.exporting import GATE
from weft.torch.module import Optimized, optimized
from weft.torch.specialise import Settings

_NAME = "weft"


def backend(
    graph: fx.GraphModule,
    example: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend: what ``torch.compile`` calls once for each graph.

    Nothing is compiled before the graph is called, because sizes are known then.

    Args:
        graph: of PyTorch's functions.
        example: inputs.
        options: attributes of ``Settings``.
        mode: ``max-autotune`` measures alternatives, as the option ``tune`` does.

    Raises:
        UserError: an option is unknown or has no possible value.
    """
    del example
    asked = dict(options or {})
    if mode and mode.startswith("max-autotune"):
        asked.setdefault("tune", True)
    known = [field.name for field in fields(Settings)]
    for name in asked:
        if name not in known:
            raise UserError(
                f"options of the backend {_NAME} are {', '.join(known)}",
                got=name,
                fix=nearest(name, known),
            )
    return CompiledGraph(graph, Settings(**asked))


class CompiledGraph:
    """A graph of Dynamo's, compiled at its calls.

    Args:
        graph: the graph.
        settings: how it is compiled.
    """

    def __init__(self, graph: fx.GraphModule, settings: Settings) -> None:
        self.graph = graph
        self.settings = settings
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._numbers = [place for place, node in enumerate(inputs) if _is_number(node)]
        _take_numbers(graph, [inputs[place] for place in self._numbers])
        self._static = [place for place, node in enumerate(inputs) if _is_static(node)]
        self._given = [place for place, node in enumerate(inputs) if not _is_static(node)]
        self._bound: list[tuple[Sequence[torch.Tensor], Optimized]] = []
        self._full = False

    def __call__(self, *args: Any) -> Any:
        """What the graph gives."""
        if self._numbers:
            given = list(args)
            for place in self._numbers:
                given[place] = args[place].item()
            args = tuple(given)
        bound = self._found([args[place] for place in self._static])
        if bound is None or self._needs_gradients():
            with GATE.running():
                return self.graph(*args)
        return bound(*[args[place] for place in self._given])

    def _needs_gradients(self) -> bool:
        """Whether weights that the graph has itself require gradients."""
        if not torch.is_grad_enabled():
            return False
        return any(each.requires_grad for each in self.graph.parameters())

    def _found(self, weights: Sequence[torch.Tensor]) -> Optimized | None:
        """The graph with these weights; modules of one class may share a graph."""
        for known, bound in self._bound:
            if all(map(operator.is_, known, weights)):
                return bound
        limit = self.settings.signatures
        if len(self._bound) < limit:
            module = DynamoGraph(self.graph, self._static, weights).eval()
            self._bound.append((weights, optimized(module, self.settings)))
            return self._bound[-1][1]
        if not self._full:
            self._full = True
            warnings.warn(f"a graph runs by PyTorch with more than {limit} modules", stacklevel=2)
        return None


class DynamoGraph(torch.nn.Module):
    """A graph of Dynamo's with the weights of one module.

    Args:
        graph: the graph.
        places: of the weights among its inputs.
        weights: the weights.
    """

    def __init__(
        self, graph: fx.GraphModule, places: Sequence[int], weights: Sequence[torch.Tensor]
    ) -> None:
        super().__init__()
        # Not a submodule: its mode is not this module's.
        self._graph = (graph,)
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        held: list[str | None] = [None] * len(names)
        for place, weight in zip(places, weights, strict=True):
            name = held[place] = names[place].strip("_")
            if isinstance(weight, torch.nn.Parameter):
                self.register_parameter(name, weight)
            else:
                self.register_buffer(name, weight)
        self._held = tuple(held)

    def forward(self, *given: Any) -> Any:
        """What the graph gives for the inputs that are no weights."""
        (graph,) = self._graph
        rest = iter(given)
        args = [next(rest) if name is None else getattr(self, name) for name in self._held]
        if torch.compiler.is_exporting():
            # Node by node, so that what is traced has the module's path and the source's line.
            return fx.Interpreter(graph).run(*args)
        return graph(*args)


def _is_number(node: fx.Node) -> bool:
    """Whether an input is a number of Python's that Dynamo passes as a tensor of float64."""
    passed = getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
    return passed and all((each.op, each.target) == ("call_method", "item") for each in node.users)


def _take_numbers(graph: fx.GraphModule, inputs: Sequence[fx.Node]) -> None:
    """Makes a graph take numbers themselves: they are constants of what is compiled."""
    for node in inputs:
        for read in list(node.users):
            read.replace_all_uses_with(node)
            graph.graph.erase_node(read)
    if inputs:
        graph.recompile()


def _is_static(node: fx.Node) -> bool:
    """Whether an input is a parameter or buffer of a module."""
    return "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {})


if not entry_points(group="torch_dynamo_backends", name=_NAME):
    # Run from a source tree; where Weft is installed, PyTorch finds the backend by its name.
    register_backend(backend, _NAME)
