"""Random kernels: C computes what the interpreter does, whatever the compiler says to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen.harness import check
from tests.codegen.random_kernels import random_cases
from tests.turns import in_turn
from weft.codegen.flavours import FLAVOURS


@pytest.mark.parametrize(
    ("flavour", "first"), in_turn([(flavour,) for flavour in FLAVOURS], [0, 1000, 2000])
)
def test_random_kernels(flavour: str, first: int, tmp_path: Path) -> None:
    check(random_cases(first, 60), flavour, tmp_path)
