"""Every thorough test has its day."""

from __future__ import annotations

import pytest

from tests import turns


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(turns, "_run", turns._Run())  # pyright: ignore[reportPrivateUsage]


def test_each_has_one_day_in_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tests/test_{number}.py::test[{number}]" for number in range(300)]
    days: list[set[str]] = []
    for day in range(3):
        monkeypatch.setenv(turns.TURN, str(day))
        turns.run_a_part(3)
        days.append({name for name in names if turns.thorough(name)})
        assert f"{turns.TURN}={day}" in turns.header()
    assert set.union(*days) == set(names)
    assert sum(map(len, days)) == len(names)
    assert min(map(len, days)) > 60


def test_neighbouring_days_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(turns.TURN, "")  # so that it is put back
    monkeypatch.delenv(turns.TURN)
    turns.run_a_part(2)
    assert turns.examples(80) == 40
    today = turns.thorough("a test")
    monkeypatch.setenv(turns.TURN, str(1 + int(turns.header()[-2])))
    turns.run_a_part(2)
    assert turns.thorough("a test") is not today


def test_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns.thorough("a test")
    assert turns.examples(80) == 80
    turns.leave_out_thorough()
    assert not turns.thorough("a test")
    assert (turns.examples(80), turns.examples(5)) == (13, 5)


def test_a_few_are_spread() -> None:
    made = turns.a_few([1, (2, 3), pytest.param(4, marks=pytest.mark.slow), 5], 2)
    assert [each.values for each in made] == [(1,), (2, 3), (4,), (5,)]
    marks = [[mark.name for mark in each.marks] for each in made]
    assert marks == [[], ["thorough"], ["slow"], ["thorough"]]
