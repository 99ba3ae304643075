"""``weft precision``: what storing values in half precision does to each layer."""

from __future__ import annotations

import click

from weft.api.quantized import precision_report
from weft.cli.model import Model, model_options
from weft.cli.options import ALL_CORES, Number, json_option, options, wide_option
from weft.cli.output import CommandState, say, table, working, write_json
from weft.options import Options


@click.command()
@model_options
@click.option(
    "--samples",
    required=True,
    metavar="FILE|NAME",
    help="Typical inputs: .npz with an array for each input, and `labels` for accuracy; or a data "
    "set (`weft datasets`).",
)
@click.option("--test", metavar="FILE|NAME", help="Labelled samples to measure accuracy with.")
@click.option("--limit", type=click.IntRange(1), help="Take no more samples than this.")
@click.option(
    "--max-drop",
    type=Number(),
    help="Largest loss of accuracy, such as 0.01: layers that hurt most stay in float32.",
)
@options("precision", "keep_float32", "threads", threads=ALL_CORES)
@wide_option
@json_option
@click.pass_obj
def precision(
    state: CommandState,
    model: Model,
    samples: str,
    test: str | None,
    limit: int | None,
    max_drop: float | None,
    options: Options,
) -> None:
    """Measures MODEL with values and weights stored in bfloat16, or another --precision.

    The table has a line for each layer: signal to rounding noise in dB of what it stores in the
    network of that precision, and of the network's output if this layer alone is rounded. The last
    line has the layers to keep in float32, for --keep-float32.
    """
    with working("measuring"):
        found = precision_report(
            model.net,
            samples,
            options.precision or "bfloat16",
            keep_float32=options.keep_float32,
            test=test,
            limit=limit,
            max_drop=max_drop,
            options=Options(threads=options.threads),
        )
    if state.json:
        write_json(found.record())
        return
    table(found.headings(), found.rows(), range(3, 6), ("cosine",), prose=True)
    click.echo()
    for label, text in found.facts():
        say(f"{label}: {text}")
