"""Kernels cut into parts however small they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.loops.nodes import Kernel
from weft.plan.work import parts_of
from weft.targets.target import Costs


def cut_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a cycle of work enough for a part."""

    def parts(kernel: Kernel, threads: int, costs: Costs) -> tuple[int, ...]:
        return parts_of(kernel, threads, replace(costs, part=1.0))

    monkeypatch.setattr("weft.plan.lowering.parts_of", parts)
