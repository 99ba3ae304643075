"""The textual form of a graph: ``parse(show(graph), ...) == graph``.

Weights are references (name, type, short hash of the content); constants of a few
elements are printed.
"""

from __future__ import annotations

from weft.ir.parser import AttributeClass, parse
from weft.ir.printer import references, show
from weft.ir.unknown import digest

__all__ = ["AttributeClass", "digest", "parse", "references", "show"]
