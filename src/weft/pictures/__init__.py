"""Pictures of graphs and plans.

``draw`` is imported at its first use: maps of memory, drawn for toolkits, do without.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.pictures.file import write_picture
    from weft.pictures.picture import Format, draw, draw_plan
    from weft.pictures.planned import PlanLevel

__all__ = ["Format", "PlanLevel", "draw", "draw_plan", "write_picture"]

__getattr__ = deferred(
    __name__,
    {
        "Format": "weft.pictures.picture",
        "PlanLevel": "weft.pictures.planned",
        "draw": "weft.pictures.picture",
        "draw_plan": "weft.pictures.picture",
        "write_picture": "weft.pictures.file",
    },
)
