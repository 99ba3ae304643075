"""Pictures of graphs.

``draw`` is imported at its first use: maps of memory, drawn for toolkits, do without.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.pictures.file import write_picture
    from weft.pictures.picture import Format, draw

__all__ = ["Format", "draw", "write_picture"]

__getattr__ = deferred(
    __name__,
    {
        "Format": "weft.pictures.picture",
        "draw": "weft.pictures.picture",
        "write_picture": "weft.pictures.file",
    },
)
