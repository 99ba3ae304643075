"""Runs a catalog of PyTorch models through Weft, and writes the table of what comes of it.

    python -m bench.torch_models                     models without a result of this version of Weft
    python -m bench.torch_models resnet18 'timm_*'   these, again
    python -m bench.torch_models --import-only       imports graphs and compiles nothing
    python -m bench.torch_models --failed            those with errors or fallbacks, again
    python -m bench.torch_models --table FILE        writes the table (Markdown), runs nothing;
                                                     rows in FILE without results here stay;
                                                     times of `bench.torch_speed` follow
    python -m bench.torch_models --list              every name

Each model runs in a process of its own with limits of time and memory: through ``weft.optimize``,
through ``torch.compile(backend="weft")``, and in double precision (``--ways double``), from which
both Weft and PyTorch differ.  A classification or segmentation model whose results were too far
off is trained for some steps and runs again both ways (``--ways trained``).

Results are lines of JSON in `$WEFT_TORCH_RESULTS`, by default `~/.cache/weft/torch-models.jsonl`;
the last of a model and a way counts.  Times are the least of alternating runs on one thread,
beside PyTorch's own in both layouts.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.runtime.limits import processor_name

WAYS, DOUBLE, TRAINED = ("optimize", "compile"), "double", "trained"
SECONDS, GIGABYTES, TIMED = 400.0, 14, 0.5
"""Limits of a way unless others are given, and for how long it is timed."""
CLOSE = 1e-4
"""So far results may be off, relative to their range."""


def results_file() -> Path:
    """Where results are kept."""
    default = Path.home() / ".cache" / "weft" / "torch-models.jsonl"
    return Path(os.environ.get("WEFT_TORCH_RESULTS") or default)


def version() -> str:
    """The state of the sources: git's name of the folder, or nothing."""
    command = ["git", "rev-parse", "--short=12", "HEAD:src/weft"]
    top = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# --- the process of one model -----------------------------------------------------------------


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


# --- the processes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What a process may take.

    Attributes:
        seconds: for each way.
        gigabytes: of memory.
    """

    seconds: float
    gigabytes: int

    def set_memory(self) -> None:
        """Limits the memory of this process."""
        resource.setrlimit(resource.RLIMIT_DATA, (self.gigabytes << 30, self.gigabytes << 30))


def run(name: str, ways: Sequence[str], file: Path, limits: Limits) -> None:
    """Runs a model in a process; what ends it early is the result of the way it was in."""
    left = list(ways)
    while left:
        lines, ended = _process(name, left, limits)
        running = ""
        for line in lines:
            if "started" in line:
                running = line["started"]
                continue
            _keep(file, {"model": name, **line})
            left.remove(line["way"])
            running = ""
        if left:
            way = running or left[0]
            _keep(file, {"model": name, "way": way, "status": "error", "error": ended})
            left.remove(way)


def _process(name: str, ways: Sequence[str], limits: Limits) -> tuple[list[dict[str, Any]], str]:
    """What the worker printed, and how it ended."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.torch_models", "--worker", name, *ways]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, start_new_session=True, preexec_fn=limits.set_memory
        )
        try:
            code = process.wait(limits.seconds * len(ways))
            ended = f"exit status {code}"
        except subprocess.TimeoutExpired:
            ended = f"took more than {limits.seconds * len(ways):.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        told = err.read().strip().splitlines()
        if os.environ.get("WEFT_TORCH_VERBOSE") and told:
            print(*told, sep="\n", file=sys.stderr)
        if ended.startswith("exit") and told:
            ended += f": {told[-1][:300]}"
        lines = [json.loads(line) for line in out.read().splitlines() if line.startswith("{")]
        return lines, ended


def _keep(file: Path, record: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        about = {"version": version(), "processor": processor_name()}
        out.write(json.dumps({**record, **about}) + "\n")
    print(_shown(record), flush=True)


def _shown(record: dict[str, Any]) -> str:
    head = f"{record['model']:36} {record['way']:9}"
    if record["status"] != "ok":
        return f"{head} {record['error']}"
    if "eager" in record:
        off = "".join(f"{record[way]:.2e} off by {way}, " for way in WAYS if way in record)
        return f"{head} {off}{record['weft']:.2e} off double, PyTorch {record['eager']:.2e}"
    other = "; ".join(f"{count} {name}" for name, count in record["fallbacks"].items())
    if "ratio" not in record:
        return f"{head} {record['nodes']} nodes, {other or 'all imported'}"
    return (
        f"{head} {record['difference']:.1e} off, {record['ratio']:.2f} times, "
        f"built in {record['built']} s{', by PyTorch: ' if other else ''}{other}"
    )


def kept(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of each model and way."""
    lines = file.read_text().splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return {(each["model"], each["way"]): each for each in records}


# --- command line -----------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models, with `*`")
    parser.add_argument("--import-only", action="store_true", help="imports; compiles nothing")
    every = [*WAYS, DOUBLE]
    parser.add_argument("--ways", nargs="+", choices=[*every, TRAINED], default=every)
    parser.add_argument("--failed", action="store_true", help="what did not go well, again")
    parser.add_argument("--any-version", action="store_true", help="keep results of older sources")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds of a model and way")
    parser.add_argument("--gigabytes", type=int, default=GIGABYTES, help="of memory of a process")
    parser.add_argument("--table", type=Path, help="write the table there")
    parser.add_argument("--list", action="store_true", help="print every name and stop")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker[0], arguments.worker[1:])
        return
    if arguments.table:
        _write_table(arguments.table)
        return
    from bench.torch_catalog import CATALOG  # noqa: PLC0415

    if arguments.list:
        print(*CATALOG, sep="\n")
        return
    file = results_file()
    ways = ["import"] if arguments.import_only else arguments.ways
    chosen = [
        name
        for name in CATALOG
        if not arguments.names or any(fnmatch.fnmatch(name, each) for each in arguments.names)
    ]
    if not chosen:
        parser.error(f"no such model: {', '.join(arguments.names)} (see --list)")
    limits = Limits(arguments.limit, arguments.gigabytes)
    end = time.monotonic() + arguments.seconds
    for name in chosen:
        known = kept(file)
        wanted = [way for way in ways if _wanted(known.get((name, way)), arguments)]
        if wanted and time.monotonic() < end:
            run(name, wanted, file, limits)


def _write_table(page: Path) -> None:
    """Writes the table of what the page has already and of all results kept here."""
    from bench import torch_speed  # noqa: PLC0415
    from bench.torch_table import results_of, table, times_of  # noqa: PLC0415

    old = page.read_text() if page.exists() else ""
    times = {(each["model"], each["threads"]): each for each in torch_speed.kept()}
    page.write_text(table(results_of(old) | kept(results_file()), times_of(old) | times))


def _wanted(record: dict[str, Any] | None, arguments: argparse.Namespace) -> bool:
    """Whether a result is missing, too old, or asked for."""
    if arguments.failed:
        return record is None or not ("eager" in record or well(record))
    if arguments.names or record is None:
        return True
    return not arguments.any_version and record["version"] != version()


def well(record: dict[str, Any], trained: float | None = None) -> bool:
    """Whether a model ran whole, and right.

    Args:
        record: of a way.
        trained: the difference after a training, where there was one: it counts.
    """
    off = record.get("difference", 0.0) if trained is None else trained
    return record["status"] == "ok" and not record["fallbacks"] and off <= CLOSE


if __name__ == "__main__":
    main()
