"""Records of the cache: what it takes to call a built network, without planning it again.

A record is JSON.  Whatever is wrong with a record or with a file that it names, the answer is
that there is none, and the network is built again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.atomic import write_files
from weft.dtypes import DType
from weft.plan.program import Port, State
from weft.records import dataclass
from weft.runtime.cache import Cache
from weft.runtime.seal import unsealed

BUILT = ".net"
KNOWN = ".file"
"""Notes that the network of a file was built, and so is sound."""
TIMED = ".time"
"""What was measured of a network that was built."""
MEMORY = ".memory"
"""How much memory a network took that was built."""
_TOLD = (BUILT, KNOWN, TIMED, MEMORY)


@dataclass(frozen=True)
class Preparing:
    """What makes weights of parameters.

    Attributes:
        function: its name.
        parameters: in the order in which they are given.
        bytes: that it writes; arena_bytes: scratch memory that it needs.
        held: the parameters that runs read where they lie, by name.
    """

    function: str
    parameters: tuple[Port, ...]
    bytes: int
    arena_bytes: int
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """A built network on disk.

    Attributes:
        name: of the program; function: the run function's.
        inputs: ports in the order of the run function's parameters; outputs: after them.
        arena_bytes: scratch memory that a run needs; starts: of its regions, for which the run
            function has a pointer each.
        threads: that one run can use at the most.
        library: the shared library.
        takes_weights: whether the run function is given its weights.
        weights: the file of them; ``None`` if there are none.
        open: the function that prepares libraries, if any are called.
        states: what is handed from run to run.
        preparing: what makes weights of parameters that are given at run time.
    """

    name: str
    function: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    threads: int
    library: Path
    takes_weights: bool
    weights: Path | None
    open: str = ""
    states: tuple[State, ...] = ()
    preparing: Preparing | None = None
    starts: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """What an entry of the cache was made for, as people are told.

    Attributes:
        model: the file of a network, or its name; nothing where it serves all networks.
        options: how it was built.
    """

    model: str
    options: str = ""


def write_record(cache: Cache, name: str, data: Any) -> None:
    """Writes a record, in the place of any other of that name."""
    text = json.dumps(data, sort_keys=True)

    def write(path: Path) -> None:
        write_files(path.parent, [(path.name, text.encode())])

    cache.put(name, write)


def read_record(cache: Cache, name: str) -> Any:
    """What a record holds; ``None`` if there is no sound one, of which nothing is left then."""
    content = cache.read(name)
    return None if content is None else json.loads(content)


def remember(cache: Cache, key: str, built: Built, made_for: MadeFor | None = None) -> None:
    """Keeps what was built under a key, and what it was built from, for people."""
    data = {
        "made_for": asdict(made_for or MadeFor(built.name)),
        "name": built.name,
        "function": built.function,
        "inputs": _plain(built.inputs),
        "outputs": _plain(built.outputs),
        "arena_bytes": built.arena_bytes,
        "threads": built.threads,
        "library": built.library.name,
        "takes_weights": built.takes_weights,
        "weights": built.weights.name if built.weights else "",
        "open": built.open,
        "starts": built.starts,
        "states": [
            [port, each.output, each.offset]
            for port, each in zip(
                _plain([each.port for each in built.states]), built.states, strict=True
            )
        ],
    }
    if built.preparing is not None:
        parameters = _plain(built.preparing.parameters)
        data["preparing"] = {**asdict(built.preparing), "parameters": parameters}
    write_record(cache, _name(key), data)


def recall(cache: Cache, key: str) -> Built | None:
    """What was built under a key, if its library is sound; weights are checked when read."""
    data = read_record(cache, _name(key))
    if data is None:
        return None
    library = cache.root / data["library"]
    weights = cache.root / data["weights"] if data["weights"] else None
    if unsealed(library) is None:
        forget(cache, key, library)
        return None
    for path in (library, weights):
        if path is not None:
            cache.touch(path)
    return Built(
        data["name"],
        data["function"],
        _ports(data["inputs"]),
        _ports(data["outputs"]),
        data["arena_bytes"],
        data["threads"],
        library,
        data["takes_weights"],
        weights,
        data.get("open", ""),
        tuple(
            State(_ports([port])[0], output, offset)
            for port, output, offset in data.get("states", ())
        ),
        _preparing(data["preparing"]) if "preparing" in data else None,
        tuple(data.get("starts", (0,))),
    )


def forget(cache: Cache, key: str, *damaged: Path) -> None:
    """Removes what is damaged of what was built under a key, and the record that names it."""
    for path in (*damaged, cache.root / _name(key)):
        path.unlink(missing_ok=True)


def made_for(cache: Cache) -> dict[str, list[MadeFor]]:
    """What entries of the cache were made for, by file names; several networks may share one."""
    found: dict[str, list[MadeFor]] = {}
    for entry in cache.entries():
        content = unsealed(entry.path) if entry.path.suffix in _TOLD else None
        if content is None:
            continue
        data = json.loads(bytes(content))
        one = MadeFor(**(data.get("made_for") or {"model": data["name"]}))
        for name in (entry.path.name, data.get("library"), data.get("weights")):
            if name and one not in found.setdefault(name, []):
                found[name].append(one)
    return found


def _preparing(data: dict[str, Any]) -> Preparing:
    ports = _ports(data["parameters"])
    held = tuple(data["held"])
    return Preparing(data["function"], ports, data["bytes"], data["arena_bytes"], held)


def _name(key: str) -> str:
    return f"{key}{BUILT}"


def _plain(ports: Sequence[Port]) -> list[list[Any]]:
    return [[port.name, port.dtype.value, list(port.shape)] for port in ports]


def _ports(plain: Sequence[Sequence[Any]]) -> tuple[Port, ...]:
    return tuple(Port(name, DType(dtype), tuple(shape)) for name, dtype, shape in plain)
