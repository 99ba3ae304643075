"""Checks of compiled code beyond one run: many runs, several threads at once, sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
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
_SANITIZERS: dict[str, tuple[str, ...]] = {
    "sanitize": ("address", "undefined behaviour"),
    "races": ("threads",),
}
"""What is checked, by target of a toolkit's Makefile."""


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


@dataclass(frozen=True)
class Sanitized:
    """What sanitizers found.

    Attributes:
        checked: what they look at.
        faults: as they told them; empty if there are none.
    """

    checked: tuple[str, ...]
    faults: str

    @property
    def clean(self) -> bool:
        """Whether they found nothing."""
        return not self.faults

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {"sanitizers": self.faults or "clean", "sanitized": list(self.checked)}

    def __str__(self) -> str:
        return self.faults or f"sanitizers ({', '.join(self.checked)}): clean"


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


def sanitized(net: Network, inputs: Mapping[str, np.ndarray], options: Options) -> Sanitized:
    """Runs a network's exported self-test under the address and undefined-behaviour sanitizers.

    That of several threads runs under the thread sanitizer, too.

    Args:
        net: the network.
        inputs: of the run, by name.
        options: of the export; its target is this machine where they name none.

    Raises:
        UserError: there is no ``make``.
    """
    make = shutil.which("make")
    if make is None:
        raise UserError(
            "the sanitizers are run by make", got="no make on the path", fix="Install make."
        )
    named = options.target or options.simd or options.plan is not None
    options = replace(options, inputs=dict(inputs), target=options.target if named else "host")
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder) / "toolkit"
        threads = export(net, path, options=options).files.threads
        checks = list(_SANITIZERS) if threads > 1 else ["sanitize"]
        done = subprocess.run(
            [make, "-C", str(path), *checks],
            capture_output=True,
            text=True,
            timeout=60 * _MINUTES,
            check=False,
        )
    checked = tuple(chain.from_iterable(_SANITIZERS[each] for each in checks))
    return Sanitized(checked, (done.stdout + done.stderr).strip() if done.returncode else "")
