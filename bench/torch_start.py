"""How fast a second process starts with another checkpoint of an architecture that is cached.

    python -m bench.torch_start                          ResNet-50 of torchvision, 1 and 2 threads
    python -m bench.torch_start densenet161 hf_bert --threads 2

A first process optimizes the model with some random weights, in a cache of its own.  Further
ones do so with other weights, without and with the comparison with PyTorch's own forward: they
print seconds of their imports, of the stages of ``weft.optimize`` and of the first call, check
the result against the model's own, and fail if they start any program but for its version.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

STAGES = {
    "capture": "weft.torch.decomposition.capture",
    "import": "weft.torch.specialise.imported_whole",
    "key": "weft.api.building.Build.key",
    "loading": "weft.api.net.recalled",
    "preparation": "weft.runtime.library.Library.load",
    "watch": "weft.torch.module.Watch",
    "comparison": "weft.torch.specialise.Runner.measure",
}
"""Stages of ``weft.optimize``, and the functions that they are."""
_TOLERANCE = 1e-4


def second(name: str, seed: int, threads: int, measure: bool) -> None:
    """Starts with a checkpoint, and tells what that takes.

    Args:
        name: of a model of `bench.torch_catalog`.
        seed: of its weights.
        threads: to run on.
        measure: as for ``weft.optimize``.

    Raises:
        SystemExit: the result differs from PyTorch's.
    """
    start = time.perf_counter()
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree as pytree  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    from bench.torch_catalog import CATALOG  # noqa: PLC0415

    took = {"imports of PyTorch": time.perf_counter() - start}
    start = time.perf_counter()
    import weft.torch.module  # noqa: PLC0415

    took["imports of Weft"] = time.perf_counter() - start
    started: list[str] = []
    sys.addaudithook(functools.partial(_note, started))
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    module = CATALOG[name].build().eval()
    args, kwargs = CATALOG[name].example(1)
    stages = dict.fromkeys(STAGES, 0.0)
    with torch.no_grad(), ExitStack() as stack:
        for stage, target in STAGES.items():
            timed = _timed(stage, _found(target), stages)
            stack.enter_context(mock.patch(target, timed))
        start = time.perf_counter()
        fast: Any = weft.optimize(module, *args, kwargs=kwargs, threads=threads, measure=measure)
        took["weft.optimize"] = time.perf_counter() - start
        middle = time.perf_counter()
        got = fast(*args, **kwargs)
        took["first call"] = time.perf_counter() - middle
        took["ready after imports"] = time.perf_counter() - start
        wanted = module(*args, **kwargs)
    off = max(
        # Some heads begin as zeros.
        float((one - other).abs().max() / ((other.max() - other.min()) or 1))
        for one, other in zip(pytree.tree_leaves(got), pytree.tree_leaves(wanted), strict=True)
        if isinstance(other, torch.Tensor)
    )
    told = "".join(f"  {key} {value:.2f}" for key, value in (took | stages).items())
    print(f"{name} seed {seed} threads {threads} measure={measure}:{told}  {off:.0e} off")
    print(f"programs started: {', '.join(started) or 'none'}")
    if off > _TOLERANCE:
        raise SystemExit("the result is wrong")
    if started and seed:
        raise SystemExit("the cache should have served this")


def _found(target: str) -> Any:
    parts = target.split(".")
    modules = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    name = next(each for each in modules if each in sys.modules)
    return functools.reduce(getattr, target.removeprefix(f"{name}.").split("."), sys.modules[name])


def _timed(stage: str, function: Any, stages: dict[str, float]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            stages[stage] += time.perf_counter() - start

    return run


def _note(started: list[str], event: str, args: tuple[Any, ...]) -> None:
    """Notes what programs are started, but not where they are only asked for their version."""
    if event == "subprocess.Popen" and "--version" not in args[1]:
        started.append(str(args[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", default=["resnet50"], help="of bench.torch_catalog")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        seed, measure = arguments.worker
        second(arguments.names[0], int(seed), arguments.threads[0], measure == "True")
        return
    for name, threads in itertools.product(arguments.names, arguments.threads):
        with tempfile.TemporaryDirectory() as folder:
            for seed, measure in enumerate((True, False, True)):
                command = [sys.executable, "-W", "ignore", "-m", "bench.torch_start"]
                command += [name, "--threads", str(threads)]
                command += ["--worker", str(seed), str(measure)]
                subprocess.run(command, check=True, env={**os.environ, "WEFT_CACHE": folder})


if __name__ == "__main__":
    main()
