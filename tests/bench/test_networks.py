"""The networks of the benchmarks by name."""

import pytest

from bench.networks import FAMILIES, named


def test_a_group_stands_for_its_members_each_once():
    assert named(["recurrent", "gru_256", "ic"]) == ["lstm_256", "gru_256", "ic"]


def test_the_families_have_forty_networks_each_in_one_of_them():
    assert len(named(["families"])) == sum(map(len, FAMILIES.values())) == 40


def test_another_name_is_refused():
    with pytest.raises(ValueError, match=r"^no such network or group: resnet17$"):
        named(["resnet18", "resnet17"])
