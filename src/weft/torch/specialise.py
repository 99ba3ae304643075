# pyright: basic
"""What a module runs for one signature of its arguments, and the bounded cache of these.

A signature is how the arguments are nested, the element types, sizes and devices of the tensors
among them, and the values of everything else.  Each is captured and compiled on its own, so that
all sizes are known; calls beyond the bound run the module's own forward.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from weft.errors import UserError, above_zero, named
from weft.options import Options
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.torch.capture import Captured, Slot
from weft.torch.decomposition import capture_for
from weft.torch.eager import Layout, Times, own_forward, times
from weft.torch.execution import CompiledPart
from weft.torch.exporting import GATE
from weft.torch.foreseen import Foreseen
from weft.torch.index_bounds import OutsideError
from weft.torch.regions import Fallback, Joined, imported_whole, join, strict_error
from weft.torch.tensors import gives_complex, order_of, span_of
from weft.torch.watch import exact

T = TypeVar("T")

SIGNATURES = 8
"""So many signatures of a module are compiled unless another bound is given."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How modules are compiled.

    Attributes:
        threads: to run on; PyTorch's number, as it is when a signature is compiled, if ``None``.
        exact: as for ``weft.Options``.
        tune: measures alternatives of the layers.
        strict: refuses what cannot be compiled whole.
        signatures: bound of the cache; calls with further signatures run the module's own
            forward.
        measure: compares with PyTorch's own forward after compiling, and keeps the faster.
        background: compiles new signatures in a thread, once they are captured; the module's own
            forward runs meanwhile.
        precision: that values and weights are stored in, as for ``weft.Options``.
        max_rounding: that faster algorithms may add in bfloat16, as for ``weft.Options``.

    Raises:
        UserError: there is no such precision, or nothing that ``max_rounding`` decides.
    """

    threads: int | None = None
    exact: bool = False
    tune: bool = False
    strict: bool = False
    measure: bool = True
    signatures: int = SIGNATURES
    background: bool = False
    precision: str = "float32"
    max_rounding: float = MAX_ROUNDING

    def __post_init__(self) -> None:
        checked_rounding(self.options())
        above_zero("signatures", self.signatures)

    def options(self) -> Options:
        """Of building."""
        threads = torch.get_num_threads() if self.threads is None else self.threads
        return Options(
            threads=threads,
            exact=self.exact,
            tune=self.tune,
            precision=self.precision,
            max_rounding=self.max_rounding,
        )


def checked_rounding(options: Options) -> Options:
    """The options; modules are float32, so only those for bfloat16 have rounding to allow.

    Raises:
        UserError: ``max_rounding`` is given and decides nothing.
    """
    if options.max_rounding == MAX_ROUNDING:
        return options
    if options.precision != "bfloat16":
        raise UserError(
            "max_rounding is for layers that are stored in bfloat16",
            got=f"precision {options.precision or 'float32'}",
            fix='Give precision="bfloat16", too.',
        )
    if options.exact:
        raise UserError(
            "max_rounding and exact exclude each other: exact kernels add no rounding",
            got=f"{options.max_rounding:g} and exact",
        )
    return options


class Runner:
    """A module for one signature.

    Attributes:
        module: whose weights are used.
        captured: its graph.
        imported: what was compiled of it, in order.
        joined: the parts and PyTorch's ops between them, where these run.
        fallbacks: what PyTorch runs between the compiled parts.
        times: of compiled code and of PyTorch, where they were measured.
        own: the layout of the module's own forward, where that is faster and therefore runs.
        parts: the compiled parts that run, in order.
        part: the only one, where a call is nothing but its run: ``reads`` and ``gives`` say how.
        reads: by input of ``part``, the place of its tensor among the call's leaves.
        gives: by value that the caller gets, the place among the outputs of ``part``, or
            ``None`` where ``constants`` has it.
        constants: what the caller gets at these places.
    """

    def __init__(self, module: torch.nn.Module, captured: Captured, joined: Joined) -> None:
        self.module = module
        self.captured = captured
        self.imported = [part.imported for part in joined.parts]
        self.fallbacks: Sequence[Fallback] = joined.fallbacks
        self.times: Times | None = None
        self.own: Layout | None = None
        self.parts: Sequence[CompiledPart] = joined.parts
        self.joined: torch.fx.GraphModule | None = joined.run
        self._slots: Sequence[Slot] = joined.weights
        self._places = {slot.node: place for place, slot in enumerate(captured.inputs)}
        self._targets = [result.target for result in captured.results if result.target is not None]
        self._own_forward = own_forward(module, captured, "contiguous")
        self.part: CompiledPart | None = None
        self.reads: list[int] = []
        self.gives: list[int | None] = []
        self.constants = [
            None if isinstance(result.value, torch.fx.Node) else result.value
            for result in captured.results
        ]
        self._find_part()

    def _find_part(self) -> None:
        """Whether a call is one run of one part and nothing else."""
        if len(self.parts) != 1 or self.fallbacks or self._slots or self._targets:
            return
        (part,) = self.parts
        if any(map(gives_complex, (*part.imported.inputs, *part.imported.outputs))):
            return
        outputs = {node: place for place, node in enumerate(part.imported.outputs)}
        values = [result.value for result in self.captured.results]
        if all(value in outputs for value in values if isinstance(value, torch.fx.Node)):
            self.part = part
            self.reads = [self._places[node] for node in part.imported.inputs]
            self.gives = [outputs.get(value) for value in values]

    def flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs the module.

        Args:
            leaves: the arguments, flattened: one for each of ``captured.inputs``.

        Returns:
            What the caller gets, flattened, in the order of ``captured.results`` less those
            that are written back, which is done.
        """
        with GATE.running():
            return self._flat(leaves)

    def _flat(self, leaves: Sequence[Any]) -> list[Any]:
        if self.joined is None:
            return self._own_forward(leaves)
        why = "an argument shares memory with what the call writes"
        if not self._writes_what_is_read(leaves):
            try:
                return self._compiled(leaves)
            except OutsideError:
                # Nothing was written so far.  PyTorch refuses the index, or knows better.
                why = "an index is out of bounds"
        made = self._own_forward(leaves)
        warnings.warn(f"{type(self.module).__name__} ran its own forward: {why}", stacklevel=3)
        return made

    def _writes_what_is_read(self, leaves: Sequence[Any]) -> bool:
        """Whether an argument lies in the memory of a tensor that is written, besides itself.

        Compiled code writes when everything is computed; PyTorch's later ops see earlier writes.
        """
        if not self._targets:
            return False
        given = [*map(span_of, leaves)]
        for slot in self._targets:
            if slot.kind == "input":
                place = self._places[slot.node]
                written, others = given[place], given[:place] + given[place + 1 :]
                others += [span_of(self._held(each)) for each in self.captured.weights]
            else:
                written, others = span_of(self._held(slot)), given
            if any(written[0] < end and start < written[1] for start, end in others):
                return True
        return False

    def _compiled(self, leaves: Sequence[Any]) -> list[Any]:
        assert self.joined is not None
        made = self.joined(*leaves, *map(self._held, self._slots))
        if self._targets:
            with torch.no_grad():
                for slot, value in zip(self._targets, made, strict=False):
                    given = leaves[self._places[slot.node]] if slot.kind == "input" else None
                    (self._held(slot) if given is None else given).copy_(value)
        return list(made[len(self._targets) :])

    def measure(self, leaves: Sequence[Any], *, converted: bool = False) -> None:
        """Compares with the module's own forward, which runs from now on if it is faster.

        Args:
            leaves: arguments, flattened.
            converted: measures a copy of the module in channels-last, too.
        """
        with GATE.running():
            self._measure(leaves, converted=converted)

    def _measure(self, leaves: Sequence[Any], *, converted: bool) -> None:
        run = partial(self._compiled, leaves)
        given = [leaves[place] for place in self.reads]
        if self.part is not None and self.part.takes(given):
            run = self.part.timed(given)
        built = (part.compiled.library.built for part in self.parts)
        code = [f"{each.library.name} {each.threads}" for each in built]
        try:
            self.times = times(self.module, self.captured, run, leaves, code, converted=converted)
        except OutsideError:
            return  # PyTorch's forward is no comparison: it ends early.
        if self.times is None or self.times.kept is None:
            return
        self.own = self.times.kept
        self._own_forward = own_forward(self.module, self.captured, self.own)
        # Prepared weights go.
        self.joined, self.part, self.parts = None, None, []

    def refresh(self) -> None:
        """Prepares the weights of the parts anew; PyTorch's ops read what the module holds."""
        for part in self.parts:
            part.refresh(self._held)

    def baked(self) -> list[Slot]:
        """The weights whose elements the code depends on."""
        if self.joined is None:
            return []
        return [*self.captured.baked, *(slot for part in self.parts for slot in part.baked)]

    def prepared(self) -> set[str]:
        """The names of the weights that ``refresh`` prepares."""
        return {slot.name for part in self.parts for slot in part.parameters.values()}

    def states(self) -> set[str]:
        """The names of the buffers that calls change; code reads them as they are."""
        return {slot.name for slot in self.captured.slots.values() if slot.kind == "state"}

    def _held(self, slot: Slot) -> Any:
        if slot.kind == "constant":
            return slot.value
        path, _, name = slot.name.rpartition(".")
        return getattr(self.module.get_submodule(path), name)


def specialise(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Runner:
    """Compiles a module for the signature of these arguments.

    Args:
        module: the module.
        args: positional arguments.
        kwargs: and those by name.
        settings: how.

    Raises:
        UserError: PyTorch cannot export it, or ``strict`` refuses a fallback.
    """
    settings = settings or Settings()
    return _Capture(module, args, dict(kwargs or {}), settings).runner()


class _Capture:
    """The graph of a module, with PyTorch's decompositions of nodes that cannot be imported.

    Raises:
        UserError: PyTorch cannot export it, or ``strict`` refuses a fallback.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        settings: Settings,
    ) -> None:
        self._module, self._settings = module, settings
        self._leaves = pytree.tree_leaves((args, kwargs))
        self._options = settings.options()
        self._foreseen = Foreseen(module, self._leaves, self._options)
        self._foreseen.begin()
        try:
            captured, imported = capture_for(imported_whole, module, args, kwargs)
            if settings.strict and imported.refused:
                raise strict_error(captured, imported.refused)
        except BaseException:
            self._foreseen.end()
            raise
        self._captured, self._imported = captured, imported

    def runner(self) -> Runner:
        """Compiles it."""
        parts: Sequence[CompiledPart] = ()
        try:
            strict = self._settings.strict
            joined = join(self._captured, self._imported, self._options, strict=strict)
            parts = joined.parts
            runner = Runner(self._module, self._captured, joined)
            if self._settings.measure:
                runner.measure(self._leaves)
            return runner
        finally:
            self._foreseen.end(parts)


# --- signatures -----------------------------------------------------------------------------


class Runners:
    """What a module runs, by signature, within a bound.

    A signature that is new when the cache is full, that cannot be compiled, or that is being
    compiled in the background has no runner: the module's own forward runs, said once.

    Args:
        module: the module.
        settings: how it is compiled.
    """

    def __init__(self, module: torch.nn.Module, settings: Settings) -> None:
        self.module = module
        self.settings = settings
        self.known: dict[Hashable, Runner | None] = {}
        self._said: set[str] = set()
        self._building: list[threading.Thread] = []

    def add(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Runner:
        """Compiles the signature of these arguments now.

        Raises:
            UserError: as ``specialise``.
        """
        runner = specialise(self.module, args, kwargs, self.settings)
        self.known[self.key(args, kwargs)] = runner
        return runner

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Runner | None:
        """The runner of these arguments, compiled if it must be; ``None`` for the own forward."""
        key = self.key(args, kwargs)
        if key not in self.known:
            self._new(key, args, kwargs)
        return self.known.get(key)

    def key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        """The signature of these arguments, with PyTorch's number of threads where that counts."""
        return signature(args, kwargs), self.settings.threads or torch.get_num_threads()

    def wait(self) -> None:
        """Returns when all that is being compiled in the background is compiled."""
        while self._building:
            self._building.pop().join()

    def _new(self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        bound = self.settings.signatures
        if len(self.known) >= bound:
            self._say(f"its cache of {bound} signatures is full")
            return
        self.known[key] = None
        # Never in a thread: while PyTorch exports a module, nobody else can call it, because its
        # parameters are fake tensors and ``nn.Module.__call__`` is patched.
        made = self._attempt(lambda: _Capture(self.module, args, kwargs, self.settings))
        if made is None:
            return

        def build() -> None:
            self.known[key] = self._attempt(made.runner)

        if self.settings.background:
            thread = threading.Thread(target=build, daemon=True)
            self._building.append(thread)
            thread.start()
        else:
            build()

    def _attempt(self, make: Callable[[], T]) -> T | None:
        """What a function makes; ``None``, which is said, where it fails."""
        try:
            return make()
        except Exception as error:  # noqa: BLE001 (the module runs all the same)
            self._say(f"a signature cannot be compiled: {named(error)}")
            return None

    def _say(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            name = type(self.module).__name__
            warnings.warn(f"{name} runs its own forward: {why}", stacklevel=2)


def signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """What decides which compiled code can run a call with these arguments."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    return spec, *map(_kind, leaves)


def _kind(leaf: Any) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        dense = leaf.layout == torch.strided
        return leaf.dtype, leaf.device, leaf.shape, order_of(leaf) if dense else ()
    return type(leaf), exact(leaf) if isinstance(leaf, Hashable) else id(leaf)
