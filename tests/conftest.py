"""Where tests find what is not in the repository, and how many examples they draw.

What is absent is skipped, and the reason said.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
FEWER = 4
"""Without the thorough tests, properties are tried on one example in so many, ..."""
LEAST = 20
"""... but on so many at least, if they have them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draws fewer examples where thorough tests are left out."""
    if "not thorough" not in config.option.markexpr:
        return
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > LEAST:
            count = max(LEAST, own.max_examples // FEWER)
            # Of a method the attribute is its function's.
            function = getattr(test, "__func__", test)
            function._hypothesis_internal_use_settings = settings(own, max_examples=count)


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
