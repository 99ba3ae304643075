"""Layers of Keras that are not imported, and why."""

from __future__ import annotations

from collections.abc import Mapping

_TEXT = "it works on text or hashes of text (of integers, too); do that before the network"
_HISTOGRAM = "it looks at a whole image's histogram; do that before the network"
_FOREIGN = "what it computes is in another framework's code"

REASONS: Mapping[str, str] = {
    "AutoContrast": _HISTOGRAM,
    "ContrastLimitedAdaptiveHistogramEqualization": _HISTOGRAM,
    "Equalization": _HISTOGRAM,
    "FlaxLayer": _FOREIGN,
    "HashedCrossing": _TEXT,
    "Hashing": _TEXT,
    "JaxLayer": _FOREIGN,
    "Lambda": "it holds Python code, which is not executed",
    "MaxNumBoundingBoxes": "it prepares training data",
    "Pipeline": "it holds preprocessing outside of the network",
    "RandomCrop": "it crops or resizes by the input's size, also in inference",
    "ReversibleEmbedding": "it is called in two ways that files do not tell apart",
    "Solarization": "it augments training data",
    "StringLookup": _TEXT,
    "TFSMLayer": _FOREIGN,
    "TextVectorization": _TEXT,
    "TorchModuleWrapper": _FOREIGN,
    "Wrapper": "it is a base class; its call is Python code",
}
"""By the name of a layer's class."""
