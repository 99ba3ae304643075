"""Calls of a library: by the names of inputs and outputs, and on the state of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.api.named import Outputs, call_inputs, call_outputs, named_outputs, outputs_type
from weft.api.streams import Stream
from weft.cached import cached_property
from weft.errors import UserError
from weft.ir.buffers import ArrayLike
from weft.runtime.library import Library
from weft.runtime.memory import RunMemory


class Calls:
    """Calls of one library.

    Args:
        library: the loaded code.
    """

    def __init__(self, library: Library) -> None:
        self.library = library

    def inputs(
        self, inputs: Sequence[ArrayLike | Mapping[str, ArrayLike]], named: Mapping[str, ArrayLike]
    ) -> tuple[ArrayLike, ...]:
        """The inputs of a call in order."""
        built = self.library.built
        return call_inputs(built.name, built.inputs, inputs, named)

    def written(
        self, out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
    ) -> Sequence[ArrayLike]:
        """What a call writes its outputs into, in order."""
        built = self.library.built
        return call_outputs(built.name, built.outputs, out)

    @cached_property
    def outputs(self) -> type[Outputs]:
        """The type of several outputs."""
        return outputs_type(tuple(port.name for port in self.library.outputs))

    @cached_property
    def own(self) -> Stream:
        """The stream of calls that name none."""
        return self.stream()

    def stream(self, values: Mapping[str, ArrayLike] | None = None) -> Stream:
        """A stream with a state of its own, which begins with these values."""
        built = self.library.built
        if not built.states:
            raise UserError(
                f"{built.name} has no state", fix='Declare it: net.with_state({"input": "output"}).'
            )
        made = Stream(built.name, built.states, self.library.new_state(), self._on_state)
        if values is not None:
            made.reset(values)
        return made

    def _on_state(
        self,
        inputs: Sequence[ArrayLike | Mapping[str, ArrayLike]],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None,
        named: Mapping[str, ArrayLike],
        state: RunMemory,
    ) -> np.ndarray | Outputs:
        given = self.inputs(inputs, named) if inputs or named else ()
        written = None if out is None else self.written(out)
        outputs = self.library(*given, out=written, state=state)
        return outputs[0] if len(outputs) == 1 else named_outputs(self.outputs, outputs)
