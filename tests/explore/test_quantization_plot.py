"""The picture and the page of a quantized network."""

from __future__ import annotations

from xml.etree import ElementTree

from weft.explore.quantization_plot import quantization_page, quantization_picture
from weft.quantize.report import (
    FloatNode,
    QuantizationReport,
    QuantizedLayerReport,
    ValueHistogram,
)

SVG = "{http://www.w3.org/2000/svg}"


def layer(name: str, own: float, *shares: float) -> QuantizedLayerReport:
    shown = ValueHistogram(-1.0, 3.0, shares, -1.0, 2.0, 0.25)
    return QuantizedLayerReport(
        name, "Conv", 4, 20.0, 0.99, own, 21.0, 40.0, "weight: 4 bits", shown
    )


REPORT = QuantizationReport(
    "net",
    8,
    (layer("<first>", 30.0, 0.5, 0.25, 0.0, 0.25), layer("second", 10.0, 1.0)),
    18.0,
    (FloatNode("exp", "Exp", "Exp has no form of integers"),),
    0.9,
    0.95,
)


def test_a_panel_for_each_layer():
    root = ElementTree.fromstring(quantization_picture(REPORT))
    words = [each.text for each in root.iter(f"{SVG}text")]
    assert "<first>" in words
    assert "Conv int4: 20.0 dB, alone 10.0 dB" in words
    bars = [each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    # An empty bar is none; the last one lies outside of the range of the integers.
    assert [bar.attrib["fill"] for bar in bars] == ["#56b4e9", "#56b4e9", "#d55e00", "#56b4e9"]
    told = [bar.find(f"{SVG}title").text for bar in bars]
    assert told[2] == "2 to 3: 25.00%"
    marked = [each.text for each in root.iter(f"{SVG}text") if each.get("fill") == "#d55e00"]
    assert marked == ["second"]


def test_a_page_with_all_of_it():
    page = quantization_page(REPORT)
    assert "&lt;first&gt;" in page
    assert "<first>" not in page
    for text in ("18.0 dB signal", "0.9, 0.95 in float", "Exp has no form of integers", "<svg"):
        assert text in page
