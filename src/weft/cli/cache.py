"""``weft cache``: what was built and kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from weft.cli.files import parse_bytes
from weft.cli.options import json_option, was_given, wide_option
from weft.cli.output import CommandState, table, write_json
from weft.errors import UserError
from weft.plan.report import size
from weft.runtime.cache import Cache, CacheEntry
from weft.runtime.record import MadeFor, made_for

_KINDS = {
    ".so": "library",
    ".bin": "weights",
    ".net": "record",
    ".file": "checked file",
    ".time": "times",
    ".memory": "memory",
}
# Libraries that serve all networks, by how their names begin.
_SHARED = {
    "weft-pool": "pool of threads",
    "weft-arrays": "calls of arrays",
    "weft-call": "calls of modules",
    "timing": "timing loop",
    "limits": "machine limits",
}


def _kind(path: Path) -> str:
    """What an entry is."""
    shared = _SHARED.get(path.name.rpartition("-")[0])
    return shared or _KINDS.get(path.suffix, "")


def _names(path: Path, known: Mapping[str, list[MadeFor]]) -> list[MadeFor]:
    """What an entry was made for; of a library without a record only the network's name."""
    if path.name in known or path.suffix != ".so":
        return known.get(path.name, [])
    name = path.name.rpartition("-")[0]
    return [] if name in _SHARED else [MadeFor(name)]


def _record(entry: CacheEntry, known: Mapping[str, list[MadeFor]]) -> dict[str, object]:
    return {
        "path": str(entry.path),
        "kind": _kind(entry.path),
        "made_for": [asdict(each) for each in _names(entry.path, known)],
        "bytes": entry.bytes,
        "used": entry.used,
    }


def _cells(entry: CacheEntry, known: Mapping[str, list[MadeFor]], now: float) -> tuple[str, ...]:
    names = _names(entry.path, known)
    models = dict.fromkeys(Path(each.model).name for each in names)
    options = dict.fromkeys(each.options for each in names if each.options)
    return (
        ", ".join(models),
        _kind(entry.path),
        "; ".join(options),
        size(entry.bytes),
        _age(now - entry.used),
        entry.path.name,
    )


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"


@click.command()
@click.option("--prune", is_flag=True, help="Remove the least recently used entries ...")
@click.option("--keep", default="0", help="... until at most this much is left, such as 200M.")
@wide_option
@json_option
@click.pass_obj
def cache(state: CommandState, prune: bool, keep: str) -> None:
    """Lists cached libraries and weights, least recently used first.

    Each entry shows the model and the options it was built for; models may share entries.

    The folder is $WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft. Removed entries are rebuilt
    on demand.
    """
    if was_given("keep") and not prune:
        raise UserError("--keep requires --prune", fix="Add --prune.")
    store = Cache()
    limit = parse_bytes(keep)
    known = made_for(store)
    gone = store.prune(limit) if prune else []
    left = store.entries()
    if state.json:
        write_json(
            {
                "folder": str(store.root),
                "removed": [_record(each, known) for each in gone],
                "entries": [_record(each, known) for each in left],
            }
        )
        return
    if prune:
        click.echo(f"removed {len(gone)} entries, {size(sum(each.bytes for each in gone))}")
    else:
        now = time.time()
        rows = [_cells(each, known, now) for each in left]
        table(("model", "is", "options", "bytes", "used", "file"), rows, (3,), ("file", "options"))
    total = size(sum(each.bytes for each in left))
    click.echo(f"{len(left)} entries, {total} in {store.root}")
