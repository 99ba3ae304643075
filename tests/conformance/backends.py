"""The ways to run an imported test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.conformance.check import Backend, reference

BACKENDS: Mapping[str, Backend] = MappingProxyType({"reference": reference})
