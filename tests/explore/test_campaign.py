"""The statistics of campaigns, and their table, record and picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from weft.explore.campaign import Campaign, Cell, Trial, clustered, wilson


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [
        # Newcombe (1998), table I, method 3: 81/263, 15/148, 0/20, 1/29.
        (81 / 263, 263, 0.2553, 0.3662),
        (15 / 148, 148, 0.0624, 0.1605),
        (0.0, 20, 0.0, 0.1611),
        (1 / 29, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_published_intervals(share, count, low, high):
    found = wilson(share, count)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    mirrored = wilson(1 - share, count)
    assert mirrored.low == pytest.approx(1 - high, abs=1e-4)
    assert mirrored.high == pytest.approx(1 - low, abs=1e-4)


def test_samples_of_one_trial_are_not_independent():
    same = clustered([1.0, 0.0] * 10, 100)
    assert (same.value, same.count) == (0.5, 20.0)
    spread = clustered([0.5, 0.4, 0.6, 0.5] * 5, 100)
    assert spread.count > 500
    assert same.high - same.low > 3 * (spread.high - spread.low)
    assert clustered([0.25], 100) == wilson(0.25, 100)


def campaign() -> Campaign:
    def cell(layer: str, *changed: int) -> Cell:
        trials = tuple(Trial(n, each, 10 - each, 0) for n, each in enumerate(changed))
        return Cell({"count": "1"}, layer, 10, trials)

    return Campaign("net", "fault-weights", 1.0, (cell("", 0, 5),), (cell("w<1>", 9, 9),), 1, 2.0)


def test_the_table_and_the_record_agree():
    found = campaign()
    assert found.headings() == (
        "parameters",
        "layer",
        "trials",
        "predictions changed",
        "trials with a change",
        "invalid",
        "accuracy",
    )
    first, second = found.rows()
    assert first[:3] == ("count=1", "all", "2")
    assert first[3].startswith("25.00% [")
    assert first[4].startswith("50.00% [")
    assert first[6].startswith("75.00% [")
    assert second[:3] == ("count=1", "w<1>", "2")
    assert found.summary() == (
        "fault-weights on net: 4 trials on 1 build, 2 trials/s, accuracy 100.00% without it; "
        "95 % intervals (Wilson)"
    )
    record = found.record()
    assert record["trials_per_second"] == 2.0
    assert record["cells"][0]["trials"][1] == {"seed": 1, "changed": 5, "correct": 5, "invalid": 0}
    assert repr(found).startswith("Campaign\n")


def test_the_picture_shows_layers_with_their_intervals():
    picture = campaign().plot()
    root = ET.fromstring(picture)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "fault-weights count=1 on net" in texts
    assert any(each.startswith("w<1>") for each in texts)
    assert "90.00%" in texts
