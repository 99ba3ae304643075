"""What a call of an optimized module costs beside the compiled code itself.

    python -m bench.torch_overhead         modules of 2, 32 and 120 parameters
    python -m bench.torch_overhead 60      of so many dense layers

The modules are chains of dense layers of 8 x 8.  The kernel's own time is that of the same
library, called from C in a loop, and is subtracted.  Batches of both alternate; the fastest of
each counts.  Threads: one.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import weft
from weft.runtime.limits import limits
from weft.runtime.timing import from_c
from weft.targets.find import host

_WIDTH = 8
_CALLS = 2000
_BATCHES = 60


@dataclass(frozen=True)
class Overhead:
    """Microseconds of one call.

    Attributes:
        parameters: of the module.
        call: ``fast(x)``.
        kernel: the library's run function from C.
        eager: the module.
    """

    parameters: int
    call: float
    kernel: float
    eager: float

    @property
    def overhead(self) -> float:
        """What is not the kernel."""
        return self.call - self.kernel


def measured(layers: int) -> Overhead:
    """The overhead of a module with twice as many parameters as layers."""
    module = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH) for _ in range(layers))).eval()
    x = torch.randn(1, _WIDTH)
    fast: Any = weft.optimize(module, x, threads=1, measure=False)
    (binding,) = fast._weft._bindings.values()
    timer = from_c(binding.runner.part.compiled.library, [x.numpy()])
    calls, kernels, eager = list[float](), list[float](), list[float]()
    with torch.no_grad():
        np.testing.assert_allclose(fast(x), module(x), rtol=1e-4, atol=1e-5)
        for _ in range(_BATCHES):
            calls.append(_micros(lambda: fast(x), _CALLS))
            kernels += timer.micros(_CALLS, 1)
            eager.append(_micros(lambda: module(x), _CALLS // 20))
    return Overhead(2 * layers, min(calls), min(kernels), min(eager))


def _micros(function: Callable[[], object], count: int) -> float:
    return timeit.timeit(function, number=count) / count * 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("layers", nargs="*", type=int, default=(1, 16, 60))
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"{limits(host(), threads=1).processor}, PyTorch {torch.__version__}; us a call")
    print(f"{'parameters':>10} {'call':>8} {'kernel':>8} {'overhead':>8} {'eager':>8}")
    for layers in asked.layers:
        each = measured(layers)
        print(
            f"{each.parameters:>10} {each.call:>8.2f} {each.kernel:>8.2f} "
            f"{each.overhead:>8.2f} {each.eager:>8.2f}"
        )


if __name__ == "__main__":
    main()
