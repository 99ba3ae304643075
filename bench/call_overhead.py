"""What a call from Python costs beside the network's own time.

    python -m bench.call_overhead [MODEL]      by default the digits of the examples

Ready arrays, one thread; with and without ``out=``, in a loop and one by one after a pause.  The
network's own time is that of a loop in C.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import weft
from weft.runtime.limits import processor_name
from weft.runtime.timing import from_c, from_python, measure

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits.onnx"
SECONDS, SINGLES, PAUSE = 1.0, 100, 0.01


def single(call: Callable[[], object]) -> float:
    """Microseconds of a call after a pause: the median."""
    found: list[float] = []
    for _ in range(SINGLES):
        time.sleep(PAUSE)
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return float(np.median(found)) * 1e6


def main() -> None:
    """Prints a line for each way to call."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, default=DIGITS)
    library = weft.load(parser.parse_args().model).compile(threads=1).library
    inputs = [np.zeros(port.shape, port.dtype.numpy) for port in library.inputs]
    outputs = library(*inputs)
    own = measure(from_c(library, inputs), SECONDS).least
    print(f"{processor_name()}: the network takes {own:.2f} us")
    ways: dict[str, Callable[[], object]] = {
        "new arrays": lambda: library(*inputs),
        "out=": lambda: library(*inputs, out=outputs),
    }
    for name, call in ways.items():
        more = measure(from_python(call), SECONDS).least - own
        print(f"{name:12} {more:5.2f} us more in a loop, {single(call):6.1f} us in all alone")


if __name__ == "__main__":
    main()
