"""Targets of plugins that are like each other."""

from __future__ import annotations

import pytest

from tests.plugins.installed import Install, install
from weft.errors import UserError
from weft.targets.find import target

__all__ = ["install"]


@pytest.mark.parametrize("count", [2, 3])
def test_the_cycle_is_named(install: Install, count: int) -> None:
    names = [f"chip{number}" for number in range(count)]
    files = {"chips/__init__.py": "from importlib.resources import files\n"}
    for name, base in zip(names, [*names[1:], names[0]], strict=True):
        files["chips/__init__.py"] += f"{name} = files(__package__) / '{name}.toml'\n"
        files[f"chips/{name}.toml"] = f"like = '{base}'\ndoc = 'A chip.'\n"
    install("chips", files, {"targets": {name: f"chips:{name}" for name in names}})
    with pytest.raises(UserError) as caught:
        target("chip0")
    cycle = " -> ".join([*names, names[0]])
    assert f"like must not form a cycle: {cycle}" in str(caught.value)
    assert "recursion" not in str(caught.value)
