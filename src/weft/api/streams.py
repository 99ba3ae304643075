"""State that a compiled net hands from run to run: one object for each stream of inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.api.named import Outputs
from weft.errors import UserError
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.graph import Graph
from weft.ir.naming import require_mapping
from weft.plan.program import State
from weft.runtime.memory import RunMemory
from weft.screen import Screen, Shown, some

Call = Callable[..., np.ndarray | Outputs]


def checked_states(
    graph: Graph, states: Mapping[str, str], known: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The pairs of inputs and outputs that are states.

    Args:
        graph: what has them.
        states: by input, the output that is its next value.
        known: those declared before.

    Raises:
        UserError: a pair cannot be a state; all faults are listed.
    """
    require_mapping(states, "with_state: states give an output, by the input that it is next for")
    pairs = {**known, **states}
    faults = [fault for pair in states.items() if (fault := _fault(graph, *pair))]
    taken = list(pairs.values())
    faults += [
        f"{output} is the next value of several inputs"
        for output in dict.fromkeys(taken)
        if taken.count(output) > 1
    ]
    if not faults and len(taken) == len(graph.outputs):
        faults.append("no output is left that a call would return")
    if faults:
        raise UserError(
            "a state is an input and an output of the same type, its value for the next run",
            got="; ".join(faults),
        )
    return tuple(pairs.items())


def _fault(graph: Graph, value: str, output: object) -> str:
    if value not in graph.inputs:
        return f"there is no input {value}, only {some(graph.inputs)}"
    if output not in graph.outputs:
        return f"there is no output {output}, only {some(graph.outputs)}"
    before, after = graph.types[value], graph.types[str(output)]
    if before != after:
        return f"{value} is {before}, {output} is {after}"
    return f"{output} is an output twice" if graph.outputs.count(str(output)) > 1 else ""


def arrays_of(states: Sequence[State], memory: RunMemory) -> dict[str, np.ndarray]:
    """The states by the inputs' names, as arrays over their memory."""
    data = np.frombuffer(memory.view(), np.uint8)
    return {
        each.port.name: data[each.offset : each.offset + each.bytes]
        .view(each.port.dtype.numpy)
        .reshape(each.port.shape)
        for each in states
    }


class Stream(Shown):
    """One stream of inputs: a compiled net with a state of its own.

    It is called as the net is.  Streams of one net may run at the same time; calls of one
    stream wait for each other.

    Args:
        name: of the net, for errors.
        states: what is handed from run to run.
        memory: where it lies.
        call: runs the net; takes the memory as ``state``.
    """

    def __init__(self, name: str, states: Sequence[State], memory: RunMemory, call: Call) -> None:
        self._name, self._call, self._memory = name, call, memory
        self._lock = threading.Lock()
        self.state: Mapping[str, np.ndarray] = arrays_of(states, memory)
        """The state by the inputs' names: arrays over its memory, to read and to write."""

    def __call__(
        self,
        /,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | None = None,
        **named: ArrayLike,
    ) -> np.ndarray | Outputs:
        """Runs the net on the inputs that are no state; see ``CompiledNet``."""
        with self._lock:
            return self._call(inputs, out, named, self._memory)

    def reset(self, values: Mapping[str, ArrayLike] | None = None) -> None:
        """Starts anew.

        Args:
            values: of states, by the inputs' names; all others become zeros.

        Raises:
            UserError: a name is unknown, or an array does not fit; all faults are listed, and
                the state stays as it was.
        """
        require_mapping(values or {}, "reset: values are arrays by the inputs' names")
        faults: list[str] = []
        arrays: dict[str, np.ndarray] = {}
        for name, given in (values or {}).items():
            held = self.state.get(name)
            if held is None:
                faults.append(f"there is no state {name}, only {some(self.state)}")
                continue
            array = as_array(given, f"state {name}", dtype=held.dtype, shape=held.shape)
            if array.dtype != held.dtype or array.shape != held.shape:
                faults.append(
                    f"{name} must be {held.dtype}{list(held.shape)}, "
                    f"not {array.dtype}{list(array.shape)}"
                )
            arrays[name] = array
        if faults:
            raise UserError(f"{self._name}: initial values must fit", got="; ".join(faults))
        with self._lock:
            for name, held in self.state.items():
                held[...] = arrays.get(name, 0)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        facts = [(name, f"{each.dtype}{list(each.shape)}") for name, each in self.state.items()]
        return Screen(f"Stream of {self._name}", facts)
