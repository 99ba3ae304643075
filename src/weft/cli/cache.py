"""``weft cache``: what was built and kept."""

from __future__ import annotations

import time

import click

from weft.cli.common import State, json_option, table, was_given, write_json
from weft.cli.files import parse_bytes
from weft.errors import UserError
from weft.plan.report import size
from weft.runtime.cache import Cache, Entry


def _record(entry: Entry) -> dict[str, str | int | float]:
    return {"path": str(entry.path), "bytes": entry.bytes, "used": entry.used}


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"


@click.command(short_help="List or prune the built libraries.")
@click.option("--prune", is_flag=True, help="Remove what was not used for longest ...")
@click.option("--keep", default="0", help="... until no more than this is left, as 200M.")
@json_option
@click.pass_obj
def cache(state: State, prune: bool, keep: str) -> None:
    """Lists the cache of built libraries and weights, least recently used first.

    Its folder is $WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft. Whatever is removed is
    built again when it is needed.
    """
    if was_given("keep") and not prune:
        raise UserError("--keep belongs to --prune", fix="Add --prune.")
    store = Cache()
    limit = parse_bytes(keep)
    gone = store.prune(limit) if prune else []
    left = store.entries()
    if state.json:
        write_json(
            {
                "folder": str(store.root),
                "removed": [_record(each) for each in gone],
                "entries": [_record(each) for each in left],
            }
        )
        return
    if prune:
        click.echo(f"removed {len(gone)} entries, {size(sum(each.bytes for each in gone))}")
    else:
        now = time.time()
        rows = [(each.path.name, size(each.bytes), _age(now - each.used)) for each in left]
        table(("entry", "bytes", "used"), rows, (1,))
    total = size(sum(each.bytes for each in left))
    click.echo(f"{len(left)} entries, {total} in {store.root}")
