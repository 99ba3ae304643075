"""oneDNN's convolutions and matrix products as a generator of kernels for Weft."""

from weft_onednn.calls import GENERATOR

__all__ = ["GENERATOR"]
