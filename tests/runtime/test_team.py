"""Calls on the threads of OpenMP: every part once, in regions or not, forked or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runtime.test_pool import STRICT, run_check

CHECKS = Path(__file__).with_name("team_checks.c")
DATA = Path(__file__).parents[2] / "src" / "weft" / "runtime" / "data"
NAMES = (
    "second_call asleep other_number other_team fewer without_tasks nested rounding many_callers "
    "forked forked_without_pause"
).split()
# Not the thread sanitizer: it does not know how OpenMP's threads wait for each other.
BUILDS = {
    "plain": ["-O2"],
    "memory": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None, reason="needs GCC's OpenMP on Linux"
)


def compile_checks(folder: Path, flags: Sequence[str]) -> Path:
    target = folder / "checks"
    flags = ["-std=gnu11", *STRICT, "-pthread", "-fopenmp", *flags, f"-I{DATA}"]
    sources = [str(CHECKS), str(DATA / "weft_team.c")]
    command = ["gcc", *flags, *sources, "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module", params=BUILDS)
def checks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_checks(tmp_path_factory.mktemp(request.param), BUILDS[request.param])


@pytest.mark.parametrize("name", NAMES)
def test_team(checks: Path, name: str) -> None:
    if name.startswith("forked") and "plain" not in checks.parent.name:
        # The child may find the sanitizer's allocator locked by a thread that it does not have.
        pytest.skip("sanitizers do not follow forks of several threads")
    done = run_check(checks, name)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr[:4000]


def test_all_checks_are_run(checks: Path) -> None:
    done = subprocess.run([checks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == NAMES
