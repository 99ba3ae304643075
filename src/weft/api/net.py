"""Networks, and networks built for this machine.

``NetValue`` holds what a network is; what is done with it are functions of other modules, which
are methods of ``Net``: ``surgery.edits`` (edits), ``network`` (equivalent networks), ``planned``
(what it becomes for a machine), ``looked`` (queries, pictures, figures).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from weft.api.building import build_here
from weft.api.calls import Calls
from weft.api.named import Outputs, named_outputs
from weft.api.parameters import loaded, same_architecture, without_values
from weft.api.source import Source, note_built, open_file
from weft.api.streams import Stream
from weft.api.value import NetValue
from weft.cached import cached_property
from weft.deferred import later
from weft.errors import UserError, above_zero
from weft.ir.buffers import ArrayLike
from weft.ir.graph import Graph
from weft.options import (
    TUNE_SECONDS,
    CompileKeywords,
    Inputs,
    Options,
    TuneKeywords,
    chosen,
)
from weft.plan.choice import Measured
from weft.plan.program import state_bytes
from weft.records import dataclass
from weft.runtime.cache import Cache, digest
from weft.runtime.library import Library, recalled
from weft.runtime.record import MadeFor, remember
from weft.screen import Screen, Shown, several, some

if TYPE_CHECKING:
    from weft.api import exported, looked, network, packaged, planned, quantized, step_run
    from weft.runtime.choices import Choices
    from weft.runtime.tune import Tuning
    from weft.surgery import edits
else:
    # A start from the cache needs none of these.
    looked, network = later("weft.api.looked"), later("weft.api.network")
    packaged, planned = later("weft.api.packaged"), later("weft.api.planned")
    exported = later("weft.api.exported")
    quantized = later("weft.api.quantized")
    step_run = later("weft.api.step_run")
    edits = later("weft.surgery.edits")
    Choices = later("weft.runtime.choices").Choices


@dataclass(frozen=True, repr=False)
class Net(NetValue):
    """A network: a graph, and what can be done with it.

    Nets are values: edits and the like give new ones.
    """

    @property
    def free_inputs(self) -> tuple[str, ...]:
        """The inputs that a call gives: those that are no states."""
        return network.free_inputs(self)

    def _repr_html_(self) -> str:
        """The figures, and below them the picture."""
        return f"{self.screen().html()}{self._repr_svg_() or ''}"

    _repr_svg_ = looked.notebook_picture

    # --- edits --------------------------------------------------------------------------------

    view = edits.view
    delete = edits.delete
    replace = edits.replace
    insert = edits.insert
    rename = edits.rename
    extract = edits.extract
    split = edits.split
    with_outputs = edits.with_outputs
    with_shapes = edits.with_shapes
    with_weights = edits.with_weights
    save_weights = edits.save_weights
    freeze = edits.freeze

    # --- networks that compute the same -------------------------------------------------------

    __call__ = network.call
    bound = network.bound
    simplified = network.simplified
    rewrite = network.rewrite
    apply = network.apply
    expanded = network.expanded
    reference = network.reference
    quantize = quantized.quantize
    precision_report = quantized.precision_report
    diff = network.diff
    save = network.save

    # --- looking at it ------------------------------------------------------------------------

    query = looked.query
    float_layers = looked.float_layers
    replace_all = looked.replace_all
    draw = looked.draw
    stats = looked.stats
    verify = step_run.verify
    run_steps = step_run.run_steps

    # --- for a machine ------------------------------------------------------------------------

    plan = planned.plan
    plan_from = planned.plan_from
    implementations = planned.implementations
    program = planned.program
    source = planned.source
    toolkit = exported.toolkit
    golden = exported.golden
    export = exported.export
    single_file = exported.single_file
    deploy = packaged.deploy

    def compile(
        self, *, options: Options | None = None, **keywords: Unpack[CompileKeywords]
    ) -> CompiledNet:
        """Builds the net for this machine.

        Args:
            options: see ``weft.Options``, as for the keywords.
            keywords: options.

        Returns:
            A callable on NumPy arrays.
        """
        asked = chosen(CompileKeywords, options, keywords)
        way = build_here(asked)
        choices = Choices().known(way.context) if asked.tune else Measured()
        # Neither what it takes to build the net nor the net built keeps what planning remembers.
        later = Net(self.origin, None, self.states)
        identity = without_values(self, way.options.parameters).identity
        key = way.key(identity, choices)
        library = recalled(Cache(), key, lambda: way.library(later, choices))
        if library is None:
            if asked.tune is True:
                way.tune(Net(self.graph), choices, asked.tune_seconds)
                choices = Choices().known(way.context)
            name, building = self.graph.name, Net(self.origin, self.graph, self.states)
            if not way.options.parameters:
                self.release()
            library = way.library(building, choices)
            path = self.origin.path if isinstance(self.origin, Source) else ""
            made_for = MadeFor(path or name, way.told())
            remember(Cache(), way.key(identity, choices), library.built, made_for)
            if isinstance(self.origin, Source):
                note_built(self.origin, name)
        same = replace(asked, tune=asked.tune and "cached", plan=way.options.plan)
        kind = _Streaming if self.states else CompiledNet
        again = partial(Net.compile, later, options=same)
        preparing = library.built.preparing
        if preparing is None:
            return kind(later.bound_later(asked.batch), library, again)
        library.load(loaded(self.graph, preparing.parameters, self.graph.constants))
        return kind(later.bound_later(asked.batch), library, again, self)

    def tune(
        self,
        *,
        again: bool = False,
        seconds: float = TUNE_SECONDS,
        inputs: Inputs | None = None,
        report: Callable[[float, str], None] | None = None,
        options: Options | None = None,
        **keywords: Unpack[TuneKeywords],
    ) -> Tuning:
        """Measures alternatives of the net's layers and keeps the best in the database.

        ``compile`` with ``tune`` uses what was found.

        Args:
            again: measure layers too that the database knows.
            seconds: for how long networks run in all; building them comes on top.
            inputs: to run on, in order or by name; seeded random ones if not given.
            report: is told how much is done, from 0 to 1, and what is done next.
            options: see ``weft.Options``, as for the keywords.
            keywords: options.
        """
        way = build_here(chosen(TuneKeywords, options, keywords))
        above_zero("seconds", seconds)
        known = Measured() if again else Choices().known(way.context)
        net = Net(self.graph)
        return way.tune(net, known, seconds, network.arranged_inputs(net, inputs), report)

    def bound_later(self, batch: int) -> Net:
        """``bound``, but without reading the graph now."""
        if isinstance(self.origin, Graph):
            known = batch == 1 and all(type.is_static for type in self.graph.types.values())
            # A start from the cache does not import what binds sizes.
            return self if known else self.bound(batch)
        identity = digest([self.origin.identity, str(batch)])
        return Net(Source(identity, lambda: self.bound(batch).graph), None, self.states)


@dataclass(frozen=True, repr=False)
class CompiledNet(Shown):
    """A net that was built for this machine.

    Any number of threads may call it at once; one of these calls at a time has the threads
    that the networks of a process share, the others run on their own.

    A net with state (``Net.with_state``) keeps it between calls, which then wait for each
    other; ``stream`` gives further states.  Copies and pickles do not carry it.

    Attributes:
        net: what was built.
        library: the loaded code.
        again: builds it once more, from the cache: what a pickled one becomes.
        source: what was compiled, its open dimension not bound yet, where weights can be loaded.
    """

    net: Net
    library: Library
    again: Callable[[], CompiledNet] = field(repr=False, compare=False)
    source: Net | None = field(default=None, repr=False, compare=False)

    def __copy__(self) -> CompiledNet:
        return self

    def __deepcopy__(self, _: object) -> CompiledNet:
        return self

    def __reduce__(self) -> tuple[Callable[[], CompiledNet], tuple[()]]:
        return self.again, ()

    def __call__(
        self,
        /,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
        **named: ArrayLike,
    ) -> np.ndarray | Outputs:
        """Runs the net; one array if it has one output, else a tuple with the outputs' names.

        Args:
            inputs: of the inputs' types, in order, packed in row-major order; not copied.
                Arrays, tensors that DLPack can give (PyTorch's, say), or buffers.  Or one
                mapping of them by the inputs' names.
            out: what to write the outputs into, likewise; new arrays if not given.
            named: inputs by their names: ``fast(image=x)``.
        """
        if named or (inputs and type(inputs[0]) is not np.ndarray):
            inputs = self._calls.inputs(inputs, named)
        if out is not None and type(out) is not tuple:
            out = (out,) if type(out) is np.ndarray else self._calls.written(out)
        given: Any = inputs  # a cast would cost a tenth of a small network's call
        outputs = self.library(*given, out=out)  # pyright: ignore[reportUnknownArgumentType]
        return outputs[0] if len(outputs) == 1 else named_outputs(self._calls.outputs, outputs)

    def load(self, weights: Mapping[str, ArrayLike] | Net | str | Path) -> None:
        """Runs on other weights from now on; calls that run meanwhile finish on the old ones.

        ``net`` is then the net with these weights, and a pickle has them.

        Args:
            weights: arrays by the names of the model's constants, another net of the same
                architecture, or the file of one.

        Raises:
            UserError: the net was not compiled with ``parameters``, or names, types, shapes or
                the architecture differ; all faults are listed, and the old weights stay.
        """
        source, preparing = self.source, self.library.built.preparing
        if source is None or preparing is None:
            fix = 'Compile it with parameters="runtime".'
            raise UserError(f"the weights of {self.library.built.name} are constants", fix=fix)
        if isinstance(weights, str | Path):
            weights = Net(*open_file(Path(weights)))
        ports = preparing.parameters
        if isinstance(weights, Net):
            arrays = loaded(source.graph, ports, weights.graph.constants)
            same_architecture(source.graph, weights.graph, [port.name for port in ports])
            made = replace(weights, states=source.states)
        else:
            arrays = loaded(source.graph, ports, weights)
            given = {port.name: array for port, array in zip(ports, arrays, strict=True)}
            graph = replace(source.graph, constants={**source.graph.constants, **given})
            made = Net(graph, None, source.states)
        self.library.load(arrays)
        options: Options = cast(partial[CompiledNet], self.again).keywords["options"]
        for name, value in (
            ("net", made.bound_later(options.batch)),
            ("again", partial(Net.compile, made, options=options)),
            ("source", made),
        ):
            object.__setattr__(self, name, value)

    def stream(self, values: Mapping[str, ArrayLike] | None = None) -> Stream:
        """Another stream of inputs: it is called as the net is, and has a state of its own.

        Args:
            values: that states begin with, by the inputs' names; zeros if not given.
        """
        return self._calls.stream(values)

    def reset(self, values: Mapping[str, ArrayLike] | None = None) -> None:
        """Starts the net's own stream anew; see ``Stream.reset``."""
        self._calls.own.reset(values)

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The state by the inputs' names: arrays over its memory, to read and to write."""
        return self._calls.own.state

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.library)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        built = self.library.built
        weights = built.weights.stat().st_size if built.weights and built.weights.exists() else 0
        facts = (
            ("inputs", some(map(str, built.inputs))),
            ("outputs", some(map(str, built.outputs))),
            ("memory", f"arena {built.arena_bytes:,} bytes, weights {weights:,} bytes"),
            ("library", str(built.library)),
        )
        if built.states:
            names = some(each.port.name for each in built.states)
            facts += (("state", f"{state_bytes(built.states):,} bytes: {names}"),)
        return Screen(f"CompiledNet {built.name}: {several(built.threads, 'thread')}", facts)


class _Streaming(CompiledNet):
    """A net that keeps its state between calls."""

    def __post_init__(self) -> None:
        # Made at the first call, it could be made by several threads.
        self._calls.own  # noqa: B018

    def __call__(
        self,
        /,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
        **named: ArrayLike,
    ) -> np.ndarray | Outputs:
        return self._calls.own(*inputs, out=out, **named)
