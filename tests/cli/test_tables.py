"""Tables on a terminal: a line for each row, no line too long; names that converters gave."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.commands import good, record
from weft.api import load
from weft.cli.columns import Columns

WIDTHS = (80, 100)
LAYERS = 5


def converted(layer: int) -> str:
    """The name of a layer as TensorFlow's converter joins it of all that it was made from."""
    end = f"model/depthwise_conv2d_{layer}/BiasAdd/ReadVariableOp/resource1"
    parts = ("activation/Relu", "batch_normalization/FusedBatchNormV3", "conv2d/BiasAdd", "conv2d")
    return ";".join([*(f"model/{part}_{layer}" for part in parts), end])


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Convolutions whose names have over 200 letters and end alike."""
    nodes, weights, last = [], [], "image"
    for layer in range(LAYERS):
        name, bias = converted(layer), f"{converted(layer)}_bias"
        weights.append(numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), f"w{layer}"))
        weights.append(numpy_helper.from_array(np.ones(4, np.float32), bias))
        inputs = [last, f"w{layer}", bias]
        nodes.append(helper.make_node("Conv", inputs, [name], name=f"{name}_", pads=[1] * 4))
        nodes.append(helper.make_node("Sigmoid", [name], [f"{name}:0"], name=f"{name}__{layer}"))
        last = f"{name}:0"
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8])
        for name in ("image", last)
    ]
    graph = helper.make_graph(nodes, "converted", ports[:1], ports[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "converted.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def terminal(monkeypatch):
    """Sets how wide the terminal is that commands believe to write to."""

    def set_width(width: int) -> None:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("COLUMNS", str(width))

    return set_width


@pytest.fixture
def hasty(monkeypatch):
    """Limits of the machine that are measured in no time."""
    for name, value in (("_ROUND_SECONDS", 1e-5), ("_ROUNDS", 2), ("_LEAST_MEMORY", 1 << 16)):
        monkeypatch.setattr(f"weft.runtime.limits.{name}", value)
    monkeypatch.setattr("weft.runtime.limits.cache_sizes", lambda: (("L1", 8 << 10),))


def lines_of(terminal, width: int, *arguments: object) -> list[str]:
    terminal(width)
    lines = good(*arguments).splitlines()
    assert max(map(len, lines)) <= width
    return lines


def rows_of(lines: list[str]) -> list[str]:
    """The rows of the first table, without its heading."""
    ends = [place for place, line in enumerate(lines) if not line or line.startswith("(not")]
    return lines[1 : ends[0] if ends else None]


@pytest.mark.parametrize("width", WIDTHS)
def test_stats(model, terminal, width):
    rows = rows_of(lines_of(terminal, width, "stats", model))
    assert len(rows) == 2 * LAYERS
    names = [row.split()[0] for row in rows]
    assert names[::2] == [f"model/depthwise_conv2d_{n}/BiasAdd1_" for n in range(LAYERS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("width", WIDTHS)
def test_plan(model, terminal, width):
    lines = lines_of(terminal, width, "plan", model, "--table")
    rows = rows_of(lines)
    assert [row.split()[0] for row in rows] == [str(step) for step in range(len(rows))]
    assert len(rows) == len(record("plan", model)["rows"])
    assert sum("BiasAdd1" in row for row in rows) >= LAYERS


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.usefixtures("hasty")
def test_bench_layers(model, terminal, width):
    rows = rows_of(lines_of(terminal, width, "bench", model, "--layers", "--seconds", 0.01))
    *steps, total = rows
    assert [row.split()[0] for row in steps] == [str(step) for step in range(len(steps))]
    assert total.strip().startswith(f"{len(steps)} steps")


@pytest.mark.parametrize("width", WIDTHS)
def test_bench(model, terminal, width):
    rows = rows_of(lines_of(terminal, width, "bench", model, "--seconds", 0.01))
    assert [row.split()[-1][:1].isdigit() for row in rows] == [True, True]


@pytest.mark.parametrize("width", WIDTHS)
def test_impls(model, terminal, width):
    lines = lines_of(terminal, width, "impls", model)
    rows = rows_of(lines)
    assert len(rows) == len(record("impls", model)["layers"])
    # A node may be asked for by the name that it is shown by.
    node = "model/depthwise_conv2d_0/BiasAdd1_"
    assert f"nodes: {node}" in "\n".join(lines_of(terminal, width, "impls", f"{model}:{node}"))


@pytest.mark.parametrize("width", WIDTHS)
def test_compare(model, terminal, width):
    models = [model] * 9
    lines = lines_of(terminal, width, "compare", *models, "--seconds", 0.01)
    assert len(rows_of(lines)) == len(models)
    assert [row.split()[0] for row in rows_of(lines)][:2] == ["converted", "converted"]
    start = next(place for place, line in enumerate(lines) if line.startswith("op "))
    assert [row.split()[0] for row in rows_of(lines[start:])] == ["Conv", "Sigmoid"]


@pytest.mark.parametrize("width", WIDTHS)
def test_show(model, terminal, width):
    graph = load(model).simplified().graph
    lines = lines_of(terminal, width, "show", model, "--after", "fold")
    nodes = [line for line in lines if " = " in line and "const" not in line]
    assert len(nodes) == len(graph.nodes)
    assert "model/depthwise_conv2d_0/BiasAdd1" in "\n".join(lines)


def test_the_c_names_layers_and_weights_by_their_last_part(model):
    text = good("show", model, "--after", "c", "--target", "generic")
    assert "layer model/depthwise_conv2d_0/BiasAdd1_" in text
    assert "float w_model_depthwise_conv2d_0_BiasAdd1_bias[4]" in text
    # But for the output, whose name is the model's.
    output = f"{converted(LAYERS - 1)}:0"
    long = [line for line in text.splitlines() if "ReadVariableOp" in line]
    assert long
    assert all("resource1_0" in line or output in line for line in long)


def test_files_hold_everything(model, terminal):
    whole = good("show", model)
    assert converted(0) in whole
    assert "…" not in whole
    terminal(80)
    assert good("show", model, "--wide") == whole
    table = good("stats", model, "--wide")
    assert "(not shown" not in table
    assert "intensity" in table
    assert "model/depthwise_conv2d_0/BiasAdd1_" in table
    names = [each["name"] for each in record("stats", model)["layers"]]
    assert names[0] == f"{converted(0)}_"


def test_a_terminal_itself(model):
    """Not what is believed to be one: a pseudo-terminal that is 80 letters wide."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment |= {"TERM": "xterm"}
    started = subprocess.Popen(
        [sys.executable, "-c", "from weft.cli import main; main()", "stats", str(model)],
        stdin=follower,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    os.close(follower)
    found = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        found += part
    os.close(leader)
    assert started.wait() == 0
    lines = found.decode().replace("\x1b[0m", "").replace("\x1b[1m", "").splitlines()
    assert max(map(len, lines)) <= 80
    assert len(rows_of(lines)) == 2 * LAYERS


# --- the layout -----------------------------------------------------------------------------

ROWS = [
    ("model/conv2d_1/Conv2D1__89", "Conv", "1,234,567", "12"),
    ("scores", "ReduceMax + Sub + Exp + ReduceSum + Div", "7", "3"),
]
HEADINGS = ("node", "does", "MACs", "live")


def test_what_fits_is_written_whole():
    lines, gone = Columns(HEADINGS, ROWS, (2, 3), ("does",)).fitted(200)
    assert lines == [
        "node                        does                                          MACs  live",
        "model/conv2d_1/Conv2D1__89  Conv                                     1,234,567    12",
        "scores                      ReduceMax + Sub + Exp + ReduceSum + Div          7     3",
    ]
    assert gone == []


def test_text_loses_its_middle_before_columns_go():
    lines, gone = Columns(HEADINGS, ROWS, (2, 3), ("live",)).fitted(66)
    assert lines == [
        "node                        does                        MACs  live",
        "model/conv2d_1/Conv2D1__89  Conv                   1,234,567    12",
        "scores                      Reduce…educeSum + Div          7     3",
    ]
    assert gone == []
    lines, gone = Columns(HEADINGS, ROWS, (2, 3), ("live", "does")).fitted(50)
    assert gone == ["does", "live"]
    assert lines[1] == "model/conv2d_1/Conv2D1__89  1,234,567"


def test_numbers_are_never_cut():
    columns = Columns(("", *"abcdefgh"), [("name", *["1,000,000"] * 8)], range(1, 9))
    for width in range(12, 120):
        lines, gone = columns.fitted(width)
        assert max(map(len, lines)) <= max(width, 6)
        assert lines[1].split()[1:] == ["1,000,000"] * (8 - len(gone))


def test_prose_is_broken_between_words():
    rows = [("gemm", "Matrix products by tiles of registers, packed where that pays.")]
    lines, gone = Columns(("name", "what"), rows, (), prose=True).fitted(34)
    assert lines == [
        "name  what",
        "gemm  Matrix products by tiles of",
        "      registers, packed where that",
        "      pays.",
    ]
    assert gone == []


def test_wide_letters_count_twice():
    lines, _ = Columns(("name", "n"), [("畳み込み層の名前" * 3, "1")], (1,)).fitted(20)
    assert lines[1].endswith("  1")
    assert lines[1].startswith("畳み")
