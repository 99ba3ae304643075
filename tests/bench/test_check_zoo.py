"""Which exported networks are checked."""

from __future__ import annotations

from pathlib import Path

from bench.check_zoo import Case, cases


def test_broken_off_exports_are_passed_over(tmp_path: Path) -> None:
    for name in (".17.gpt2.ts.onnx", "lstm.ts.onnx", "lstm.ts-batch.onnx", "vgg16.ts.onnx"):
        (tmp_path / name).write_bytes(b"")
    found = list(cases(tmp_path, ["lstm"]))
    assert found == [
        Case(tmp_path / "lstm.ts-batch.onnx", 1),
        Case(tmp_path / "lstm.ts-batch.onnx", 3),
        Case(tmp_path / "lstm.ts.onnx", 0),
    ]
