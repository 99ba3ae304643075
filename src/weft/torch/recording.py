# pyright: basic
"""Records the ATen ops of a forward as it runs with tensors that have no elements.

``torch.export`` takes seconds for large modules: for every op it dispatches fake tensors many
times, makes proxies and formats a traceback.  Most modules need nothing of that.  Here the ops
reach a mode before they are decomposed, where the export takes them as well, and run with tensors
of the device ``meta``.  The graph is the export's, node by node.

Whatever is not plain is left to ``torch.export``: modules that are being trained or assign
attributes, values that decide what runs, autocast, layouts other than contiguous, control flow
operators, and ops without shape inference.
"""

from __future__ import annotations

import builtins
import operator
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from weft.records import dataclass
from weft.torch.folding import evaluate, known_nodes
from weft.torch.module_calls import calls, place_of_call
from weft.torch.recordable import CONSTANTS, TRAINING, check, is_ordinary, is_plain
from weft.torch.restored import give_back, restored
from weft.torch.traced import LeftError, Traced, traced

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Placeholder:
    """What a placeholder of a recorded graph stands for.

    Attributes:
        node: the placeholder.
        kind: ``parameter``, ``buffer``, ``constant`` or ``input``.
        name: of a weight, its path in the module; else the placeholder's.
        value: a weight's tensor, or what the example gives.
    """

    node: fx.Node
    kind: Any
    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class Recorded:
    """A graph of ATen ops.

    Attributes:
        graph: call_function nodes with ``meta["val"]``, and an output.
        placeholders: in order; weights come first.
        in_spec: how the arguments ``((args), {kwargs})`` are nested.
        out_spec: how what the caller gets is nested.
    """

    graph: fx.Graph
    placeholders: tuple[Placeholder, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


def record(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Recorded | None:
    """Records a module, if it is plain enough.

    Args:
        module: whose forward runs once, with tensors without elements; nothing of it changes.
        args: positional arguments; tensors decide shapes, everything else is a constant.
        kwargs: arguments by name.

    Returns:
        ``None`` where ``torch.export`` has to take it.
    """
    recordings: list[Recording] = []
    try:
        found = _record(module, args, kwargs, recordings)
    except Exception:  # noqa: BLE001 (the export tells what is wrong with the module)
        found = None
    for each in recordings:
        with suppress(Exception):
            each.give_elements()
    return found


def _record(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    recordings: list[Recording],
) -> Recorded | None:
    leaves, in_spec = pytree.tree_flatten((args, dict(kwargs)))
    if not leaves or not is_plain(module, leaves):
        return None
    recording = Recording(module)
    recordings.append(recording)
    recording.place_inputs(args, kwargs, leaves)
    given, named = pytree.tree_unflatten(recording.given, in_spec)
    with restored(module) as changed, recording.running():
        made, out_spec = pytree.tree_flatten(module(*given, **named))
    if changed:
        raise LeftError(f"the forward changes {', '.join(changed)}")
    recording.finish(made)
    return Recorded(recording.graph, tuple(recording.placeholders), in_spec, out_spec)


# --- the mode -----------------------------------------------------------------------------------


class _Mode(ProxyTorchDispatchMode):
    """Gives ops to a recording, before they are decomposed.

    PyTorch takes only its own kinds of modes there, so this is one of them.
    """

    def __init__(self, recording: Recording) -> None:
        # That of the base class would import Inductor.
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self._mode_key: Any = torch._C._TorchDispatchModeKey.PROXY
        self.enter_stack = []
        self.pre_dispatch = True
        self.recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return torch.device("cpu")
        try:
            return self.recording.op(func, args, kwargs or {})
        except BaseException:
            # The module might catch it.
            self.recording.left = True
            raise


@dataclass(eq=False)
class Recording:
    """A graph that is being recorded.

    Attributes:
        module: what runs.
        graph: of the nodes so far.
        placeholders: of the graph, in order.
        given: the leaves of the arguments, with recorded tensors.
        left: whether something came that is left to ``torch.export``.
    """

    module: torch.nn.Module
    graph: fx.Graph = field(default_factory=fx.Graph)
    placeholders: list[Placeholder] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    left: bool = False

    def __post_init__(self) -> None:
        self._known: dict[int, Traced] = {}
        self._kept: list[Any] = []
        self._made: list[weakref.ref[Traced]] = []
        self._modules: dict[int, list[str]] = {}
        self._paths: list[str] = []
        self._lifted = 0
        self._spaces: list[tuple[dict[str, Any], dict[str, Any]]] = []
        modules = dict(self.module.named_modules(remove_duplicate=False))
        for path, each in modules.items():
            self._modules.setdefault(id(each), []).append(path)
        for kind, prefix, table in (
            ("parameter", "p_", "_parameters"),
            ("buffer", "b_", "_buffers"),
        ):
            for path, each in modules.items():
                space = vars(each)[table]
                self._spaces.append((space, dict(space)))
                for name, value in space.items():
                    if value is not None:
                        full = f"{path}.{name}".lstrip(".")
                        self._place(kind, full, prefix + _identifier(full), value)

    # --- placeholders -------------------------------------------------------------------------

    def _place(self, kind: str, name: str, called: str, value: torch.Tensor) -> Traced:
        if id(value) in self._known:
            element = self._known[id(value)].element
        else:
            element = torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device="meta"
            )
        node = self._placeholder(called, element)
        made = traced(element, node, self, requires_grad=value.requires_grad)
        # What asks for parameters must find them.
        vars(made)["_is_param"] = isinstance(value, torch.nn.Parameter)
        self.placeholders.append(Placeholder(node, kind, name, value))
        self._known[id(value)] = made
        # As long as its number is known.
        self._kept.append(value)
        return made

    def _placeholder(self, called: str, value: Any) -> fx.Node:
        node = self.graph.create_node("placeholder", called, name=called)
        if hasattr(builtins, called) and all(
            each.node.name != called for each in self.placeholders
        ):
            # The graph would keep such names to Python; nodes of ops have none of them.
            node.name = called
        node.meta["val"] = value
        return node

    def place_inputs(self, args: Any, kwargs: Mapping[str, Any], leaves: list[Any]) -> None:
        """Makes placeholders of the arguments, named as the forward's arguments."""
        # Another version of PyTorch may lack it: then the export is used.
        from torch._export.utils import _bind_signature_to_inputs  # noqa: PLC0415

        named = _bind_signature_to_inputs(self.module, args, dict(kwargs))
        paths, _ = pytree.tree_flatten_with_path(named)
        for (path, _), leaf in zip(paths, leaves, strict=True):
            called = "_".join(_key(each).lower() for each in path)
            if not isinstance(leaf, torch.Tensor):
                node = self._placeholder(called, leaf)
                self.given.append(leaf)
            else:
                element = torch.empty_strided(
                    leaf.size(), leaf.stride(), dtype=leaf.dtype, device="meta"
                )
                node = self._placeholder(called, element)
                self.given.append(traced(element, node, self, requires_grad=leaf.requires_grad))
            self.placeholders.append(Placeholder(node, "input", node.name, leaf))

    # --- running ------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Has the module's ops recorded.

        Raises:
            LeftError: the module gave itself other weights.
        """
        # Other versions of PyTorch may lack them: then the export is used.
        from torch._dispatch.python import enable_python_dispatcher  # noqa: PLC0415
        from torch._export.utils import _compiling_state_context  # noqa: PLC0415
        from torch.export._trace import _ignore_backend_decomps  # noqa: PLC0415

        fastpath = torch.backends.mha.get_fastpath_enabled()
        with ExitStack() as stack:
            stack.callback(self._restore)
            for space, known in self._spaces:
                space.update({name: self._stand_in(value) for name, value in known.items()})
            # PyTorch takes its own encoders apart where it records.
            stack.callback(torch.backends.mha.set_fastpath_enabled, fastpath)
            torch.backends.mha.set_fastpath_enabled(False)
            stack.enter_context(_ignore_backend_decomps())
            stack.enter_context(_compiling_state_context())
            stack.enter_context(calls(self._called))
            # Without it ops that PyTorch composes of others would not reach the mode.
            stack.enter_context(enable_python_dispatcher())
            stack.enter_context(_Mode(self))
            yield
            for space, known in self._spaces:
                placed = map(self._stand_in, known.values())
                if list(space) != list(known) or not all(map(operator.is_, space.values(), placed)):
                    raise LeftError("the forward assigns, adds or removes weights")
        if self.left:
            raise LeftError("something came that is not recorded")

    def _stand_in(self, weight: Any) -> Any:
        return None if weight is None else self._known[id(weight)]

    def _restore(self) -> None:
        for space, known in self._spaces:
            if list(space) == list(known):
                # Not anew: compiled code watches the dicts of modules.
                space.update(known)
            else:
                give_back(space, known)

    @contextmanager
    def _called(self, module: torch.nn.Module) -> Iterator[None]:
        paths = self._modules.get(id(module), [""])
        above = self._paths[-1] + "." if self._paths and self._paths[-1] else ""
        # A module may be in several others.
        self._paths.append(next((each for each in paths if each.startswith(above)), paths[0]))
        try:
            yield
        finally:
            self._paths.pop()

    # --- ops ----------------------------------------------------------------------------------

    def op(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Records an op, and gives what it gives."""
        check(func, args, kwargs)
        if func is aten.lift_fresh.default:
            func = aten.lift_fresh_copy.default
        taken: dict[int, Traced] = {}
        nodes: list[Any] = []
        elements: list[Any] = []
        for value in args:
            node, element = self._argument(value, taken)
            nodes.append(node)
            elements.append(element)
        named_nodes: dict[str, Any] = {}
        named_elements: dict[str, Any] = {}
        for name, value in kwargs.items():
            named_nodes[name], named_elements[name] = self._argument(value, taken)
        if torch.is_grad_enabled() and any(each.requires_grad for each in taken.values()):
            raise LeftError(f"{func} would have gradients")
        if any(each.name == "device" for each in func._schema.arguments[len(args) :]):
            named_elements["device"] = torch.device("meta")
        name = self.graph._target_to_str(func.overloadpacket.__name__)
        node = self.graph.create_node("call_function", func, tuple(nodes), named_nodes, name=name)
        path = self._paths[-1] if self._paths else ""
        node.meta["nn_module_stack"] = {path: (path, "")}
        node.meta["stack_trace"] = place_of_call(record.__code__)
        before = [(each, _lies(each.element)) for each in taken.values()]
        with torch._C._DisablePythonDispatcher():
            made = _normalized(func, elements)
            if made is None:
                made = func(*elements, **named_elements)
        if any(_lies(each.element) != lay for each, lay in before):
            raise LeftError(f"{func} has a tensor lie otherwise")
        return self._result(made, node, taken)

    def _argument(self, value: Any, taken: dict[int, Traced]) -> tuple[Any, Any]:
        """An argument as the graph has it, and as the op takes it here."""
        if isinstance(value, torch.Tensor):
            found = value if type(value) is Traced else self._constant(value)
            if found.recording is not self:
                raise LeftError("a tensor is left from another recording")
            taken[id(found.element)] = found
            return found.node, found.element
        if isinstance(value, list | tuple):
            pairs = [self._argument(each, taken) for each in value]
            kind: Any = list if isinstance(value, list) else tuple
            return kind(node for node, _ in pairs), kind(element for _, element in pairs)
        if isinstance(value, torch.device):
            if value.type != "cpu":
                raise LeftError(f"something is on {value}")
            return value, torch.device("meta")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Generator):
            raise LeftError(f"{type(value).__name__} among arguments")
        return value, value

    def _constant(self, value: torch.Tensor) -> Traced:
        """A tensor that the module has elsewhere than among its weights, or makes of numbers."""
        if id(value) in self._known:
            return self._known[id(value)]
        if not is_ordinary(value):
            raise LeftError(f"a tensor is a {type(value).__name__}")
        name = self._attribute(value)
        if not name:
            path = self._paths[-1] if self._paths else ""
            name = f"{path}.lifted_tensor_{self._lifted}".lstrip(".")
            self._lifted += 1
        first = next(each.node for each in self.placeholders if each.kind == "input")
        with self.graph.inserting_before(first):
            return self._place("constant", name, "c_" + _identifier(name), value)

    def _attribute(self, value: torch.Tensor) -> str:
        for path, each in self.module.named_modules():
            for name, found in vars(each).items():
                if found is value:
                    return f"{path}.{name}".lstrip(".")
        return ""

    def _result(self, made: Any, node: fx.Node, taken: Mapping[int, Traced]) -> Any:
        node.meta["val"] = made
        if isinstance(made, torch.Tensor):
            return self._tensor(made, node, taken)
        if isinstance(made, list | tuple):
            parts: list[Any] = []
            for place, each in enumerate(made):
                part = self.graph.create_node("call_function", operator.getitem, (node, place))
                part.meta = {**node.meta, "val": each}
                if isinstance(each, torch.Tensor):
                    parts.append(self._tensor(each, part, taken))
                elif each is None:
                    parts.append(None)
                else:
                    raise LeftError(f"{node.target} gives {type(each).__name__}")
            return type(made)(parts)
        if made is None or isinstance(made, bool | int | float):
            return made
        raise LeftError(f"{node.target} gives {type(made).__name__}")

    def _tensor(self, element: torch.Tensor, node: fx.Node, taken: Mapping[int, Traced]) -> Any:
        if element.device.type != "meta":
            raise LeftError(f"{node.target} gives no tensor of meta")
        same = taken.get(id(element))
        if same is not None:
            same.node = node
            return same
        made = traced(element, node, self)
        self._made.append(weakref.ref(made))
        return made

    # --- the end ------------------------------------------------------------------------------

    def finish(self, made: list[Any]) -> None:
        """Ends the graph with what the forward returned."""
        results: list[Any] = []
        for each in made:
            if type(each) is Traced and each.recording is self:
                results.append(each.node)
            elif isinstance(each, CONSTANTS):
                results.append(each)
            else:
                raise LeftError(f"the forward gives {type(each).__name__}")
        self.graph.output(tuple(results))
        for node in reversed(list(self.graph.nodes)):
            # As in the export.
            if node.target is aten.detach.default and not node.users:
                self.graph.erase_node(node)
        order = {node: place for place, node in enumerate(self.graph.nodes)}
        self.placeholders.sort(key=lambda each: order[each.node])

    def give_elements(self) -> None:
        """Gives elements to tensors that the forward left in a cache outside of its module.

        Those that depend on inputs have none.
        """
        cached = [made for each in self._made if (made := each()) is not None]
        # Tensors with weak references cannot be swapped.
        self._made.clear()
        if not cached:
            return
        weights = {each.node: each.value for each in self.placeholders if each.kind != "input"}
        values = evaluate(self.graph, known_nodes(self.graph, weights), weights)
        for each in cached:
            value = values.get(each.node)
            if value is not None:
                own = value.new_empty(0).set_(value)
                with suppress(RuntimeError):
                    torch.utils.swap_tensors(each, own)


def _lies(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where a tensor lies, and how."""
    memory = tensor.untyped_storage()._cdata
    return memory, tensor.storage_offset(), tensor.size(), tensor.stride()


def _normalized(func: Any, elements: list[Any]) -> torch.Tensor | None:
    """What a batch normalization of the usual kind gives; PyTorch would take it apart."""
    if func is not aten.batch_norm.default:
        return None
    x, *channels = elements[: TRAINING["batch_norm"]]
    wanted = (x.shape[1:2], x.dtype)
    plain = all(each is None or (each.shape, each.dtype) == wanted for each in channels)
    return torch.empty_like(x) if plain and x.is_contiguous() else None


def _identifier(path: str) -> str:
    path = path.removeprefix("self_")
    return "".join(each if each.isascii() and each.isalnum() else "_" for each in path).lower()


def _key(part: Any) -> str:
    if isinstance(part, pytree.MappingKey):
        return _identifier(str(part.key))
    return str(part.idx) if isinstance(part, pytree.SequenceKey) else part.name
