"""The same network gives the same C, byte for byte, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.folders import zoo_folder
from tests.models import networks
from tests.turns import a_few, thorough

_SCRIPT = """
import hashlib, sys
import weft
path, target, flavour, weights = sys.argv[1:]
files = weft.load(path).source(target, flavour=flavour, weights=weights)
state = hashlib.sha256()
for name, text in (files.header, *files.private, *files.sources):
    state.update(f"{name} {len(text)}".encode() + text.encode())
if files.blob is not None:
    state.update(files.blob.tobytes())
print(state.hexdigest())
"""
SEEDS = ("0", "1", "4242") if thorough(__name__) else ("0", "4242")


def hashes(path: Path, target: str, flavour: str, weights: str) -> set[str]:
    """What processes with different hash seeds generate."""
    found: set[str] = set()
    for seed in SEEDS:
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(path), target, flavour, weights],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert len(done.stdout.strip()) == 64
        found.add(done.stdout.strip())
    return found


@pytest.mark.parametrize("name", a_few(networks.every(), 1))
def test_hash_seeds_change_nothing(name: str) -> None:
    assert len(hashes(networks.path_of(name), "host", "gnu", "blob")) == 1


@pytest.mark.thorough
def test_hash_seeds_change_nothing_of_plain_c() -> None:
    path = networks.path_of("digits")
    plain = hashes(path, "generic", "c89", "arrays")
    assert len(plain) == 1
    assert plain != hashes(path, "generic", "c99", "arrays")


@pytest.mark.zoo
@pytest.mark.parametrize("name", ["mobilenet_v2.ts", "lstm.dynamo", "transformer.ts", "swin_t.ts"])
def test_hash_seeds_change_nothing_of_large_networks(name: str) -> None:
    path = zoo_folder() / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent: run `make zoo-export`")
    assert len(hashes(path, "host", "gnu", "blob")) == 1
