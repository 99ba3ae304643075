"""The oracle ladder over the op table: reference = loops = expansion = infer."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.ops import compute
from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Attributes, Graph, Node
from weft.ir.types import TensorType
from weft.ops.evaluate import evaluate_in_double
from weft.ops.record import Control, Expand
from weft.ops.table import OPS

MODULES = [
    importlib.import_module(f"tests.ops.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("samples_*.py"))
]
SAMPLES: list[Sample] = [sample for module in MODULES for sample in module.SAMPLES]
BAD: list[Bad] = [sample for module in MODULES for sample in module.BAD]
TYPES: list[Typed] = [sample for module in MODULES for sample in module.TYPES]
_FIRST = {id(sample) for sample in {each.op: each for each in reversed(SAMPLES)}.values()}


def in_part(samples: Sequence[Sample]) -> list[ParameterSet]:
    """Parameters: `make test` takes the first sample of every op, and a third of the others."""
    return [
        pytest.param(
            sample,
            marks=() if place % 3 == 0 or id(sample) in _FIRST else pytest.mark.thorough,
        )
        for place, sample in enumerate(samples)
    ]


def reference(sample: Sample) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        results = OPS[sample.op].reference(sample.call, *sample.arrays)
    return [np.asarray(each) for each in results]


def assert_close(sample: Sample, got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if sample.tolerance == 0 or not want.size or want.dtype.kind in "biu":
        exact, other = got.astype(object), want.astype(object)
        unequal = (exact != other) & ~((exact != exact) & (other != other))
        assert not unequal.any(), f"got {got}, want {want}"
        return
    wide, target = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(target[np.isfinite(target)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(wide, target, rtol=0, atol=sample.tolerance * scale)


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_has_a_sample(name: str) -> None:
    assert any(sample.op == name for sample in SAMPLES)


@pytest.mark.parametrize("name", sorted(OPS))
def test_record_is_whole(name: str) -> None:
    op = OPS[name]
    assert issubclass(op.attributes, Attributes)
    assert op.doc.endswith(".")
    assert not any(param.variadic for param in op.inputs[:-1])


@pytest.mark.parametrize("sample", in_part(SAMPLES), ids=str)
def test_infer_agrees_with_reference(sample: Sample) -> None:
    assert isinstance(sample.attributes, OPS[sample.op].attributes)
    types = OPS[sample.op].infer(sample.call)
    found = [TensorType(DType.of(each.dtype), each.shape) for each in reference(sample)]
    assert found == list(types)


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.expected], ids=str)
def test_reference_agrees_with_what_is_known(sample: Sample) -> None:
    for got, want in zip(reference(sample), sample.expected, strict=True):
        np.testing.assert_allclose(
            got.astype(np.float64), np.asarray(want, np.float64), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize(
    "sample",
    in_part([each for each in SAMPLES if not isinstance(OPS[each.op].compute, Control)]),
    ids=str,
)
def test_computation_agrees_with_reference(sample: Sample) -> None:
    results = compute.run(OPS[sample.op], sample.call, sample.arrays)
    for got, want in zip(results, reference(sample)[: sample.outputs], strict=True):
        assert_close(sample, got, want)


@pytest.mark.parametrize(
    "sample", [each for each in SAMPLES if isinstance(OPS[each.op].compute, Expand)], ids=str
)
def test_expansion_agrees_with_reference(sample: Sample) -> None:
    results = compute.run_expansion(OPS[sample.op], sample.call, sample.arrays)
    for got, want in zip(results, reference(sample)[: sample.outputs], strict=True):
        assert_close(sample, got, want)


@pytest.mark.parametrize("sample", in_part(SAMPLES), ids=str)
def test_reference_computes_in_double_precision(sample: Sample) -> None:
    given = {f"in{place}": each for place, each in enumerate(sample.arrays)}
    arrays = {name: each for name, each in given.items() if each is not None}
    inputs = tuple(name if name in arrays else "" for name in given)
    outputs = tuple(f"out{place}" for place in range(sample.outputs))
    node = Node("node", sample.op, inputs, outputs, sample.attributes)
    types = {name: TensorType(DType.of(each.dtype), each.shape) for name, each in arrays.items()}
    types |= dict(zip(outputs, OPS[sample.op].infer(sample.call), strict=False))
    found = evaluate_in_double(Graph("one", tuple(arrays), outputs, (node,), types), arrays, OPS)
    for output, want in zip(outputs, reference(sample), strict=False):
        assert found[output].dtype == (np.float64 if want.dtype == np.float32 else want.dtype)
        with np.errstate(all="ignore"):
            assert_close(replace(sample, tolerance=1e-5), found[output].astype(want.dtype), want)


@pytest.mark.parametrize("sample", BAD, ids=str)
def test_bad_use_is_refused(sample: Bad) -> None:
    with pytest.raises(UserError) as caught:
        OPS[sample.op].infer(sample.call)
    assert str(caught.value) == sample.message


@pytest.mark.parametrize("sample", TYPES, ids=str)
def test_infer_alone(sample: Typed) -> None:
    types = OPS[sample.op].infer(sample.call)
    assert tuple(str(each) for each in types) == sample.expected
