"""Distributions for tests: folders with modules and metadata, as an installer leaves them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

import pytest

from weft.plugins import discover, refresh

Install = Callable[[str, Mapping[str, str], Mapping[str, Mapping[str, str]]], Path]


@pytest.fixture
def install(tmp_path, monkeypatch) -> Iterator[Install]:
    """``install(name, files, {kind: {entry: object}})``; a test sees no other plugins."""
    made: set[str] = set()
    sites: list[str] = []
    monkeypatch.setattr(discover, "distributions", lambda: distributions(path=sites))
    refresh()

    def add(name: str, files: Mapping[str, str], entries: Mapping[str, Mapping[str, str]]) -> Path:
        site = tmp_path / f"site-{name}"
        for file, text in files.items():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_text(text)
            made.add(Path(file).parts[0].removesuffix(".py"))
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines: list[str] = []
        for kind, named in entries.items():
            lines += [f"[weft.{kind}]", *(f"{key} = {value}" for key, value in named.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(site)
        sites.insert(0, str(site))
        importlib.invalidate_caches()
        refresh()
        return site

    yield add
    for module in [each for each in sys.modules if each.partition(".")[0] in made]:
        del sys.modules[module]
    monkeypatch.undo()
    refresh()
