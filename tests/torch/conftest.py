"""Tests inside PyTorch; they are skipped where it is not installed, unless WEFT_TORCH=required."""

import os

import pytest

if os.environ.get("WEFT_TORCH") == "required":
    import torch

collect_ignore_glob: list[str] = []
try:
    import torch  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]


@pytest.fixture(autouse=True)
def _seeded():
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
