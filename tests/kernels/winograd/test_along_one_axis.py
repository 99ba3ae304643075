"""Winograd convolution of sounds: how long the sums of its products are, and what they round."""

from __future__ import annotations

import numpy as np

from tests.kernels.tasks import computed, memory_of, tasks_of
from tests.plan.nets import Net
from weft.kernels import nest
from weft.kernels.winograd.choice import generate_as
from weft.loops.nodes import For
from weft.loops.statements import walk_stmts


def test_sums_of_windows_along_one_axis_are_blocks_as_long_as_direct_ones() -> None:
    """Their rounding grows once: through 64 channels it stays near that of a plain sum."""
    net = Net()
    sound = net.op("Relu", net.conv(net.input(1, 2, 49), 64, kernel=1, pad=0))
    last = net.op("Relu", net.conv(sound, 32, kernel=2, pad=0))
    task = tasks_of(net, net.conv(last, 2, kernel=1, pad=0), machine="x86-avx512")[1]
    made = generate_as(task, 4, 12)
    assert made is not None
    assert "part" not in {
        each.var for each in walk_stmts(made.kernel.body) if isinstance(each, For)
    }
    memory = memory_of(task)
    exact = {name: array.astype(np.float64) for name, array in memory.items()}
    image, weights, bias = (exact[value] for value in task.values)
    rows, filters = image.reshape(49, 64), weights.reshape(32, 64, 2)
    wanted = rows[:-1] @ filters[..., 0].T + rows[1:] @ filters[..., 1].T + bias.reshape(-1)

    def error(found: np.ndarray) -> float:
        return float(np.sqrt(np.mean((found.reshape(48, 32) - np.maximum(wanted, 0)) ** 2)))

    plain = error(computed(task, nest.generate(task), memory))
    assert error(computed(task, made, memory)) < 1.6 * plain
