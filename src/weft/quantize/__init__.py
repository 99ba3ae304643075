"""Quantization: graphs in floating point to standard graphs of QuantizeLinear and DequantizeLinear.

Schemes say which integers stand for numbers, calibrators find the range of what a network
computes, and ``insert_qdq`` writes both into a graph.

``weft.quantize`` is this package and the function that users call: Python gives a package the name
of its folder, so the package is callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from weft.deferred import later


class _Callable(ModuleType):
    """The package, which quantizes a net when it is called."""

    def __call__(self, net: Any, samples: Any, **keywords: Any) -> Any:
        """Quantizes a net after training: ``weft.api.quantized.quantize``."""
        return later("weft.api.quantized").quantize(net, samples, **keywords)


sys.modules[__name__].__class__ = _Callable
