"""``weft precision`` and ``--precision``: the report by layer, plans, what verify allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import good, record, weft
from weft.errors import UserError
from weft.options import Options


def test_the_report(digits: Path) -> None:
    given = ("--samples", "digits", "--limit", "20", "--max-drop", "0")
    found = record("precision", digits, *given)
    assert (found["precision"], found["samples"], found["keep_float32"]) == ("bfloat16", 20, [])
    assert all(40 < each["sqnr"] < 60 for each in found["layers"])
    half = record("precision", digits, *given, "--precision", "fp16")
    assert half["precision"] == "float16"
    assert half["output"] > found["output"] + 12
    text = good(
        "precision", digits, *given, "--precision", "bf16", "--keep-float32", "/head/head.1/Gemm"
    )
    assert text.rstrip().endswith("in float32: /head/head.1/Gemm")


def test_a_plan_records_the_precision(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.plan"
    keep = ("--keep-float32", "/head/head.1/Gemm")
    good("plan", digits, "--target", "generic", "--precision", "bf16", *keep, "-o", path)
    text = path.read_text(encoding="utf-8")
    assert 'precision="bfloat16", keep_float32=("/head/head.1/Gemm",)' in text
    assert ": bf16[" in text
    assert good("plan", digits, "--plan", path) == text
    result = weft("plan", digits, "--plan", path, "--precision", "fp16")
    assert result.stderr.startswith("error: precision is fixed by the given plan")


def test_tiles_that_round_more_are_taken_behind_a_limit(digits: Path, tmp_path: Path) -> None:
    def tiles(*limit: str) -> list[str]:
        text = good("impls", f"{digits}:cast_14", *given, *limit)
        rows = (line.split(maxsplit=4) for line in text.splitlines() if "  winograd-" in line)
        return [f"{row[1]} {row[4]}" for row in rows]

    given = ("--target", "zen4", "--precision", "bf16")
    assert tiles() == [
        "winograd-f4-1 not allowed: error 1.13%",
        "winograd-f2-4 error 0.39%",
        "winograd-f3-4 not allowed: error 0.67%",
    ]
    assert tiles("--max-rounding", "0.012")[0] == "winograd-f4-1 chosen, error 1.13%"
    path = tmp_path / "fast.plan"
    limit = ("--max-rounding", "0.012")
    good("plan", digits, *given, *limit, "-o", path)
    text = path.read_text(encoding="utf-8")
    assert 'precision="bfloat16", max_rounding=0.012' in text
    assert "winograd-f4-1 1178 cycles sums winograd-4 error 0.011\n" in text
    assert good("plan", digits, "--plan", path) == text
    result = weft("plan", digits, "--plan", path, "--max-rounding", "0.02")
    assert result.stderr.startswith("error: max_rounding is fixed by the given plan")


def test_verify_allows_what_rounding_costs(digits: Path) -> None:
    against = ("--against", "reference", "--runs", "0")
    found = record("verify", digits, *against, "--precision", "bf16")
    assert found["passed"]
    assert found["tolerance"] == 0.05
    assert found["worst"] > 1e-3
    assert record("verify", digits, *against)["tolerance"] == 1e-4


def test_libraries_take_precision_and_limit(digits: Path, tmp_path: Path) -> None:
    out, given = tmp_path / "lib", ("--target", "zen4", "--precision", "bf16")
    good("deploy", digits, "-o", out, *given)
    usual = (out / "src" / "digits.c").read_text(encoding="utf-8")
    good("deploy", digits, "-o", out, *given, "--max-rounding", "0.012")
    assert (out / "src" / "digits.c").read_text(encoding="utf-8") != usual


def test_a_negative_limit_of_rounding() -> None:
    with pytest.raises(UserError) as error:
        Options(max_rounding=-1)
    rule = "max_rounding must be a number of at least 0, such as 0.012"
    assert str(error.value) == f"{rule}; got -1"


def test_an_unknown_precision() -> None:
    with pytest.raises(UserError) as error:
        Options(precision="bfloat")
    assert str(error.value) == (
        "precision must be one of float32, bfloat16, float16; got 'bfloat'. "
        "Did you mean bfloat16 or float32 or float16?"
    )
    with pytest.raises(UserError) as error:
        Options(precision="fp16", encoding="int8")
    assert str(error.value) == (
        "encoding and precision exclude each other: each says how weights are stored; "
        "got int8 and float16"
    )
