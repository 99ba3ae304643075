"""``weft quantize``: a network in integers, and what that did to each layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from weft.api.quantized import quantize as quantize_net
from weft.atomic import write_text
from weft.cli.draw import svg_option
from weft.cli.model import Model, model_options
from weft.cli.options import (
    ALL_CORES,
    NEW_FILE,
    Number,
    json_option,
    options,
    output_option,
    wide_option,
)
from weft.cli.output import CommandState, say, table, working, write_json
from weft.errors import UserError
from weft.explore.quantization_plot import quantization_page, quantization_picture
from weft.frontends.source import NATIVE
from weft.options import Options
from weft.pictures.file import write_picture
from weft.quantize.config import CalibrationMethod
from weft.quantize.report import QuantizationReport

_SUFFIXES = (".onnx", NATIVE)


def _bits_by_layer(texts: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, mark, bits = text.rpartition("=")
        if not mark or not bits.isdecimal():
            raise UserError("--bits takes NAME=BITS", got=text, fix="--bits '*/conv1=8'")
        found[name] = int(bits)
    return found


@click.command()
@model_options
@click.option(
    "--samples",
    required=True,
    metavar="FILE|NAME",
    help="Typical inputs, some hundred: .npz with an array for each input, and `labels` for "
    "accuracy; or a data set (`weft datasets`).",
)
@click.option("--test", metavar="FILE|NAME", help="Labelled samples to measure accuracy with.")
@click.option("--limit", type=click.IntRange(1), help="Calibrate with no more samples than this.")
@output_option("The quantized model: FILE.onnx or FILE.weft.", required=True)
@click.option(
    "--weights", default=8, show_default=True, type=click.IntRange(2, 8), help="Bits of weights."
)
@click.option(
    "--activations",
    default="8",
    show_default=True,
    type=click.Choice(["8", "16"]),
    help="Bits of activations.",
)
@click.option(
    "--bits",
    multiple=True,
    metavar="NAME=BITS",
    help="Bits of one layer's weights; * and ? stand for anything. May be repeated.",
)
@click.option(
    "--calibration",
    default="min-max",
    show_default=True,
    type=click.Choice(get_args(CalibrationMethod)),
    help="How ranges of activations are chosen.",
)
@click.option(
    "--weight-calibration",
    default="min-max",
    show_default=True,
    type=click.Choice(["min-max", "mse"]),
    help="How ranges of weights are chosen.",
)
@click.option(
    "--percentile",
    default=99.99,
    show_default=True,
    type=Number(above=True),
    help="Of --calibration percentile: the share of elements within the range, at each end.",
)
@click.option("--symmetric", is_flag=True, help="Activations have the zero point 0.")
@click.option("--unsigned", is_flag=True, help="Activations are u8 instead of i8.")
@click.option("--per-tensor", is_flag=True, help="One scale for each weight, not for each channel.")
@click.option("--equalize", is_flag=True, help="Equalize ranges of weights across layers.")
@click.option("--bias-correction", is_flag=True, help="Correct biases for the mean error.")
@click.option("--adaptive-rounding", is_flag=True, help="Round weights as the output is best.")
@click.option(
    "--keep-float",
    multiple=True,
    metavar="NAME",
    help="A layer to leave in floating point; * and ? stand for anything. May be repeated.",
)
@click.option(
    "--max-drop",
    type=Number(),
    help="Largest loss of accuracy, such as 0.01: layers that hurt most get more bits.",
)
@click.option("--integer-io", is_flag=True, help="Inputs and outputs are integers, too.")
@click.option(
    "--int4", is_flag=True, help="Store weights of 4 bits or fewer in 4 bits: ONNX operator set 21."
)
@click.option(
    "--report", type=NEW_FILE, help="Write figures and histograms of all layers to this .html file."
)
@svg_option("Draw the histograms of all layers to this file (.svg or .png).")
@options("threads", threads=ALL_CORES)
@wide_option
@json_option
@click.pass_obj
def quantize(
    state: CommandState,
    model: Model,
    samples: str,
    test: str | None,
    limit: int | None,
    output: Path,
    max_drop: float | None,
    report: Path | None,
    svg: Path | None,
    int4: bool,
    options: Options,
    **given: Any,
) -> None:
    """Quantizes MODEL after training and writes it with QuantizeLinear and DequantizeLinear.

    The file runs in onnxruntime and elsewhere; `weft apply q.onnx integers` makes its layers ones
    of integers. The table has a line for each layer: signal to quantization noise in dB of its
    output in the quantized network, of the network's output if it alone is quantized, of its
    weights and of its input, and what limits it.
    """
    if output.suffix not in _SUFFIXES:
        raise UserError("the output must be FILE.onnx or FILE.weft", got=str(output))
    if report is not None and report.suffix != ".html":
        raise UserError("the report must be FILE.html", got=str(report))
    with working("quantizing"):
        made = quantize_net(
            model.net,
            samples,
            test=test,
            limit=limit,
            max_drop=max_drop,
            options=options,
            weights=given["weights"],
            activations=int(given["activations"]),
            weight_bits=_bits_by_layer(given["bits"]),
            calibration=given["calibration"],
            weight_calibration=given["weight_calibration"],
            percentile=given["percentile"],
            symmetric=given["symmetric"],
            signed=not given["unsigned"],
            per_channel=not given["per_tensor"],
            equalize=given["equalize"],
            bias_correction=given["bias_correction"],
            adaptive_rounding=given["adaptive_rounding"],
            keep_float=given["keep_float"],
            integer_io=given["integer_io"],
        )
    found = made.quantization
    assert found is not None
    made.save(output, int4=int4)
    if report is not None:
        write_text(report, quantization_page(found))
    if svg is not None:
        write_picture(svg, quantization_picture(found))
    if state.json:
        write_json({**found.record(), "written": output})
        return
    _show(found, [path for path in (output, report, svg) if path is not None])


def _show(found: QuantizationReport, written: list[Path]) -> None:
    headings = found.headings()
    numbers = range(3, len(headings) - 1)
    table(headings, found.rows(), numbers, ("cosine", "input", "weights"), prose=True)
    click.echo()
    for label, text in found.facts():
        say(f"{label}: {text}")
    for path in written:
        click.echo(f"written: {path}")
