"""A sample of the official ONNX tests; `make node-tests` runs them all through compiled C."""

from __future__ import annotations

import pytest

from tests.conformance.backends import BACKENDS
from tests.conformance.cases import Case, light_cases, model_cases, node_cases
from tests.conformance.check import DISPUTED, Outcome, check
from tests.conformance.report import report

COMPILED = """
add_bcast argmax_keepdims_example averagepool_2d_same_upper basic_conv_with_padding
batchnorm_epsilon cast_FLOAT_to_DOUBLE clip concat_3d_axis_1 convtranspose_pads cumsum_1d_reverse
depthtospace_example einsum_batch_matmul gather_elements_1 gelu_default_1_expanded
gemm_all_attributes gridsample_bicubic gru_with_initial_bias if instancenorm_epsilon
layer_normalization_4d_axis1 lstm_with_peepholes maxpool_2d_uint8 nllloss_NCd1d2_with_weight
onehot_with_axis qlinearmatmul_2D_uint8_float32 reduce_log_sum_exp_keepdims_random
resize_downsample_scales_cubic scan9_sum scatternd_add softmax_large_number
split_zero_size_splits_opset18 top_k_smallest transpose_all_permutations_4 where_example
""".split()


def outcome(case: Case, backend: str) -> Outcome:
    return check(case, BACKENDS[backend])


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str) -> None:
    case = node_cases().get(f"test_{name}")
    if case is None:
        pytest.skip("not among the tests of the installed onnx package")
    found = outcome(case, "compiled")
    assert (found.status, found.reason) == ("passed", "")


@pytest.mark.parametrize("part", range(8))
def test_references(part: int) -> None:
    """By the ops' references: nearly all pass, and nothing crashes."""
    cases = [each for each in list(node_cases().values())[part::24] if each.name not in DISPUTED]
    found = [outcome(case, "reference") for case in cases]
    assert [each for each in found if each.status == "failed"] == []
    assert sum(each.status in ("passed", "folded") for each in found) > 0.75 * len(found)


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator", "simple"])
def test_models(kind: str) -> None:
    """All pass but those of strings."""
    found = [outcome(case, "reference") for case in model_cases(kind).values()]
    odd = [each for each in found if each.status not in ("passed", "folded")]
    assert [each for each in odd if "element type STRING" not in each.reason] == []


def test_a_well_known_network() -> None:
    case = light_cases()["test_squeezenet"]
    assert outcome(case, "reference").status == "passed"


def test_report() -> None:
    """The page says what passed, what did not and why."""
    cases = node_cases()
    names = ("test_relu", "test_constant", "test_equal_string")
    page = report([outcome(cases[name], "reference") for name in names], "reference")
    assert "| node | 3 | 1 | 1 | 1 | 0 |" in page
    assert "| Relu | 1 | 1 | 0 | 0 | 0 |" in page
    assert "element type STRING is not supported" in page
