"""Limits: what bounds a step, and that measured figures are kept."""

from __future__ import annotations

import pytest

from weft.plan.stats import Work
from weft.plan.traffic import Traffic
from weft.runtime.cache import Cache
from weft.runtime.limits import Level, Limits, cache_sizes, limits
from weft.targets.find import target

LEVELS = (Level("L1", 1000, 100.0), Level("L2", 10_000, 50.0), Level("DRAM", 0, 10.0))
LIMITS = Limits("a processor", 64, 1, 200.0, LEVELS)


def step(sizes: dict[str, int], distances: dict[str, int]) -> Traffic:
    return Traffic(Work(), sizes, {}, distances)


@pytest.mark.parametrize(
    ("distance", "size", "flops", "expected"),
    [
        (0, 500, 10**9, (5000.0, "compute")),  # 1e9 operations at 200e9 a second
        (0, 500, 0, (0.005, "L1")),  # 500 bytes at 100e9 a second
        (600, 500, 0, (0.005, "L1")),  # 400 of them are still there
        (800, 900, 0, (0.014, "L2")),  # 700 are no longer in L1
        (20_000, 500, 0, (0.05, "DRAM")),
    ],
)
def test_the_nearest_memory_that_still_holds_an_operand(distance, size, flops, expected):
    found = LIMITS.bound(step({"a": size}, {"a": distance}), flops)
    assert found == (pytest.approx(expected[0]), expected[1])


def test_what_comes_from_afar_passes_the_levels_before():
    sizes = {"near": 900, "far": 1000}
    found = LIMITS.bound(step(sizes, {"near": 0, "far": 5000}), 0)
    # L1: 1900 bytes at 100; L2: 1000 bytes at 50.
    assert found == (pytest.approx(0.02), "L2")


def test_results_in_place_are_not_moved_twice():
    assert Traffic(Work(), {"a": 4000}, {"b": 4000}, {"a": 0}, 0).beyond(1000) == 3000
    assert Traffic(Work(), {"a": 4000}, {"b": 4000}, {"a": 0}, 4000).beyond(1000) == 6000


def test_the_better_figures_stay():
    slow = Limits("a processor", 64, 1, 100.0, (LEVELS[0], Level("L2", 10_000, 70.0), LEVELS[2]))
    found = LIMITS.better(slow)
    assert found.gflops == 200.0
    assert [level.gbytes for level in found.levels] == [100.0, 70.0, 10.0]


def test_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.runtime.limits._ROUND_SECONDS", 1e-5)
    monkeypatch.setattr("weft.runtime.limits._ROUNDS", 2)
    monkeypatch.setattr("weft.runtime.limits.cache_sizes", lambda: (("L1", 8 << 10),))
    monkeypatch.setattr("weft.runtime.limits._LEAST_MEMORY", 1 << 16)
    cache = Cache(tmp_path)
    first = limits(target("host"), 2, cache=cache)
    assert (first.threads, [level.name for level in first.levels]) == (2, ["L1", "DRAM"])
    assert first.gflops > 0
    assert all(level.gbytes > 0 for level in first.levels)
    assert limits(target("host"), 2, cache=cache) == first
    again = limits(target("host"), 2, cache=cache, again=True)
    assert again.gflops >= first.gflops
    assert limits(target("host"), 2, cache=cache) == again


def test_caches_grow_with_distance():
    sizes = [size for _, size in cache_sizes()]
    assert sizes == sorted(sizes)
    assert sizes[0] > 0
