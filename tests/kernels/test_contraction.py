"""One analysis of a task for all generators: its windows, and how often it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.tasks import tasks_of
from tests.plan.nets import Net
from weft.kernels import contraction
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.refusal import Refusal
from weft.kernels.selection import alternatives
from weft.kernels.task import Task
from weft.loops.nodes import Var


def convolution(**options: int) -> Task:
    net = Net()
    made = net.conv(net.input(2, 16, 9, 11), 32, **options)
    return tasks_of(net, made, machine="x86-avx512")[0]


def test_it_runs_once_for_all_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Task] = []
    analyzed = contraction._analyzed

    def counted(task: Task) -> Contraction | Refusal:
        seen.append(task)
        return analyzed(task)

    monkeypatch.setattr(contraction, "_analyzed", counted)
    task = convolution()
    assert len(alternatives(task)) > 4
    assert seen == [task]
    # Generators for any number of threads are asked as for one.
    task = convolution()
    seen.clear()
    alternatives(replace(task, threads=2))
    assert [each.threads for each in seen] == [2, 1]


def test_windows_of_a_convolution() -> None:
    found = contraction_of(convolution(kernel=3, stride=2, dilation=2, pad=1))
    assert isinstance(found, Contraction)
    assert found.image is not None
    windows = [each for each in found.windows if each and each.tap]
    assert [(each.stride, each.dilation, each.before) for each in windows] == [(2, 2, 1)] * 2
    assert [each.behind for each in windows] == [1, 1]
    assert [each.size for each in windows] == [9, 11]
    assert [each.inside(0, tap) for each in windows for tap in range(3)] == [False, True, True] * 2
    ((place, axis),) = found.channels()
    assert found.image.index[place] == Var(axis.var)
    assert axis.extent == 16
    (batch,) = [each for each in found.windows if each and not each.tap]
    assert batch.whole
    assert found.guarded_by_borders(windows)
    assert not found.guarded_by_borders(windows[:1])
    assert not found.guarded_by_borders([replace(each, before=2) for each in windows])
