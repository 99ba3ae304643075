"""``weft recipes`` and ``weft apply``: changes of a graph that have a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import click

from weft.cli.model import Model, model_options
from weft.cli.options import NEW_FILE, json_option, wide_option
from weft.cli.output import CommandState, table, warn_failed, working, write_json
from weft.errors import UserError
from weft.frontends.onnx import save as save_onnx
from weft.frontends.source import NATIVE
from weft.ir.diff import diff
from weft.ir.graph import Graph
from weft.ir.native import save as save_native
from weft.pictures.canvas import clean
from weft.recipes import ALL, apply, parse_steps, recipe_named
from weft.rewrite.recipe import Recipe, described

ONNX = ".onnx"


def _record(recipe: Recipe) -> dict[str, object]:
    return {
        "name": recipe.name,
        "exactness": recipe.exactness.value,
        "parameters": [asdict(each) for each in described(recipe)],
        "doc": recipe.doc,
    }


@click.command()
@click.argument("name", required=False)
@wide_option
@json_option
@click.pass_obj
def recipes(state: CommandState, name: str | None) -> None:
    """Lists the recipes, or describes the recipe NAME with its parameters."""
    warn_failed(ALL)
    found = tuple(ALL.values()) if name is None else (recipe_named(name),)
    if state.json:
        write_json([_record(each) for each in found])
        return
    if name is not None:
        _describe(found[0])
        return
    rows = [
        (each.name, each.exactness.value, " ".join(one.name for one in described(each)), each.doc)
        for each in found
    ]
    headings = ("recipe", "exactness", "parameters", "what")
    table(headings, rows, (), ("parameters", "exactness"), prose=True)


def _describe(recipe: Recipe) -> None:
    click.echo(f"{recipe.name} ({recipe.exactness.value})\n\n{recipe.doc}\n")
    rows = [
        (each.name, each.kind, "needed" if each.default is None else each.default, each.doc)
        for each in described(recipe)
    ]
    if rows:
        table(("parameter", "is", "default", "what"), rows, (), prose=True)


@click.command(name="apply")
@model_options
@click.argument("steps", nargs=-1, required=True, metavar="NAME [KEY=VALUE]... ...")
@click.option(
    "-o",
    "--out",
    type=NEW_FILE,
    help="Where to write the graph: FILE.onnx or FILE.weft.",
)
@click.option("--diff", "compare", is_flag=True, help="Show removed and added nodes.")
@click.option(
    "--proof", is_flag=True, help="Show why the change is exact, of recipes that prove it."
)
@json_option
@click.pass_obj
def apply_command(
    state: CommandState,
    model: Model,
    steps: Sequence[str],
    out: Path | None,
    compare: bool,
    proof: bool,
) -> None:
    """Applies recipes to MODEL in order.

    A recipe's parameters follow its name: `weft apply net.onnx fuse-batch-norm tile-conv axis=2
    parts=4 -o tiled.onnx`. `weft recipes` lists the recipes.
    """
    parsed = parse_steps(steps)
    for name, _ in parsed:
        recipe_named(name)
    if out is not None and out.suffix not in (ONNX, NATIVE):
        raise UserError("the output must be FILE.onnx or FILE.weft", got=str(out))
    first = graph = model.source.graph if model.batch == 1 else model.net.graph
    found: list[dict[str, object]] = []
    for name, values in parsed:
        before = graph
        with working(f"applying {name}"):
            graph = apply(before, name, values)
        change = {"recipe": name, "parameters": values, **_change(before, graph)}
        found.append({**change, "proof": _proof(name, before)} if proof else change)
    if out is not None:
        (save_native if out.suffix == NATIVE else save_onnx)(graph, out)
    lines = list(diff(first, graph).lines()) if compare else []
    if state.json:
        write_json({"steps": found, "written": out, **({"diff": lines} if compare else {})})
        return
    for each in found:
        click.echo(clean(f"{each['recipe']}: {each['text']}"))
        for line in cast(Sequence[str], each.get("proof", ())):
            click.echo(clean(f"  {line}"))
    for line in lines:
        click.echo(clean(line))
    if out is not None:
        click.echo(clean(f"written: {out}"))


def _proof(name: str, graph: Graph) -> list[str]:
    """Why a recipe changes a graph exactly; empty for recipes that do not say."""
    prove = recipe_named(name).proof
    return [] if prove is None else list(prove(graph))


def _change(before: Graph, after: Graph) -> dict[str, object]:
    """How many nodes went and came, by op."""
    old, new = (Counter(node.op for node in graph.nodes) for graph in (before, after))
    counts = {op: new[op] - old[op] for op in sorted(old | new) if new[op] != old[op]}
    changes = ", ".join(f"{count:+} {op}" for op, count in counts.items())
    if after is before:
        text = "nothing to do"
    else:
        size = f"{len(before.nodes)} nodes, now {len(after.nodes)}"
        text = f"{size} ({changes})" if changes else size
    return {
        "nodes_before": len(before.nodes),
        "nodes": len(after.nodes),
        "changed": after is not before,
        "ops": counts,
        "text": text,
    }
