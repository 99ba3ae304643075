"""Stages that the benchmark of second processes times."""

from __future__ import annotations

import pkgutil

import pytest

pytest.importorskip("torch")

from bench import torch_start


@pytest.mark.parametrize("path", torch_start.STAGES.values())
def test_the_stages_are_functions_of_weft(path: str):
    assert callable(pkgutil.resolve_name(path))
