"""Builds leave no cycles of references that hold weights until Python looks for them."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np

import weft
from tests.models.tiny import FOLDER, needed
from weft import layers, ops
from weft.frontends.keras import importer
from weft.frontends.source import read
from weft.kernels.task import Task


def left_behind(work: Callable[[], object], *kinds: type) -> list[object]:
    """Objects of some classes that only a search for cycles would free after some work."""
    gc.collect()
    gc.disable()
    try:
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return [each for each in gc.garbage if isinstance(each, kinds)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_tasks_with_their_weights_go_with_the_build() -> None:
    stem = [layers.Conv(32, 3, padding=1), ops.relu, layers.Conv(32, 3, padding=1), ops.relu]
    head = [layers.MaxPool(2), layers.Conv(32, 1), ops.softmax]
    net = weft.trace(weft.sequential([*stem, *head]), "f32[1,8,24,24]")

    def work() -> None:
        assert np.isfinite(net.compile()(np.ones((1, 8, 24, 24), np.float32))).all()

    assert left_behind(work, Task) == []


@needed
def test_arrays_of_keras_go_with_the_import() -> None:
    kinds = importer._Import, importer.Tensor
    assert left_behind(lambda: read(FOLDER / "ic.h5", {}, {}), *kinds) == []
