"""Runs the tests on the sources beside them, whether the plugin is installed or not."""

from __future__ import annotations

import sys
import tempfile
import tomllib
from pathlib import Path

from weft.plugins import refresh
from weft.plugins.discover import Kind, of_kind

PROJECT = Path(__file__).parents[1]


def metadata(project: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder with the metadata that an installer would write for a project."""
    known = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    name, version = known["name"], known["version"]
    site = tempfile.TemporaryDirectory(prefix="weft-site-")
    info = Path(site.name) / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines: list[str] = []
    for group, entries in known["entry-points"].items():
        lines += [f"[{group}]", *(f"{entry} = {part}" for entry, part in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return site


sys.path.insert(0, str(PROJECT / "src"))
if not any(each.name == "onednn" for each in of_kind(Kind.GENERATORS)):
    SITE = metadata(PROJECT)
    sys.path.append(SITE.name)
refresh()
