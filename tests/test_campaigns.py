"""Campaigns run on one build, and say what building each variant says."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.cli.commands import bad, good, record
from weft import campaigns
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    images = np.random.default_rng(3).random((5, 1, 8, 8), dtype=np.float32)
    return {"image": images, "labels": np.zeros(5, np.int64)}


def test_variants_on_one_build_are_the_variants_built_alone(digits, samples):
    net = weft.load(digits)
    values = {"count": 3, "bits": (30,)}
    found = weft.campaign(net, "fault-weights", trials=6, seed=7, data=samples, threads=1, **values)
    assert found.builds == 1
    images = [image[None] for image in samples["image"]]
    before = [int(net.reference(each)[0].argmax()) for each in images]
    for trial in found.cells[0].trials:
        variant = net.apply("fault-weights", seed=trial.seed, **values)
        scores = [variant.reference(each)[0] for each in images]
        after = [-1 if np.isnan(each).any() else int(each.argmax()) for each in scores]
        assert trial.changed == sum(a != b for a, b in zip(after, before, strict=True))
        assert trial.correct == sum(a == 0 for a in after)
    assert [trial.seed for trial in found.cells[0].trials] == [7, 8, 9, 10, 11, 12]
    assert any(trial.changed for trial in found.cells[0].trials)


def test_the_same_seed_gives_the_same_campaign(digits, samples):
    runs = [
        weft.campaign(digits, "noise-weights", grid={"sigma": [0.1, 1.0]}, trials=3, data=samples)
        for _ in range(2)
    ]
    assert runs[0].cells == runs[1].cells
    assert [each.text for each in runs[0].cells] == ["sigma=0.1", "sigma=1.0"]


def test_each_layer_alone(digits, samples):
    told: list[tuple[float, str]] = []
    found = weft.campaign(
        digits,
        "fault-weights",
        count=1,
        bits=(30,),
        trials=2,
        data=samples,
        per_layer=True,
        report=lambda done, what: told.append((done, what)),
    )
    assert found.builds == 1
    assert "head.1.weight" in [each.layer for each in found.layers]
    rates = [each.changed.value for each in found.layers]
    assert rates == sorted(rates, reverse=True)
    assert told[-1][0] == 1.0
    assert len(told) == found.trials


def test_what_changes_the_graph_is_built_each_time(digits, samples):
    found = weft.campaign(digits, "prune", grid={"ratio": [0.3]}, data=samples)
    assert (found.builds, found.trials) == (2, 1)
    assert found.cells[0].trials[0].seed is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"recipe": "palette", "trials": 2}, "without a seed all trials are the same; got 2"),
        ({"recipe": "fault-weights", "trials": 0, "count": 1}, "trials must be at least 1; got 0"),
        (
            {"recipe": "fault-weights", "grid": {"count": []}},
            "grid: count must be a sequence of values; got []",
        ),
        (
            {"recipe": "fault-weights", "grid": {"seed": [1]}},
            "a campaign assigns the seeds. Pass seed and trials instead.",
        ),
        (
            {"recipe": "fault-weights", "count": 1, "seed": -1},
            "seed must not be negative; got -1",
        ),
        (
            {"recipe": "fault-weights", "count": 1, "bits": (40,)},
            "fault-weights: bits of f32 are 0 to 31, 0 being the lowest; got bits=40",
        ),
    ],
)
def test_what_cannot_be_a_campaign_is_refused(digits, values, message):
    with pytest.raises(UserError) as caught:
        weft.campaign(digits, **values)
    assert str(caught.value) == message


def test_several_values_are_a_grid_but_for_lists():
    values = {"count": "1,10", "bits": "30,31", "kind": "flip"}
    assert campaigns.parse_grid("fault-weights", values) == {
        "count": ["1", "10"],
        "bits": ["30,31"],
        "kind": ["flip"],
    }


def test_the_command(digits, tmp_path):
    words = ("campaign", digits, "fault-weights", "count=1,50", "--trials", "3")
    text = good(*words, "--svg", tmp_path / "rates.svg")
    lines = text.splitlines()
    assert lines[0].split() == (
        "parameters trials predictions changed trials with a change invalid".split()
    )
    assert [line.split()[:2] for line in lines[1:3]] == [["count=1", "3"], ["count=50", "3"]]
    assert "6 trials on 1 build" in lines[3]
    assert (tmp_path / "rates.svg").read_text().startswith("<svg")
    found = record(*words)
    assert [each["parameters"] for each in found["cells"]] == [{"count": "1"}, {"count": "50"}]
    assert bad("campaign", digits, "palette", "prune") == (
        "error: a campaign takes one recipe\n  got: palette, prune\n"
    )


def test_a_recipe_of_ones_own_and_its_faults(digits, samples):
    def fails(graph: Graph, _: object) -> Graph:
        assert graph.nodes[1 << 20]
        return graph

    mine = Recipe("mine", "Fails.", Exactness.BIT_EXACT, fails)
    with pytest.raises(UserError) as caught:
        weft.campaign(digits, mine, data=samples)
    assert caught.value.rule == "recipe mine: `apply` failed"
    assert caught.value.got == "IndexError: tuple index out of range"
    assert caught.value.where.startswith(__file__)
