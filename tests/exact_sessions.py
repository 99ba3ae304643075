"""Options under which onnxruntime's results for quantized files are exact."""

from __future__ import annotations

import onnxruntime

from weft.targets.find import features


def exact_options() -> onnxruntime.SessionOptions:
    """Options for a session; without VNNI fused layers saturate sums of two products."""
    options = onnxruntime.SessionOptions()
    if "avx512_vnni" not in features():
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
