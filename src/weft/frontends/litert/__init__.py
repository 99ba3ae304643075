"""LiteRT (TensorFlow Lite) files to graphs.

The schema's package and the rows are imported when a file is read.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.frontends.litert.loading import load, states
    from weft.frontends.litert.reading import NoModelError
    from weft.frontends.litert.session import Session, has_interpreter

__all__ = ["NoModelError", "Session", "has_interpreter", "load", "states"]

__getattr__ = deferred(
    __name__,
    {
        "NoModelError": "weft.frontends.litert.reading",
        "Session": "weft.frontends.litert.session",
        "has_interpreter": "weft.frontends.litert.session",
        "load": "weft.frontends.litert.loading",
        "states": "weft.frontends.litert.loading",
    },
)
