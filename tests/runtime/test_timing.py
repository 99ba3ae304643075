"""Runs are timed from C: what is called, how often, and with what."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.plan.nets import Net
from weft.errors import InternalError
from weft.kernels.selection import implementer
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.runtime.timing import (
    Loop,
    Timer,
    from_c,
    from_python,
    loop_over,
    measure,
    microseconds,
    summary,
)
from weft.targets.find import target

_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def counting(codes):
    """A run function of two pointers that notes its calls, and its address."""
    calls = []

    @_RUN
    def run(first, second):
        calls.append((first, second))
        return codes[min(len(calls), len(codes)) - 1]

    return calls, run, ctypes.cast(run, ctypes.c_void_p).value


def test_the_loop_is_in_c_and_calls_as_often_as_it_is_told():
    calls, run, address = counting([0])
    loop = Loop(address, [16, 32], run)
    times = loop.nanoseconds(5, 3)
    assert calls == [(16, 32)] * 15
    assert len(times) == 3
    assert all(each > 0 for each in times)
    assert loop.timer.called_from == "C"


def test_a_run_that_fails_ends_the_loop():
    calls, run, address = counting([0, 0, -2])
    with pytest.raises(InternalError, match="a run that is timed returned -2"):
        Loop(address, [16, 32], run).nanoseconds(5, 3)
    assert len(calls) == 3


@pytest.fixture(scope="module")
def doubling():
    """A network that doubles ten numbers."""
    net = Net()
    x = net.input(10)
    plan = make(net.graph(net.op("Add", x, x)), OPS, implementer(target("host")))
    return build(lower(plan))


def test_a_network_is_called_with_its_own_arguments(doubling):
    x = np.arange(10, dtype=np.float32)
    loop, (out,) = loop_over(doubling, [x])
    out[:] = 0
    loop.nanoseconds(1, 1)
    np.testing.assert_array_equal(out, 2 * x)
    kept = loop.record(out, 4)
    np.testing.assert_array_equal(kept, [2 * x] * 4)


def test_figures_of_batches():
    timer = Timer("C", lambda runs, batches: [1000 * runs * (n + 1) for n in range(batches)])
    found = summary(timer, timer.micros(7, 5), 7)
    assert (found.called_from, found.least, found.median, found.runs) == ("C", 1.0, 3.0, 35)
    assert found.most == pytest.approx(4.8)


def test_short_runs_are_timed_by_the_batch():
    assert Timer("C", lambda runs, batches: [100 * runs] * batches).batch(1e-3) == 10_000
    assert Timer("C", lambda runs, batches: [2_000_000 * runs] * batches).batch(1e-3) == 1


def test_from_c_and_from_python(doubling):
    x = np.zeros(10, np.float32)
    calls = []
    for timer in (from_c(doubling, [x]), from_python(lambda: calls.append(doubling(x)))):
        found = measure(timer, 0.001)
        assert found.runs >= 5
        assert 0 < found.least <= found.median <= found.most
    assert len(calls) >= found.runs


def test_times_have_decimals_that_say_something():
    assert [microseconds(value) for value in (0.0073, 0.41, 6.84, 153.42, 30_000.0)] == [
        "0.007",
        "0.410",
        "6.84",
        "153.4",
        "30,000.0",
    ]
    assert microseconds(0.05, 153.0) == "0.1"
