"""The ways in which a PyTorch model runs through Weft, and how its results compare.

What the process of one model does for `bench.torch_models`; `difference` and `channels_last`
serve `bench.torch_speed`, too.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

WAYS, DOUBLE, TRAINED = ("optimize", "compile"), "double", "trained"
TIMED = 0.5
"""Seconds for which each contestant of a way is timed."""


def work(name: str, ways: Sequence[str]) -> None:
    """Runs a model in several ways; prints a line of JSON before and after each."""
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    from bench.torch_catalog import built  # noqa: PLC0415

    torch.set_num_threads(1)
    module: Any = None
    example: Any = None
    for way in ways:
        if way == TRAINED:
            from bench.torch_digits import trained  # noqa: PLC0415

            module, example = trained(name)
        elif module is None:
            module, example = built(name, settled=way != "import")
        print(json.dumps({"started": way}), flush=True)
        start = time.monotonic()
        try:
            with torch.no_grad():
                found: dict[str, Any] = {"status": "ok", **_WAYS[way](module, example)}
        except Exception as error:  # noqa: BLE001 (whatever is raised is the finding)
            traceback.print_exc(file=sys.stderr)
            told = str(error).strip().splitlines()
            text = f"{type(error).__name__}: {told[0][:300] if told else ''}"
            found = {"status": "error", "error": text}
        found["seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps({"way": way, **found}), flush=True)


def _by_import(module: Any, example: Any) -> dict[str, Any]:
    from weft.torch.aten.importer import import_all  # noqa: PLC0415
    from weft.torch.capture import capture  # noqa: PLC0415

    imported = import_all(capture(module, *example))
    refused = Counter(f"{node.target}: {why}" for node, why in imported.refused.items())
    return {"fallbacks": dict(refused), "nodes": len(imported.graph.nodes)}


def _by_optimize(module: Any, example: Any) -> dict[str, Any]:
    import weft  # noqa: PLC0415

    args, kwargs = example
    start = time.monotonic()
    fast = weft.optimize(module, *args, kwargs=kwargs, measure=False)
    built = round(time.monotonic() - start, 1)
    return {"built": built, **_compared(module, fast, example)}


def _by_compile(module: Any, example: Any) -> dict[str, Any]:
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    from torch._dynamo.utils import counters  # noqa: PLC0415 # pyright: ignore

    import weft.torch.dynamo  # noqa: F401, PLC0415 (the backend, where Weft is not installed)

    args, kwargs = example
    start = time.monotonic()
    fast = torch.compile(module, backend="weft", options={"measure": False})
    fast(*args, **kwargs)
    built = round(time.monotonic() - start, 1)
    graphs = counters["stats"]["unique_graphs"]
    return {"built": built, "graphs": graphs, **_compared(module, fast, example)}


def _by_double(module: Any, example: Any) -> dict[str, Any]:
    """How far off double precision the module's outputs are, compiled and by PyTorch."""
    import copy  # noqa: PLC0415

    import weft  # noqa: PLC0415

    args, kwargs = example
    fast = weft.optimize(module, *args, kwargs=kwargs, measure=False)
    outputs = {"weft": fast(*args, **kwargs), "eager": module(*args, **kwargs)}
    del fast
    args, kwargs = _doubled(example)
    exact = copy.deepcopy(module).double()(*args, **kwargs)
    return {key: difference(_doubled(each), exact) for key, each in outputs.items()}


def _by_trained(module: Any, example: Any) -> dict[str, Any]:
    """How far off both ways are, and how far off double precision."""
    off = {way: _WAYS[way](module, example)["difference"] for way in WAYS}
    return {**off, **_by_double(module, example)}


def _doubled(nested: Any) -> Any:
    """The same with floats in double precision."""
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree as pytree  # noqa: PLC0415 # pyright: ignore

    def double(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return pytree.tree_map(double, nested)


_WAYS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "import": _by_import,
    "optimize": _by_optimize,
    "compile": _by_compile,
    DOUBLE: _by_double,
    TRAINED: _by_trained,
}


def _compared(module: Any, fast: Any, example: Any) -> dict[str, Any]:
    """Difference of the results relative to their range, and times."""
    args, kwargs = example
    got = fast(*args, **kwargs)
    other = _by_pytorch(lambda: fast(*args, **kwargs))
    off = difference(got, module(*args, **kwargs))
    times = _times(module, fast, example)
    eager = min(value for key, value in times.items() if key != "weft")
    return {
        "fallbacks": other,
        "difference": off,
        "times": {key: round(value * 1e3, 4) for key, value in times.items()},
        "ratio": round(eager / times["weft"], 3),
    }


_MOVES = tuple(
    "empty view detach alias as_strided reshape expand set_ to contiguous copy_ lift_fresh "
    "resolve_ split unsafe_split".split()
)
_VIEWS = frozenset("t transpose permute select slice squeeze unsqueeze unbind chunk narrow".split())
"""Ops that compute nothing: all whose names begin so, and these."""


def _by_pytorch(run: Callable[[], Any]) -> dict[str, int]:
    """The ATen ops that PyTorch computes in a call; views, allocations and copies are none."""
    from torch.autograd.profiler import profile  # noqa: PLC0415 # pyright: ignore

    recorder: Any = profile()
    with recorder:
        run()
    found: Counter[str] = Counter()
    for event in recorder.function_events:
        parent = event.cpu_parent
        whole = parent is None or not parent.name.startswith("aten::")
        name = event.name.removeprefix("aten::")
        if whole and name != event.name and not name.startswith(_MOVES) and name not in _VIEWS:
            found[name] += 1
    return dict(found)


def difference(got: Any, wanted: Any) -> float | None:
    """The largest difference of an output relative to its range; nothing where types differ."""
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree as pytree  # noqa: PLC0415 # pyright: ignore

    ours, theirs = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} results in place of {len(theirs)}")
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ValueError(f"{one.dtype}{list(one.shape)} for {other.dtype}{list(other.shape)}")
        if not other.numel():
            continue
        a, b = one.double(), other.double()
        same = torch.equal(a.isnan(), b.isnan())
        a, b = a.nan_to_num(), b.nan_to_num()
        spread = float(b.max() - b.min()) or float(b.abs().max()) or 1.0
        worst = max(worst, float((a - b).abs().max()) / spread if same else float("inf"))
    return worst


def _times(module: Any, fast: Any, example: Any) -> dict[str, float]:
    """Seconds of a call: the least of alternating runs."""
    runs: dict[str, Callable[[], Any]] = {
        "weft": lambda: fast(*example[0], **example[1]),
        "eager": lambda: module(*example[0], **example[1]),
    }
    if any(p.dim() in (4, 5) for p in module.parameters()):
        other, given = channels_last(module, example)
        runs["channels-last"] = lambda: other(*given[0], **given[1])
    best = dict.fromkeys(runs, float("inf"))
    end = time.monotonic() + TIMED * len(runs)
    rounds = 0
    while rounds < 3 or (time.monotonic() < end and rounds < 200):
        for key, run in runs.items():
            start = time.perf_counter()
            run()
            best[key] = min(best[key], time.perf_counter() - start)
        rounds += 1
    return best


def channels_last(module: Any, example: Any) -> tuple[Any, Any]:
    """A copy of the module and of its example whose images and videos have channels last."""
    import copy  # noqa: PLC0415

    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree as pytree  # noqa: PLC0415 # pyright: ignore

    def last(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() not in (4, 5):
            return x
        form = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
        return x.contiguous(memory_format=form)

    other = copy.deepcopy(module)
    for each in (*other.parameters(), *other.buffers()):
        each.data = last(each.data)
    return other, pytree.tree_map(last, example)
