# pyright: basic
"""``weft.optimize``: a module that computes the same, faster."""

from __future__ import annotations

import copy
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import cache, wraps
from typing import Any

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils import _pytree as pytree

from weft.errors import UserError
from weft.plan.choice import MAX_ROUNDING
from weft.torch.binding import Binding, callable_of
from weft.torch.contents import contents
from weft.torch.exporting import GATE
from weft.torch.native import MISS, native
from weft.torch.own import reason_of_call, reason_of_module
from weft.torch.specialise import Runner, Runners, Settings
from weft.torch.watch import HOOKS, Watch, held

_MOST_CAPTURES = 8
"""So often a module is captured anew because its attributes or submodules changed."""
_MODULE_CALL = nn.Module.__call__
_CALLS = ("__call__", "_wrapped_call_impl", "_call_impl")
"""What of a class leads to its ``forward``."""
_OWN_CALLS = ("forward", "_compiled_call_impl")
"""Attributes of a module that its call runs instead."""


def optimize(
    module: nn.Module,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    exact: bool = False,
    tune: bool = False,
    strict: bool = False,
    measure: bool = True,
    precision: str = "float32",
    max_rounding: float = MAX_ROUNDING,
) -> nn.Module:
    """A module whose ``forward`` is compiled code, and which is otherwise the one given.

    Both share their attributes: parameters, buffers, submodules, hooks and mode are one, and so
    are ``state_dict`` and what ``to`` or ``load_state_dict`` do.  The class is a subclass of the
    module's.  Compiled code runs in evaluation mode where nothing needs gradients, on float32
    tensors in main memory; all other calls run the module's own forward, which a warning says
    once.

    Weights that PyTorch writes, optimizers step, or attributes that are assigned are seen at
    the next call.  After writes that PyTorch does not count (``p.data[0, 3] = 1``, NumPy), and
    after changes inside of lists and objects that are attributes, call ``refresh``; see
    ``weft.torch.watch`` for what of them is seen.

    Args:
        module: any module.
        example: arguments of a call; other shapes are compiled when they come.
        kwargs: and those by name.
        threads: to run on; PyTorch's number, also as it changes, if not given.
        exact: as for ``weft.Options``.
        tune: measures alternatives.
        strict: refuses what cannot be compiled whole.
        measure: compares with the module's own forward after compiling, and keeps the faster.
        precision: that values between layers and weights are stored in: ``float32``, or
            ``bfloat16`` or ``float16``, which layers read as float32; arguments, results and the
            module's weights stay float32.
        max_rounding: that faster algorithms may add in bfloat16, as for ``weft.Options``.

    Raises:
        UserError: the module cannot be captured, ``strict`` refuses, there is no such
            precision, nothing that ``max_rounding`` decides, or no subclass of the module's
            class (``__slots__``).
    """
    if isinstance(module, Optimized):
        module = module._weft.module
    settings = Settings(
        threads=threads,
        exact=exact,
        tune=tune,
        strict=strict,
        measure=measure,
        precision=precision,
        max_rounding=max_rounding,
    )
    fast = optimized(module, settings)
    if fast._weft.is_called() and (example or kwargs):
        fast._weft.compile(example, dict(kwargs or {}))
    return fast


def optimized(module: nn.Module, settings: Settings) -> Optimized:
    """The optimized module; nothing is compiled yet."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UserError(
            "weft.optimize takes modules of Python",
            got=type(module).__name__,
            fix="Give it the module that was scripted or traced.",
        )
    kind = _class(type(module))
    fast = kind.__new__(kind)
    object.__setattr__(fast, "__dict__", module.__dict__)
    object.__setattr__(fast, "_weft", Optimization(module, settings))
    return fast


class Optimized(nn.Module):
    """What ``optimize`` gives: an instance of this and of the module's class."""

    __slots__ = ("_weft",)
    _weft: Optimization

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimized:
        twin = optimized(copy.deepcopy(self._weft.module, memo), self._weft.settings)
        memo[id(self)] = twin
        return twin

    def __copy__(self) -> Optimized:
        return optimized(copy.copy(self._weft.module), self._weft.settings)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return optimized, (self._weft.module, self._weft.settings)


@cache
def _class(kind: type[nn.Module]) -> type[Optimized]:
    """The class of a module's optimized twin.  It has the same name: it is saved in checkpoints."""

    @wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():
            return kind.forward(self, *args, **kwargs)
        try:
            optimization = self._weft
        except AttributeError:  # a replica, which PyTorch makes without its constructor
            return kind.forward(self, *args, **kwargs)
        result = optimization.named(args, kwargs) if kwargs else optimization.call(*args)
        return optimization.slow(args, kwargs) if result is MISS else result

    def refresh(self: Any) -> None:
        """Looks at everything anew, after changes that are not seen.

        Prepares the weights again, and compiles again where lists or objects that are attributes
        hold something else than before.
        """
        self._weft.refresh()

    space: dict[str, Any] = {
        "__slots__": (),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "forward": forward,
    }
    if not hasattr(kind, "refresh"):
        space["refresh"] = refresh
    if _calls_plainly(kind):
        space["__call__"] = _short_call(kind)
    metaclass: Any = type(kind)
    try:
        return metaclass(kind.__name__, (Optimized, kind), space)
    except TypeError as error:
        raise UserError(
            "weft.optimize makes a subclass of the module's class",
            got=f"{kind.__name__}: {error}",
            fix='torch.compile(model, backend="weft") needs none.',
        ) from error


def _short_call(kind: type[nn.Module]) -> Callable[..., Any]:
    """PyTorch's call of a module, which takes longer than all the rest, where it does no more."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():
            return kind.__call__(self, *args, **kwargs)
        route = kind.__call__
        if route is not _MODULE_CALL:  # perhaps another thread exports, which patches it
            with GATE.running():
                route = kind.__call__
        if not kwargs and route is _MODULE_CALL:
            try:
                whole = self._weft.whole
            except AttributeError:  # a replica
                whole = _miss
            result = whole(*args)
            if result is not MISS:
                return result
        return route(self, *args, **kwargs)

    return call


def _miss(*_: Any) -> Any:
    return MISS


class Optimization:
    """What an optimized module runs, and whether it still may.

    Attributes:
        module: as it was given.
        settings: how it is compiled.
        call: runs flat positional arguments, or gives ``MISS``.
        whole: the same in place of the module's ``__call__``; ``MISS`` where that would call hooks.
    """

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self.module = module
        self.settings = settings
        self.call: Callable[..., Any] = _miss
        self.whole: Callable[..., Any] = _miss
        self._runners = Runners(module, settings)
        self._bindings: dict[Hashable, Binding] = {}
        # Callables in C by the names of arguments, or by how these are nested.
        self._calls: dict[Hashable, Callable[..., Any]] = {}
        self._groups: dict[Hashable, list[Binding]] = {}
        self._watch: Watch | None = None
        self._prepared = 0
        self._contents: list[Hashable] | None = None  # of containers, when code was made first
        self._stale = False
        self._told = False
        self._captures = 0
        self._said: set[str] = set()
        self._lock = threading.RLock()
        _live.add(self)
        _watch_optimizers()

    @property
    def runners(self) -> list[Runner | None]:
        """What was compiled, in order; ``None`` for what could not be, or is not yet."""
        return list(self._runners.known.values())

    def is_called(self) -> bool:
        """Whether calls come here; says so where an attribute of the module runs instead."""
        if self._calls_own():
            self._say(f"an attribute, {' or '.join(_OWN_CALLS)}, runs instead of its class's")
            return False
        return True

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compiles the signature of these arguments, unless the module's own forward must run.

        Raises:
            UserError: it cannot be compiled.
        """
        with self._lock, torch.no_grad():
            leaves = pytree.tree_leaves((args, kwargs))
            with GATE.running():
                why = reason_of_call(leaves) or reason_of_module(self.module)
                if why is not None:
                    self._say(why)
                    return
                self._look()
            self._runners.module = _without_hooks(self.module)
            self._runners.add(args, kwargs)
            self._bind(args, kwargs)

    def refresh(self) -> None:
        """Takes all weights for changed, and looks into containers."""
        with self._lock:
            self._told = True
            self._take_for_changed()

    def unlock(self) -> None:
        """Forgets who has the lock: a forked process lacks the threads that had it."""
        self._lock = threading.RLock()

    def stepped(self, written: set[int]) -> None:
        """Notes that an optimizer wrote tensors, given by their ``id``."""
        if not self._stale and any(id(each) in written for _, each in held(self.module)):
            with GATE.holding(self._lock):
                self._take_for_changed()

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``call`` with arguments by name."""
        return self._calls.get(tuple(kwargs), _miss)(*args, *kwargs.values())

    def slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the module where ``call`` gave ``MISS``."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        nested = self._calls.get(spec)
        result = MISS if nested is None else nested(*leaves)
        if result is not MISS:
            return result
        with GATE.running():
            why = reason_of_call(leaves) or reason_of_module(self.module)
            if why is not None:
                self._say(why)
                return self.module.forward(*args, **kwargs)
        with GATE.holding(self._lock):
            binding = self._binding(args, kwargs)
        if binding is not None:
            return binding.run(*leaves)
        with GATE.running():
            return self.module.forward(*args, **kwargs)

    # --- what runs --------------------------------------------------------------------------

    def _binding(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Binding | None:
        """What is right for these arguments and for the module as it is now."""
        with GATE.running():
            self._look()
        if self._captures > _MOST_CAPTURES:
            self._say(f"its attributes or submodules changed {self._captures} times")
            return None
        return self._bind(args, kwargs)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Binding | None:
        # Hooks may have been registered or removed since the last capture.
        self._runners.module = _without_hooks(self.module)
        runner = self._runners.find(args, kwargs)
        if runner is None:
            return None
        with GATE.running():
            return self._bound(runner, args, kwargs)

    def _bound(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Binding:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        strides = (each.stride() for each in leaves if isinstance(each, torch.Tensor))
        key = self._runners.key(args, kwargs), *strides
        binding = self._bindings.get(key)
        if binding is None or binding.runner is not runner:
            binding = Binding(runner, leaves, torch.get_num_threads())
            flat = all(pytree.tree_is_leaf(each) for each in (*args, *kwargs.values()))
            if self._contents is None:
                self._contents = contents(self.module)
            self._bindings[key] = binding
            self._groups.setdefault(tuple(kwargs) if flat else spec, []).append(binding)
            self._adopt(binding)
        if binding.prepared != self._prepared:
            runner.refresh()
            binding.ready(self._prepared)
        return binding

    def _adopt(self, binding: Binding) -> None:
        """Watches the constants of a new binding, too, and links it."""
        before, now = self._watch, self._new_watch()
        self._watch = now
        known = before is not None and before.holds() and not before.changed(now)
        if known and not self.settings.background:
            # What compiling has loaded is what there still is.
            binding.ready(self._prepared)
        self._link()

    def _look(self) -> None:
        """Takes notice of what has changed."""
        watch = self._watch
        if watch is not None and not self._stale and watch.same():
            return
        # First: what changes while the weights are prepared is a change.
        now = self._new_watch()
        if watch is not None:
            changed = watch.changed(now)
            if not watch.holds() or self._baked() & changed or self._holds_else():
                self._forget()
                now = self._new_watch()
            if changed or self._stale:
                self._withdraw()
        self._stale = self._told = False
        self._watch = now
        self._link()

    def _holds_else(self) -> bool:
        """Whether containers were changed, as far as somebody said that something was."""
        return self._told and self._contents not in (None, contents(self.module))

    def _new_watch(self) -> Watch:
        """The module as it is now; states are read where they are, so that they may change."""
        runners = [each.runner for each in self._bindings.values()]
        states = {name for each in runners for name in each.states()}
        used = {name for each in runners for name in each.prepared()} | self._baked()
        return Watch(self.module, self._constants(), states - used)

    def _take_for_changed(self) -> None:
        self._stale = True
        self._withdraw()

    def _withdraw(self) -> None:
        """No weights are prepared."""
        self._prepared += 1
        for each in self._bindings.values():
            each.entry.table.ready = 0

    def _forget(self) -> None:
        """Nothing that was captured is right."""
        self._captures += 1
        self._contents = None
        self._runners = Runners(self.module, self.settings)
        self._bindings.clear()
        self._groups.clear()

    def _link(self) -> None:
        library, watch = native(), self._watch
        self._calls = {}
        self.whole = _miss
        if library is not None and watch is not None and watch.table is not None:
            threads = self.settings.threads
            for key, group in self._groups.items():
                self._calls[key] = callable_of(library, group, watch.table, threads, None, watch)
            if () in self._groups and not self._calls_own():
                self.whole = callable_of(
                    library, self._groups[()], watch.table, threads, watch.hooks(), watch
                )
        self.call = self._calls.get((), _miss)

    def _calls_own(self) -> bool:
        return any(map(self.module.__dict__.get, _OWN_CALLS))

    def _constants(self) -> list[torch.Tensor]:
        """Tensors that graphs read which are no parameters or buffers."""
        slots = (slot for each in self._bindings.values() for slot in each.runner.baked())
        return [slot.value for slot in slots if slot.kind == "constant"]

    def _baked(self) -> set[str]:
        """The names of the weights whose elements code depends on."""
        runners = [each.runner for each in self._bindings.values()]
        names = {slot.name for each in runners for slot in each.baked()}
        return names | {f"constant {n}" for n in range(len(self._constants()))}

    def _say(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            name = type(self.module).__name__
            warnings.warn(f"{name} runs its own forward: {why}", stacklevel=4)


def _without_hooks(module: nn.Module) -> nn.Module:
    """The same module without what is around its forward, which runs around compiled code."""
    kind = _called_plainly(type(module))
    if kind is type(module) and not any(module.__dict__[name] for name in HOOKS):
        return module
    bare = object.__new__(kind)
    empty = {name: type(module.__dict__[name])() for name in HOOKS}
    object.__setattr__(bare, "__dict__", {**module.__dict__, **empty})
    return bare


def _calls_plainly(kind: type[nn.Module]) -> bool:
    """Whether a call of a module is what PyTorch makes it."""
    return all(getattr(kind, name) is getattr(nn.Module, name) for name in _CALLS)


@cache
def _called_plainly(kind: type[nn.Module]) -> type[nn.Module]:
    """A class, or one like it whose call is what PyTorch makes it."""
    if _calls_plainly(kind):
        return kind
    space = {name: getattr(nn.Module, name) for name in _CALLS}
    metaclass: Any = type(kind)
    return metaclass(kind.__name__, (kind,), {**space, "__module__": kind.__module__})


# --- forks and optimizers ---------------------------------------------------------------------

_live: weakref.WeakSet[Optimization] = weakref.WeakSet()


def _unlock() -> None:
    for optimization in list(_live):
        optimization.unlock()


os.register_at_fork(after_in_child=_unlock)


@cache
def _watch_optimizers() -> None:
    """From now on steps of optimizers are seen: fused ones write without being counted."""
    register_optimizer_step_post_hook(_stepped)


def _stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    stepped = {id(each) for group in optimizer.param_groups for each in group["params"]}
    with GATE.running():
        for optimization in list(_live):
            optimization.stepped(stepped)
