"""Pictures of graphs."""

from weft.pictures.picture import draw

__all__ = ["draw"]
