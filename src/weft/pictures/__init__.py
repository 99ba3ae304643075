"""Pictures of graphs."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.pictures.picture import draw

__all__ = ["draw"]


def __getattr__(name: str) -> object:
    """``draw`` is imported at its first use: maps of memory, drawn for toolkits, do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module("weft.pictures.picture"), name)
