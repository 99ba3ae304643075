"""Plugins: parts of Weft that other distributions bring, found by their entry points."""

from weft.plugins.discover import Kind, Plugin, found, refresh
from weft.plugins.registry import Failed, Lazy, Loaded, Table, Unusable, called

__all__ = [
    "Failed",
    "Kind",
    "Lazy",
    "Loaded",
    "Plugin",
    "Table",
    "Unusable",
    "called",
    "found",
    "refresh",
]
