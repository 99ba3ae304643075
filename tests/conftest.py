"""Where tests find what is not in the repository, and how many examples they draw.

What is absent is skipped, and the reason said.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.turns import leave_out_thorough

ROOT = Path(__file__).parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Tells tests, which are imported later, whether to try fewer examples."""
    if "not thorough" in config.option.markexpr:
        leave_out_thorough()


def pytest_collection_finish() -> None:
    """Spares the garbage collector the tests themselves: a tenth of all their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of trained public models: ``$WEFT_MODELS``, else beside the repository."""
    folder = Path(os.environ.get("WEFT_MODELS") or ROOT.parent / "shared" / "models")
    if not folder.is_dir():
        pytest.skip(f"the trained public models are not at {folder} (or $WEFT_MODELS)")
    return folder


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of exported networks: ``$WEFT_ZOO``, else the user's cache."""
    folder = Path(os.environ.get("WEFT_ZOO") or Path.home() / ".cache" / "weft" / "zoo")
    if not folder.is_dir():
        pytest.skip(f"no exported networks at {folder} (or $WEFT_ZOO): run `make zoo-export`")
    return folder


@pytest.fixture(scope="session")
def digits() -> Path:
    """The small trained network of the demo."""
    return ROOT / "examples" / "digits" / "digits.onnx"
