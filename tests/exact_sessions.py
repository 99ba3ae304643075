"""Options under which onnxruntime's results for quantized files are exact."""

from __future__ import annotations

import onnxruntime

from weft.targets.find import features

VNNI = "avx512_vnni" in features()

WEIGHT = 127 if VNNI else 63
"""The largest int8 weight with which onnxruntime's sums are exact on this machine.

Without VNNI it saturates sums of two products that do not fit 16 bits.
"""


def exact_options() -> onnxruntime.SessionOptions:
    """Options for a session; without VNNI fused layers saturate sums of two products."""
    options = onnxruntime.SessionOptions()
    if not VNNI:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
