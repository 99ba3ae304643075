# pyright: basic
"""What a module computes: its ATen graph for one example, as ``torch.export`` gives it.

The graph is taken before decomposition, so that batch normalization, attention and LSTMs are
still whole.  PyTorch makes it functional (no writes in place) only where inputs or buffers are
written, because that costs as much again as the export.  Modules that need nothing else of
``torch.export`` than the ops of their forward are recorded without it, which takes a tenth of
the time.
"""

from __future__ import annotations

import copy
import importlib
import operator
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import torch

# The first export would import these.
import torch._functorch.aot_autograd
import torch.export._trace
import torch.export._unlift
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from weft.errors import UserError, named
from weft.records import dataclass
from weft.torch.aliases import may_be_copies
from weft.torch.assigned import exported_alike
from weft.torch.exporting import GATE
from weft.torch.folding import fold, known_nodes, simplify, simplify_exported
from weft.torch.functional import replace_writes
from weft.torch.recording import Recorded, record
from weft.torch.tensors import has_fractions, memory_of

Kind: TypeAlias = Literal["parameter", "buffer", "constant", "state", "input"]
Decompositions: TypeAlias = Mapping[torch._ops.OperatorBase, Callable[..., Any]]
"""By op a function that computes it with other ops."""


@dataclass(frozen=True, eq=False)
class Slot:
    """A placeholder of the graph.

    Attributes:
        node: the placeholder.
        kind: what it stands for; a state is a buffer that the module changes.
        name: of a parameter or buffer, its path in the module; else the placeholder's name.
        value: a weight's tensor, or what the example gave for an input.
    """

    node: fx.Node
    kind: Kind
    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class Result:
    """An output of the graph.

    Attributes:
        value: a node, or a constant such as a number or ``None``.
        target: the slot that it is written back to, where the module changes a buffer or an
            input; such results come first and are not given to the caller.
    """

    value: Any
    target: Slot | None = None


@dataclass(frozen=True, eq=False)
class Captured:
    """A module's graph for inputs like the example's.

    Attributes:
        name: of the module's class.
        graph: call_function nodes of ATen ops with ``meta["val"]``, all sizes known.
        slots: by placeholder, in order.
        results: what the graph gives, in order.
        in_spec: how the arguments ``((args), {kwargs})`` are nested.
        out_spec: how what the caller gets is nested.
        baked: weights whose values decided nodes that are not in the graph any more.
    """

    name: str
    graph: fx.Graph
    slots: Mapping[fx.Node, Slot]
    results: Sequence[Result]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    baked: Sequence[Slot] = ()

    @property
    def inputs(self) -> list[Slot]:
        """What a call gives, flattened, in order."""
        return [slot for slot in self.slots.values() if slot.kind == "input"]

    @property
    def weights(self) -> list[Slot]:
        """Parameters, buffers, states and constants, in order."""
        return [slot for slot in self.slots.values() if slot.kind != "input"]


_KINDS: dict[InputKind, Kind] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.USER_INPUT: "input",
}


def capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    decompose: Decompositions | None = None,
) -> Captured:
    """Exports a module for one example.

    Args:
        module: in evaluation mode, or as it is to be run.
        args: positional arguments; tensors decide shapes, everything else is a constant.
        kwargs: arguments by name, in any order.
        decompose: makes the graph functional, with these ops as PyTorch decomposes them.

    Raises:
        UserError: PyTorch cannot export it, with PyTorch's error as the cause, it does not take
            the example, it computes under autocast or with numbers among its attributes that its
            forward changes, or PyTorch infers wrong shapes for it.
    """
    kwargs = dict(kwargs or {})
    leaves = pytree.tree_leaves((args, kwargs))
    _register_caches(module)
    try:
        with GATE.exporting(), torch.no_grad(), warnings.catch_warnings():
            # What PyTorch says of its own use of itself and of weights under two names.
            warnings.simplefilter("ignore")
            apart = _apart(module, args, kwargs)
            recorded = _recorded(module, apart, leaves) if decompose is None else None
            if recorded is not None:
                return recorded
            exported = exported_alike(
                module, lambda: torch.export.export(module, *apart, strict=False)
            )
            simplify_exported(exported)
            _check_states(exported.graph)
            if decompose is not None or _needs_functions(exported):
                exported = exported.run_decompositions(dict(decompose or {}))
                simplify_exported(exported)
    except UserError:
        raise
    except Exception as error:
        _check_call(module, args, kwargs)
        raise UserError(
            f"torch.export cannot export {type(module).__name__}",
            got=named(error).splitlines()[0],
            fix='torch.compile(model, backend="weft") runs what it can of such modules.',
        ) from error
    slots = _slots(exported, leaves)
    spec = exported.call_spec
    return _captured(
        module, exported.graph, slots, _results(exported, slots), spec.in_spec, spec.out_spec
    )


def _recorded(
    module: torch.nn.Module, call: tuple[tuple[Any, ...], dict[str, Any]], leaves: Sequence[Any]
) -> Captured | None:
    """A module that can be captured without ``torch.export``."""
    found: Recorded | None = exported_alike(module, lambda: record(module, *call))
    if found is None:
        return None
    simplify(found.graph)
    _check_states(found.graph)
    given = iter(leaves)
    slots = {
        each.node: Slot(
            each.node, each.kind, each.name, next(given) if each.kind == "input" else each.value
        )
        for each in found.placeholders
    }
    known = known_nodes(found.graph, _constants(slots))
    if may_be_copies(found.graph, known) or not replace_writes(found.graph, known):
        return None
    results = [Result(value) for value in _returned(found.graph)]
    return _captured(module, found.graph, slots, results, found.in_spec, found.out_spec)


def _apart(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with tensors that share no memory with each other or with the module.

    PyTorch would take what is one tensor in the example for one in every call.
    """
    known = {memory_of(each) for each in (*module.parameters(), *module.buffers())}
    leaves, spec = pytree.tree_flatten((args, kwargs))
    for place, leaf in enumerate(leaves):
        memory = memory_of(leaf)
        if memory is not None and memory in known:
            leaves[place] = torch.empty_strided(
                leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device
            )
        known.add(memory)
    return pytree.tree_unflatten(leaves, spec)


def _check_call(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses arguments that the module itself refuses.

    Calls a copy that shares the parameters, as states may change.
    """
    shared: dict[int, Any] = {id(each): each for each in module.parameters()}
    try:
        own, args, kwargs = copy.deepcopy((module, args, kwargs), shared)
    except Exception:  # noqa: BLE001 (what cannot be copied is not called)
        return
    try:
        with torch.no_grad():
            own(*args, **kwargs)
    except Exception as error:
        raise UserError(
            f"{type(module).__name__} must run with the example arguments",
            got=named(error).splitlines()[0],
            fix="Give arguments that the module takes.",
        ) from error


def _register_caches(module: torch.nn.Module) -> None:
    """Makes the caches known to pytree that models of ``transformers`` take and return."""
    library = sys.modules.get("transformers")
    if library is not None and isinstance(module, library.PreTrainedModel):
        executorch: Any = importlib.import_module("transformers.integrations.executorch")
        # Nothing happens where they are known already.
        getattr(executorch, "register_dynamic_cache_export_support", lambda: None)()
        kind = getattr(library, "EncoderDecoderCache", None)
        if kind is not None and kind not in pytree.SUPPORTED_NODES:
            _register_pair(kind, ("self_attention_cache", "cross_attention_cache"))


def _register_pair(kind: type[Any], names: tuple[str, str]) -> None:
    """Makes a class known to pytree that is made of two attributes."""

    def flatten(pair: Any) -> tuple[list[Any], None]:
        return [getattr(pair, name) for name in names], None

    def flatten_with_keys(pair: Any) -> tuple[list[Any], None]:
        return [(pytree.GetAttrKey(name), getattr(pair, name)) for name in names], None

    pytree.register_pytree_node(
        kind,
        flatten,
        lambda parts, _: kind(*parts),
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _check_states(graph: fx.Graph) -> None:
    """Refuses last states of LSTMs that PyTorch before 2.13 gives another axis for batches.

    What follows such a state was traced with its wrong shape.
    """
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.lstm.input):
        for user in node.users:
            place: Any = user.args[1]
            if user.target is operator.getitem and place and user.users:
                start = node.args[1][place - 1].meta["val"]
                if user.meta["val"].shape != start.shape:
                    raise UserError(
                        "PyTorch infers a wrong shape for the last states of LSTMs",
                        got=f"{tuple(user.meta['val'].shape)} for {tuple(start.shape)}",
                        fix="Use PyTorch 2.13 or later, or batches of one.",
                    )


def _needs_functions(exported: Any) -> bool:
    """Whether PyTorch must trace the graph again, to make writes functional."""
    if any(spec.kind != OutputKind.USER_OUTPUT for spec in exported.graph_signature.output_specs):
        return True
    known = known_nodes(exported.graph, _constants(_slots(exported)))
    return not replace_writes(exported.graph, known)


def _captured(
    module: torch.nn.Module,
    graph: fx.Graph,
    slots: dict[fx.Node, Slot],
    results: Sequence[Result],
    in_spec: pytree.TreeSpec,
    out_spec: pytree.TreeSpec,
) -> Captured:
    constants = _constants(slots)
    known = known_nodes(graph, constants)
    read = {each for node in known for each in node.all_input_nodes}
    baked = [slot for node, slot in slots.items() if node in read and node in constants]
    for node, value in fold(graph, known, constants).items():
        slots[node] = Slot(node, "constant", node.name, value)
    values = _returned(graph)
    results = [replace(old, value=value) for old, value in zip(results, values, strict=True)]
    return Captured(type(module).__name__, graph, slots, results, in_spec, out_spec, baked)


def _returned(graph: fx.Graph) -> Sequence[Any]:
    (values,) = next(iter(graph.find_nodes(op="output"))).args
    return cast(Sequence[Any], values)


def _slots(exported: Any, leaves: Sequence[Any] | None = None) -> dict[fx.Node, Slot]:
    """What the placeholders stand for; without the values of inputs if not given."""
    signature = exported.graph_signature
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    changed = {
        spec.target for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION
    }
    given = iter(leaves or ())
    slots: dict[fx.Node, Slot] = {}
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        kind = _KINDS.get(spec.kind)
        if kind is None:
            raise UserError(f"torch.export gives an input of the kind {spec.kind.name}")
        if kind == "input":
            slots[node] = Slot(node, kind, node.name, None if leaves is None else next(given))
        else:
            known = exported.constants if spec.target in exported.constants else None
            value = known[spec.target] if known is not None else exported.state_dict[spec.target]
            kind = "state" if spec.target in changed else kind
            slots[node] = Slot(node, kind, spec.target, value)
    return slots


def _constants(slots: Mapping[fx.Node, Slot]) -> dict[fx.Node, torch.Tensor]:
    """Weights whose values the code may depend on: integers and tensors that are no parameters."""
    return {
        node: slot.value
        for node, slot in slots.items()
        if slot.kind == "constant"
        or (slot.kind in ("parameter", "buffer") and not has_fractions(slot.value))
    }


def _results(exported: Any, slots: Mapping[fx.Node, Slot]) -> list[Result]:
    by_name = {slot.name: slot for slot in slots.values() if slot.kind != "input"}
    by_node = {node.name: slot for node, slot in slots.items()}
    found: list[Result] = []
    returned = _returned(exported.graph)
    for value, spec in zip(returned, exported.graph_signature.output_specs, strict=True):
        if spec.kind == OutputKind.USER_OUTPUT:
            found.append(Result(value))
        elif spec.kind == OutputKind.BUFFER_MUTATION:
            found.append(Result(value, by_name[spec.target]))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            found.append(Result(value, by_node[spec.target]))
        elif spec.kind.name == "PARAMETER_MUTATION":
            raise UserError(
                "the forward must not write parameters",
                got=spec.target,
                fix="Write buffers; an Embedding whose rows are short enough needs no max_norm.",
            )
        else:
            raise UserError(f"torch.export gives an output of the kind {spec.kind.name}")
    return found
