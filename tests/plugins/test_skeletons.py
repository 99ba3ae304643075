"""Skeletons of plugins pass their own tests once they are installed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.cli import main
from weft.errors import UserError
from weft.plugins import Kind
from weft.plugins.skeletons import SKELETONS, write_skeleton

ROOT = Path(__file__).parents[2]


def install_wheel(folder: Path, site: Path) -> None:
    """Builds the wheel of a project and unpacks it, as an installer does."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheels: pip install hatchling")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(site)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wheel = site / done.stdout.strip().splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    wheel.unlink()


def environment(site: Path, tmp_path: Path) -> dict[str, str]:
    """Where the plugin is installed beside Weft."""
    path = os.pathsep.join([str(site), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": path, "WEFT_CACHE": str(tmp_path / "cache")}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SKELETONS)
def test_a_skeleton_passes_its_tests(kind: str, tmp_path) -> None:
    name, folder, site = f"my-{kind}", tmp_path / "project", tmp_path / "site"
    result = CliRunner().invoke(
        main, ["plugin", "new", name, "--kind", kind, "-o", str(folder), "--json"]
    )
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    assert {"pyproject.toml", "README.md", f"tests/test_my_{kind}.py"} <= set(files)
    site.mkdir()
    install_wheel(folder, site)
    variables = environment(site, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(
        [*command, str(folder)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", SKELETONS)
def test_python_of_a_skeleton_has_docstrings_and_short_lines(kind: str, tmp_path) -> None:
    for path in write_skeleton("my-part", kind, tmp_path / "project"):
        text = (tmp_path / "project" / path).read_text()
        assert text.endswith("\n")
        assert "jinja" not in text or kind == "export"
        if path.suffix == ".py":
            assert ast.get_docstring(ast.parse(text))
            assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("My-Op", "words of lowercase letters and digits"),
        ("../op", "words of lowercase letters and digits"),
        ("op_", "words of lowercase letters and digits"),
        ("", "words of lowercase letters and digits"),
        ("numpy", "must not be that of a Python module"),
        ("class", "must not be that of a Python module"),
        ("json", "must not be that of a Python module"),
        ("weft", "must not be that of a Python module"),
    ],
)
def test_names_that_are_refused(name: str, told: str, tmp_path) -> None:
    with pytest.raises(UserError, match=told):
        write_skeleton(name, "rule", tmp_path / "project")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="which is not empty"):
        write_skeleton("my-op", "op", tmp_path)
    with pytest.raises(UserError, match="a file"):
        write_skeleton("my-op", "op", tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert Path("pyproject.toml") in write_skeleton("my-op", "op", tmp_path / "empty")


def test_names_of_weft_are_refused(tmp_path) -> None:
    for name, kind in (("relu", "op"), ("x86-avx2", "target"), ("digits", "dataset")):
        result = CliRunner().invoke(
            main, ["plugin", "new", name, "--kind", kind, "-o", str(tmp_path / "project")]
        )
        assert result.exit_code == 1
        assert "Weft itself has the" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_page_names_every_kind() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for kind, skeleton in SKELETONS.items():
        assert f"| `{kind}` | `{skeleton.kind.group}` |" in page
    assert {each.kind for each in SKELETONS.values()} == set(Kind)
