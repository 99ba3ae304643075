"""``weft quantize``: files, the table, JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import good, weft
from weft.frontends.onnx import load

RNG = np.random.default_rng(1)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    images = RNG.uniform(0, 1, (6, 1, 8, 8)).astype(np.float32)
    np.savez(path, image=images, labels=np.arange(6))
    return path


def test_files_and_the_table(digits: Path, samples: Path, tmp_path: Path):
    out, page, svg = (tmp_path / name for name in ("q.onnx", "q.html", "q.svg"))
    result = good(
        *("quantize", digits, "--samples", samples, "-o", out, "--report", page, "--svg", svg),
        *("--weights", 4, "--bits", "/head/*=8", "--int4"),
    )
    lines = result.splitlines()
    assert lines[0].split() == ("layer op weight SQNR cosine alone weights input limit".split())
    assert lines[1].split()[:3] == ["/stem/stem.0/Conv", "Conv", "int4"]
    assert lines[6].split()[:3] == ["/head/head.1/Gemm", "Gemm", "int8"]
    assert lines[-3:] == [f"written: {path}" for path in (out, page, svg)]
    ops = [node.op for node in load(out).nodes]
    assert ops.count("QuantizeLinear") == 11
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert svg.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.thorough
def test_json(digits: Path, samples: Path, tmp_path: Path):
    out = tmp_path / "q.weft"
    result = good(
        *("quantize", digits, "--samples", samples, "-o", out, "--json", "--integer-io"),
        *("--keep-float", "/stem/stem.0/Conv", "--limit", 3, "--calibration", "mse"),
    )
    found = json.loads(result)
    assert found["samples"] == 3
    assert found["written"] == str(out)
    reasons = {each["name"]: each["reason"] for each in found["floats"]}
    assert reasons["/stem/stem.0/Conv"] == "kept in floating point on request"
    assert set(found["layers"][0]) == {
        *("name", "op", "bits", "sqnr", "cosine", "own", "weight", "data", "why")
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["-o", "q.txt"],
            "error: the output must be FILE.onnx or FILE.weft\n  got: q.txt\n",
        ),
        (
            ["-o", "q.onnx", "--report", "q.pdf"],
            "error: the report must be FILE.html\n  got: q.pdf\n",
        ),
        (
            ["-o", "q.onnx", "--bits", "conv"],
            "error: --bits takes NAME=BITS\n  got: conv\n  fix: --bits '*/conv1=8'\n",
        ),
        (
            ["-o", "q.onnx", "--keep-float", "/stem/stem.0/Conf"],
            "error: quantize: keep_float names no layer /stem/stem.0/Conf\n"
            "  fix: Did you mean /stem/stem.0/Conv or /stem/stem.2/Relu or /stem/stem.3/MaxPool?\n",
        ),
    ],
)
def test_refusals(digits: Path, samples: Path, options: list[str], message: str):
    result = weft("quantize", digits, "--samples", samples, *options)
    assert (result.exit_code, result.stderr) == (1, message)


def test_samples_of_another_shape(digits: Path, tmp_path: Path):
    path = tmp_path / "samples.npz"
    np.savez(path, image=np.zeros((4, 9, 9), np.float32))
    result = weft("quantize", digits, "--samples", path, "-o", tmp_path / "q.onnx")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: quantize: samples of input image must be f32[1,1,8,8], or several along the first "
        "axis\n  got: float32[4, 9, 9]\n",
    )
