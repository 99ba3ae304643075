"""The pool: every part once, asleep or not, forked or not, whoever calls; no races, no leaks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from weft.codegen.fork import THREADS_TYPE
from weft.runtime.threads import pool_texts

CHECKS = Path(__file__).with_name("pool_checks.c")
NAMES = (
    "every_part same_threads unhelpful woken kept_away pauses slow_workers many_callers nested "
    "oversubscribed forked rounding pinned several left_alone"
).split()
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]
BUILDS = {
    "plain": ["-O2"],
    "races": ["-O1", "-g", "-fsanitize=thread"],
    "portable_races": ["-O1", "-g", "-fsanitize=thread", "-DWEFT_POOL_PORTABLE"],
    "memory": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}


def compile_checks(
    folder: Path, flags: Sequence[str], source: str = "", compiler: str = "gcc"
) -> Path:
    """The program of checks, with the pool or a spoilt one."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    header, pool = pool_texts()
    (folder / header[0]).write_text(header[1])
    (folder / pool[0]).write_text(source or pool[1])
    target = folder / "checks"
    flags = ["-std=gnu11", *STRICT, "-pthread", *flags, f"-I{folder}"]
    command = [compiler, *flags, str(CHECKS), str(folder / pool[0]), "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run_check(program: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, name], capture_output=True, text=True, check=False, timeout=120, env=os.environ
    )


@pytest.fixture(scope="module", params=BUILDS)
def checks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    return compile_checks(folder, BUILDS[request.param])


@pytest.mark.parametrize("name", NAMES)
def test_pool(checks: Path, name: str) -> None:
    if name == "forked" and "plain" not in checks.parent.name:
        # The child may find the sanitizer's allocator locked by a thread that it does not have.
        pytest.skip("sanitizers do not follow forks of several threads")
    done = run_check(checks, name)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr[:4000]


def test_all_checks_are_run(checks: Path) -> None:
    done = subprocess.run([checks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == NAMES


def test_the_sanitizer_sees_races(tmp_path: Path) -> None:
    """The tests above could fail."""
    _, (_, source) = pool_texts()
    assert "memory_order_acquire" in source
    wrong = source.replace("memory_order_acquire", "memory_order_relaxed")
    program = compile_checks(tmp_path, BUILDS["races"], wrong)
    # Threads may miss each other for once.
    reports = (run_check(program, "every_part").stderr for _ in range(20))
    assert any("data race" in report for report in reports)


def test_clang_warns_of_nothing(tmp_path: Path) -> None:
    assert compile_checks(tmp_path, ["-O2"], compiler="clang-19").exists()


def test_cplusplus_may_include_the_header(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    name, text = pool_texts()[0]
    (tmp_path / name).write_text(text)
    (tmp_path / "main.cc").write_text(
        f'#include "{name}"\nweft_threads threads = {{1, weft_pool_run, 0}};\n'
    )
    flags = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, "main.cc"], cwd=tmp_path, check=True)


def test_generated_headers_declare_the_same_type() -> None:
    (_, header), _ = pool_texts()
    assert THREADS_TYPE in header
