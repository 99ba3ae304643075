# pyright: basic
"""``torch.compile(model, backend="weft")``: graphs that Dynamo captures, compiled by Weft.

Dynamo gives a graph of PyTorch's functions whose inputs are the arguments, numbers that stand for
sizes, and the parameters and buffers of modules.  The latter are bound into a module, which is
then compiled as any other is, for the sizes of each call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.registry import register_backend

from weft.errors import UserError, nearest
from weft.torch.specialise import Runners, Settings

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
        self._static = [place for place, node in enumerate(inputs) if _is_static(node)]
        self._given = [place for place, node in enumerate(inputs) if not _is_static(node)]
        self._bound: list[BoundGraph] = []
        self._full = False

    def __call__(self, *args: Any) -> Any:
        """What the graph gives."""
        if not _can_run(self.graph, args):
            return self.graph(*args)
        weights = [args[place] for place in self._static]
        bound = self._found(weights)
        if bound is None:
            return self.graph(*args)
        bound.look()
        return bound.runners.call(tuple(args[place] for place in self._given), {})

    def _found(self, weights: Sequence[torch.Tensor]) -> BoundGraph | None:
        """The graph with these weights; modules of one class may share a graph."""
        for bound in self._bound:
            if all(map(_is, bound.weights, weights)):
                return bound
        limit = self.settings.signatures
        if len(self._bound) < limit:
            self._bound.append(BoundGraph(self.graph, self._static, weights, self.settings))
            return self._bound[-1]
        if not self._full:
            self._full = True
            warnings.warn(f"a graph runs by PyTorch with more than {limit} modules", stacklevel=2)
        return None


class BoundGraph(torch.nn.Module):
    """A graph of Dynamo's with the weights of one module.

    Args:
        graph: the graph.
        places: of the weights among its inputs.
        weights: the weights.
        settings: how it is compiled.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        places: Sequence[int],
        weights: Sequence[torch.Tensor],
        settings: Settings,
    ) -> None:
        super().__init__()
        self.weights = list(weights)
        self._graph = [graph]
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        self._held: list[str | None] = [None] * len(names)
        for place, weight in zip(places, weights, strict=True):
            name = self._held[place] = names[place].strip("_")
            if isinstance(weight, torch.nn.Parameter):
                self.register_parameter(name, weight)
            else:
                self.register_buffer(name, weight)
        self._seen = self._versions()
        self.runners = Runners(self, settings)

    def forward(self, *given: Any) -> Any:
        """What the graph gives for the inputs that are no weights."""
        (graph,) = self._graph
        rest = iter(given)
        args = [next(rest) if name is None else getattr(self, name) for name in self._held]
        if torch.compiler.is_exporting():
            # Node by node, so that what is traced has the module's path and the source's line.
            return fx.Interpreter(graph).run(*args)
        return graph(*args)

    def look(self) -> None:
        """Has weights prepared anew that changed since the last call."""
        versions = self._versions()
        if versions != self._seen:
            self._seen = versions
            for runner in self.runners.known.values():
                if runner is not None:
                    runner.refresh()

    def _versions(self) -> list[tuple[int, int]]:
        return [(weight.data_ptr(), weight._version) for weight in self.weights]


def _is(one: object, other: object) -> bool:
    return one is other


def _is_static(node: fx.Node) -> bool:
    """Whether an input is a parameter or buffer of a module."""
    return "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {})


def _can_run(graph: fx.GraphModule, args: Sequence[Any]) -> bool:
    """Whether compiled code may run: in inference, in float32, on the processor."""
    if torch.is_autocast_enabled("cpu"):
        return False
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if torch.is_grad_enabled() and any(
        each.requires_grad for each in (*tensors, *graph.parameters())
    ):
        return False
    return all(each.device.type == "cpu" for each in tensors)


if not entry_points(group="torch_dynamo_backends", name=_NAME):
    # Run from a source tree; where Weft is installed, PyTorch finds the backend by its name.
    register_backend(backend, _NAME)
