"""What quantization did to each layer, drawn: histograms with the range of the integers, a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import log10

from weft.explore.plot import label
from weft.pictures.canvas import (
    clean,
    element,
    frame,
    page,
    path,
    quoted,
    rectangle,
    shortened,
    text,
    title,
)
from weft.quantize.report import (
    QuantizationReport,
    QuantizedLayerReport,
    ValueHistogram,
    decibels,
)

_COLUMNS, _WIDE, _HIGH, _MARGIN, _TOP = 3, 290, 150, 20, 70
_PLOT_TOP, _PLOT_HIGH = 40, 80
_INSIDE, _OUTSIDE, _RANGE, _WORST = "#56b4e9", "#d55e00", "#333333", "#d55e00"
_DECADES = 4


def quantization_picture(report: QuantizationReport) -> str:
    """A panel for each layer as SVG: how its output is distributed, and what integers hold of it.

    Args:
        report: of a quantized network.
    """
    rows = -(-len(report.layers) // _COLUMNS)
    width = 2 * _MARGIN + _COLUMNS * _WIDE
    height = _TOP + rows * _HIGH + _MARGIN
    heading = f"Outputs of the layers of {report.name}"
    legend = (
        "Bars: shares of the elements, logarithmic from 1 in 10,000 to all. Dark lines: the range "
        "of the integers. Orange: outside of it, and the layer that hurts most."
    )
    worst = report.worst
    parts = [
        page(width, height),
        text(_MARGIN, 26, heading, font_size=16),
        text(_MARGIN, 46, legend, fill="#555555"),
    ]
    for place, layer in enumerate(report.layers):
        row, column = divmod(place, _COLUMNS)
        x, y = _MARGIN + column * _WIDE, _TOP + row * _HIGH
        parts += _panel(layer, report.short_names[layer.name], x, y, layer is worst)
    return frame(width, height, heading, parts)


def _panel(
    layer: QuantizedLayerReport, name: str, x: float, y: float, worst: bool
) -> Iterator[str]:
    kind = f" int{layer.bits}" if layer.bits else ""
    shown = shortened(name, 34)
    inside = quoted(shown) + (title(layer.name) if shown != layer.name else "")
    colour = _WORST if worst else "#333333"
    yield element("text", inside, x=x, y=y + 12, font_weight="bold", fill=colour)
    told = f"{layer.op}{kind}: {decibels(layer.sqnr)} dB, alone {decibels(layer.own)} dB"
    yield text(x, y + 27, told)
    yield from _bars(layer.histogram, x, y + _PLOT_TOP, _WIDE - 30)


def _bars(shown: ValueHistogram, x: float, y: float, width: float) -> Iterator[str]:
    low, high = min(shown.low, shown.range_low), max(shown.high, shown.range_high)
    scale = width / ((high - low) or 1)
    step = (shown.high - shown.low) / len(shown.shares)
    base = y + _PLOT_HIGH
    for place, share in enumerate(shown.shares):
        tall = _height(share)
        if not tall:
            continue
        begin = shown.low + place * step
        middle = begin + step / 2
        inside = shown.range_low <= middle <= shown.range_high
        told = f"{begin:.4g} to {begin + step:.4g}: {share:.2%}"
        at, wide = x + (begin - low) * scale, max(step * scale - 0.5, 0.5)
        fill = _INSIDE if inside else _OUTSIDE
        yield rectangle(at, base - tall, wide, tall, told, fill=fill)
    yield path(f"M{x:.1f} {base}h{width:.1f}", stroke="#999999")
    for end, anchor in ((shown.range_low, "start"), (shown.range_high, "end")):
        at = x + (end - low) * scale
        yield path(f"M{at:.1f} {y}V{base + 4}", f"integers end at {end:.4g}", stroke=_RANGE)
        yield text(at, base + 16, label(end), text_anchor=anchor)
    if low < 0 < high:
        yield path(f"M{x - low * scale:.1f} {base}v4", "0", stroke="#999999")


def _height(share: float) -> float:
    """Of a bar, on a logarithmic scale down to one element in 10,000."""
    return 0.0 if share <= 0 else _PLOT_HIGH * max(0.02, 1 + log10(share) / _DECADES)


# --- the page -------------------------------------------------------------------------------

_STYLE = (
    "body{font:14px sans-serif;color:#333;max-width:940px;margin:24px auto;padding:0 12px}"
    "table{border-collapse:collapse;margin:12px 0}td,th{padding:3px 10px;text-align:left;"
    "border-bottom:1px solid #ddd}td.n,th.n{text-align:right}svg{max-width:100%;height:auto}"
)


def quantization_page(report: QuantizationReport) -> str:
    """Figures, histograms and what stays in floating point as one HTML page.

    Args:
        report: of a quantized network.
    """
    shown = report.screen()
    facts = "".join(f"<tr><th>{_words(a)}</th><td>{_words(b)}</td></tr>" for a, b in shown.facts)
    numbers = set(shown.numbers)
    floats = [(each.name, each.op, each.reason) for each in report.floats]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{_words(shown.title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_words(shown.title)}</h1><table>{facts}</table>",
            "<p>Signal to quantization noise in dB: of the layer's output in the quantized "
            "network (SQNR), of the network's output with this layer alone quantized (alone), of "
            "its weights, and of its input. More is better; 6 dB are one bit.</p>",
            _table(report.headings(), report.rows(), numbers),
            quantization_picture(report),
            "<h2>In floating point</h2>",
            _table(("node", "op", "reason"), floats, set()) if floats else "<p>Nothing.</p>",
            "</body></html>\n",
        ]
    )


def _words(given: str) -> str:
    return escape(clean(given))


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]], numbers: set[int]) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        made = (
            f"<{tag}{' class=n' if place in numbers else ''}>{_words(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        return f"<tr>{''.join(made)}</tr>"

    return f"<table>{cells('th', headings)}{''.join(cells('td', row) for row in rows)}</table>"
