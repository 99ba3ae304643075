"""Keras files to graphs: ``.keras`` and ``.h5``, read without Keras or TensorFlow.

h5py (``weft[keras]``) is imported when a file is read, Keras only to compare with it.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.frontends.keras.archive import NoModelError
    from weft.frontends.keras.importer import load, paired_states, states
    from weft.frontends.keras.live import is_model, load_live
    from weft.frontends.keras.session import Session, has_keras

__all__ = [
    "NoModelError",
    "Session",
    "has_keras",
    "is_model",
    "load",
    "load_live",
    "paired_states",
    "states",
]

__getattr__ = deferred(
    __name__,
    {
        "NoModelError": "weft.frontends.keras.archive",
        "Session": "weft.frontends.keras.session",
        "has_keras": "weft.frontends.keras.session",
        "is_model": "weft.frontends.keras.live",
        "load": "weft.frontends.keras.importer",
        "load_live": "weft.frontends.keras.live",
        "paired_states": "weft.frontends.keras.importer",
        "states": "weft.frontends.keras.importer",
    },
)
