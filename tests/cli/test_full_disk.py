"""Every command that writes: on a full disk the old file stays, and nothing beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.full_disk import unlisted
from tests.turns import thorough

MOUNT = ["unshare", "--mount"]


def test_every_option_that_writes_is_tried() -> None:
    assert unlisted() == set()


def test_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    trial = [*MOUNT, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("small file systems cannot be mounted here")
    free_pages = [] if thorough(__name__) else ["0", "1", "5", "21"]
    command = [*MOUNT, sys.executable, "-m", "tests.cli.full_disk", str(tmp_path), *free_pages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("\n", "", 0)
