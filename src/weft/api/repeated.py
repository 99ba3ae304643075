"""Checks of compiled code beyond one run: many runs, several threads at once, sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from weft.api.exported import export
from weft.api.network import Network, free_inputs
from weft.api.streams import arrays_of
from weft.errors import UserError
from weft.options import Options
from weft.records import dataclass
from weft.runtime.library import Library

_MINUTES = 10


@dataclass(frozen=True)
class Repeated:
    """What many runs on one input gave.

    Attributes:
        runs: of all callers together, after the first.
        callers: threads that called at once.
        differing: runs with an output whose bits are not those of the first run.
    """

    runs: int
    callers: int
    differing: int


def repeated(
    library: Library, net: Network, inputs: Mapping[str, np.ndarray], *, runs: int, callers: int
) -> Repeated:
    """Runs a compiled network again and again, alone and from several threads at once.

    A network with state begins each run with the states among the inputs.

    Args:
        library: the compiled network.
        net: it was compiled from.
        inputs: by name, states included.
        runs: from one thread, and as many from all callers together.
        callers: threads that call at once.
    """
    given = [inputs[name] for name in free_inputs(net)]
    states = library.built.states

    def run() -> Sequence[bytes]:
        state = library.new_state() if states else None
        held = arrays_of(states, state) if state else {}
        for name, array in held.items():
            array[...] = inputs[name]
        made = [*library(*given, state=state), *held.values()]
        return [array.tobytes() for array in made]

    first = run()

    def differing(count: int) -> int:
        return sum(run() != first for _ in range(count))

    shares = [runs // callers + (place < runs % callers) for place in range(callers)]
    with ThreadPoolExecutor(callers) as pool:
        found = differing(runs) + sum(pool.map(differing, shares))
    return Repeated(2 * runs, callers, found)


def sanitized(net: Network, inputs: Mapping[str, np.ndarray], options: Options) -> str:
    """Runs a network's exported self-test under the address and undefined-behaviour sanitizers.

    Args:
        net: the network.
        inputs: of the run, by name.
        options: of the export.

    Returns:
        What the sanitizers or the self-test found fault with; empty if nothing.

    Raises:
        UserError: there is no ``make``.
    """
    make = shutil.which("make")
    if make is None:
        raise UserError(
            "the sanitizers are run by make", got="no make on the path", fix="Install make."
        )
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder) / "toolkit"
        export(net, path, options=replace(options, inputs=dict(inputs)))
        done = subprocess.run(
            [make, "-C", str(path), "sanitize"],
            capture_output=True,
            text=True,
            timeout=60 * _MINUTES,
            check=False,
        )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()
