"""``weft targets``: what it lists, and the record that it shows."""

from __future__ import annotations

import pytest

from tests.cli.commands import record, weft
from tests.cli.test_tables import lines_of, terminal
from weft.targets.find import TARGETS

__all__ = ["terminal"]


@pytest.mark.parametrize("name", ["", "host", "cortex-m7"])
def test_it_fits_a_terminal(terminal, name):
    lines = lines_of(terminal, 80, "targets", *filter(None, [name]))
    if not name:
        starts = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
        assert starts[: len(TARGETS)] == [*TARGETS]


def test_a_record():
    found = record("targets", "zen4")
    assert (found["name"], found["vectors"]["executed"], found["registers"]) == ("zen4", 32, 32)
    assert found["costs"]["operations"]["exp"] == 15.0
    assert [each["name"] for each in found["memories"]] == ["L1", "L2", "L3", "DRAM"]
    result = weft("targets", "zen6")
    assert result.exit_code == 1
    assert "Did you mean zen" in result.stderr
