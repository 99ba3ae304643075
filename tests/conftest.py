"""Where tests find what is not in the repository, and how many examples they draw.

What is absent is skipped, and the reason said.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from types import ModuleType
from zlib import crc32

import numpy as np
import pytest

from tests.turns import header, leave_out_thorough, run_a_part, thorough

ROOT = Path(__file__).parents[1]
_DRAWING: list[ModuleType] = []
"""Modules of tests that have a generator of random numbers, ``RNG``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough-parts",
        type=int,
        default=1,
        metavar="N",
        help="run one of N parts of the thorough tests, another one every day",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tells tests, which are imported later, whether to try fewer examples."""
    if "not thorough" in config.option.markexpr:
        leave_out_thorough()
    elif config.option.thorough_parts > 1:
        run_a_part(config.option.thorough_parts)


def pytest_report_header() -> str:
    """Says which tests are run, so that a run can be repeated."""
    return header()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the thorough tests whose turn it is not."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        late = item.get_closest_marker("thorough") and not thorough(item.nodeid)
        (left_out if late else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    """Notes which modules draw random numbers; spares the garbage collector the tests themselves.

    That saves a tenth of all time.
    """
    _DRAWING[:] = [each for name, each in list(sys.modules.items()) if _draws(name, each)]
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _draws(name: str, module: ModuleType) -> bool:
    drawn = vars(module).get("RNG")
    return name.startswith("tests.") and isinstance(drawn, np.random.Generator)


@pytest.fixture(autouse=True)
def _own_random_numbers(request: pytest.FixtureRequest) -> None:  # pyright: ignore[reportUnusedFunction]
    """Seeds ``RNG`` with the test's name: what it draws depends on no other test."""
    own = np.random.default_rng(crc32(request.node.name.encode()))
    for module in _DRAWING:
        vars(module)["RNG"] = own


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
