"""Networks, built for this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Unpack, cast

import numpy as np

from weft.api.building import build_here
from weft.api.looked import Looked
from weft.api.named import Outputs, arranged, named_outputs, outputs_type
from weft.api.planned import Planned
from weft.api.source import Source, note_built
from weft.api.streams import Stream
from weft.errors import UserError, above_zero
from weft.ir.buffers import ArrayLike
from weft.ir.graph import Graph
from weft.options import CompileKeywords, Inputs, Options, TuneKeywords, chosen
from weft.plan.choice import Measured
from weft.plan.program import state_bytes
from weft.runtime.cache import Cache, digest
from weft.runtime.choices import Choices
from weft.runtime.library import Library, recalled
from weft.runtime.memory import Memory
from weft.runtime.record import MadeFor, remember
from weft.runtime.tune import TUNE_SECONDS, Tuning
from weft.screen import Screen, Shown, several, some


@dataclass(frozen=True, repr=False)
class Net(Looked):
    """A network: a graph, and what can be done with it.

    Nets are values: ``simplified``, ``bound`` and the edits of ``Editable`` give new ones.
    """

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
        key = way.key(self.identity, choices)
        library = recalled(Cache(), key, lambda: way.library(later, choices))
        if library is None:
            if asked.tune is True:
                way.tune(self, choices, asked.tune_seconds)
                choices = Choices().known(way.context)
            library = way.library(Planned(self.graph, None, self.states), choices)
            path = self.origin.path if isinstance(self.origin, Source) else ""
            made_for = MadeFor(path or self.graph.name, way.told())
            remember(Cache(), way.key(self.identity, choices), library.built, made_for)
            if isinstance(self.origin, Source):
                note_built(self.origin, self.graph.name)
        same = replace(asked, tune=asked.tune and "cached", plan=way.options.plan)
        kind = _Streaming if self.states else CompiledNet
        again = partial(Net.compile, later, options=same)
        return kind(later._bound_later(asked.batch), library, again)

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
        return way.tune(self, known, seconds, self._arranged(inputs), report)

    def _bound_later(self, batch: int) -> Net:
        """``bound``, but without reading the graph now."""
        if isinstance(self.origin, Graph):
            return self.bound(batch)
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
    """

    net: Net
    library: Library
    again: Callable[[], CompiledNet] = field(repr=False, compare=False)

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
            inputs = self._arranged(inputs, named)
        if out is not None and type(out) is not tuple:
            out = (out,) if type(out) is np.ndarray else self._written(out)
        given: Any = inputs  # a cast would cost a tenth of a small network's call
        outputs = self.library(*given, out=out)  # pyright: ignore[reportUnknownArgumentType]
        return outputs[0] if len(outputs) == 1 else named_outputs(self._outputs, outputs)

    def stream(self, values: Mapping[str, ArrayLike] | None = None) -> Stream:
        """Another stream of inputs: it is called as the net is, and has a state of its own.

        Args:
            values: that states begin with, by the inputs' names; zeros if not given.
        """
        built = self.library.built
        if not built.states:
            raise UserError(
                f"{built.name} has no state", fix='Declare it: net.with_state({"input": "output"}).'
            )
        made = Stream(built.name, built.states, self.library.new_state(), self._on_state)
        if values is not None:
            made.reset(values)
        return made

    def reset(self, values: Mapping[str, ArrayLike] | None = None) -> None:
        """Starts the net's own stream anew; see ``Stream.reset``."""
        self._own.reset(values)

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The state by the inputs' names: arrays over its memory, to read and to write."""
        return self._own.state

    @cached_property
    def _own(self) -> Stream:
        return self.stream()

    def _on_state(
        self,
        inputs: Sequence[ArrayLike | Mapping[str, ArrayLike]],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None,
        named: Mapping[str, ArrayLike],
        state: Memory,
    ) -> np.ndarray | Outputs:
        """A call on some state."""
        given = self._arranged(inputs, named) if inputs or named else ()
        written = None if out is None else self._written(out)
        outputs = self.library(*given, out=written, state=state)
        return outputs[0] if len(outputs) == 1 else named_outputs(self._outputs, outputs)

    @cached_property
    def _outputs(self) -> type[Outputs]:
        return outputs_type(tuple(port.name for port in self.library.outputs))

    def _arranged(
        self, inputs: Sequence[ArrayLike | Mapping[str, ArrayLike]], named: Mapping[str, ArrayLike]
    ) -> tuple[ArrayLike, ...]:
        """The inputs in order; by position only, they are counted where they are read."""
        if not named and not isinstance(inputs[0], Mapping):
            return cast(tuple[ArrayLike, ...], inputs)
        built = self.library.built
        names = [port.name for port in built.inputs]
        return arranged(built.name, "input", names, inputs, named)

    def _written(
        self, out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
    ) -> Sequence[ArrayLike]:
        """What outputs are written into, in order."""
        if isinstance(out, Mapping):
            built = self.library.built
            names = [port.name for port in built.outputs]
            return arranged(built.name, "output", names, (), out)
        return out if isinstance(out, list | tuple) else (cast(ArrayLike, out),)

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
        self._own  # noqa: B018

    def __call__(
        self,
        /,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
        **named: ArrayLike,
    ) -> np.ndarray | Outputs:
        return self._own(*inputs, out=out, **named)
