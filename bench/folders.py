"""Where networks lie that are not in the repository."""

from __future__ import annotations

import os
from pathlib import Path


def zoo_folder() -> Path:
    """The folder of networks that ``bench.zoo`` exported: ``$WEFT_ZOO``, or in the user's cache."""
    return Path(os.environ.get("WEFT_ZOO") or Path.home() / ".cache" / "weft" / "zoo")


def models_folder() -> Path:
    """The folder of trained public models: ``$WEFT_MODELS``, or beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "models"
    return Path(os.environ.get("WEFT_MODELS") or beside)
