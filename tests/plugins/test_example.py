"""The example plugin and Weft itself as installed wheels in a fresh environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from weft.errors import UserError
from weft.runtime.compiler import find_compiler, find_cxx

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


def run(*command: str | Path, **variables: str) -> str:
    """What a command prints; fails where it fails."""
    inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with both wheels; what they depend on comes from this one."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheels: pip install hatchling")
    pytest.importorskip("pip", reason="pip installs the wheels")
    try:
        find_cxx(find_compiler())
    except UserError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps"]
    for project in (ROOT, EXAMPLE):
        wheel = ["wheel", "--no-build-isolation", *offline, "--wheel-dir", folder / "wheels"]
        run(*pip, *wheel, project)
    venv.create(folder / "env", with_pip=False)
    made = folder / "env" / "bin" / "python"
    run(*pip, "--python", made, "install", *offline, *(folder / "wheels").glob("*.whl"))
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    around = [each for each in sys.path if each.endswith("-packages")]
    # Behind its own: so Weft is the wheel, whatever this environment has.
    (site / "around.pth").write_text("".join(f"{each}\n" for each in around))
    return made


def test_the_example_is_short() -> None:
    files = [path for path in EXAMPLE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(len(path.read_text().splitlines()) for path in files) < 200


@pytest.mark.thorough
def test_the_example_works_where_it_is_installed(python: Path, tmp_path) -> None:
    cache = str(tmp_path / "cache")
    assert "env/lib" in run(python, "-c", "import weft; print(weft.__file__)")
    found = json.loads(run(python, "-m", "weft", "plugin", "list", "--json"))
    mine = [each for each in found if each["distribution"] == "weft-squared-relu"]
    assert [(each["kind"], each["name"], each["state"]) for each in mine] == [
        ("ops", "SquaredRelu", "loaded"),
        ("rules", "squared-relu", "loaded"),
        ("targets", "rv32emc", "loaded"),
        ("kernels", "squared-relu", "loaded"),
        ("exports", "cmake", "loaded"),
    ]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    assert "3 passed" in run(python, *tests, EXAMPLE / "tests", WEFT_CACHE=cache)
    off = run(python, "-m", "weft", "plugin", "list", "--json", WEFT_PLUGINS="off")
    assert json.loads(off) == []


@pytest.mark.thorough
def test_an_installed_weft_begins_plugins(python: Path, tmp_path) -> None:
    run(python, "-m", "weft", "plugin", "new", "my-op", "--kind", "op", "-o", tmp_path / "my")
    assert (tmp_path / "my" / "src" / "my_op" / "__init__.py").is_file()
