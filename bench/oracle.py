"""What networks should give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime


def by_onnxruntime(path: Path, x: np.ndarray) -> np.ndarray:
    """onnxruntime's first output for one input."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])
