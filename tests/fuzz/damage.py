"""Damage a warm cache at random: every run must be right or rebuild, and none may crash.

Each seed is one damage, so that whatever is found can be had again:

    python -m tests.fuzz.damage --count 1000
    python -m tests.fuzz.damage --seed 123456 --count 1
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

import weft
from weft.runtime.cache import Cache
from weft.runtime.choices import Choice, Choices
from weft.runtime.compiler import find_compiler
from weft.runtime.identity import digest_self
from weft.runtime.limits import Limits, limits
from weft.targets.find import target

RIGHT, REBUILT, WRONG = "right", "rebuilt", "WRONG"
_CODES = {0: RIGHT, 1: REBUILT}
_CONTEXT = "a processor"
_CHOICES = [Choice(f"layer {n}", "nest", 1.0 + n, "tiled", 2.0, made=1.0 + n) for n in range(40)]


# --- damages --------------------------------------------------------------------------------


def _flip(path: Path, chance: random.Random, _: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    for _bit in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    _overwrite(path, data)


def _scribble(path: Path, chance: random.Random, _: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    start = chance.randrange(len(data))
    count = min(len(data) - start, chance.choice((8, 64, 4096)))
    data[start : start + count] = chance.choice((bytes(count), chance.randbytes(count)))
    _overwrite(path, data)


def _cut(path: Path, chance: random.Random, _: list[Path]) -> None:
    size = path.stat().st_size
    os.truncate(path, chance.choice((0, size // 2, size - 1, chance.randrange(size))))


def _extend(path: Path, chance: random.Random, _: list[Path]) -> None:
    with path.open("ab") as file:
        file.write(chance.randbytes(chance.choice((1, 64, 5000))))


def _delete(path: Path, _: random.Random, __: list[Path]) -> None:
    path.unlink()


def _swap(path: Path, chance: random.Random, others: list[Path]) -> None:
    other = chance.choice([each for each in others if each.suffix == path.suffix] or others)
    first, second = path.read_bytes(), other.read_bytes()
    _overwrite(path, second)
    _overwrite(other, first)


def _overwrite(path: Path, data: bytes | bytearray) -> None:
    with path.open("r+b") as file:  # in place, as no process of Weft's does
        file.truncate(0)
        file.write(data)


_DAMAGES: tuple[Callable[[Path, random.Random, list[Path]], None], ...] = (
    _flip, _flip, _scribble, _cut, _extend, _delete, _swap,
)  # fmt: skip


def damage(folder: Path, chance: random.Random) -> str:
    """Damages one to three files of a folder; returns what was done."""
    done: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        paths = sorted(path for path in folder.iterdir() if path.stat().st_size)
        path, way = chance.choice(paths), chance.choice(_DAMAGES)
        way(path, chance, [each for each in paths if each != path])
        done.append(f"{way.__name__[1:]} {path.name}")
    return ", ".join(done)


# --- runs -----------------------------------------------------------------------------------


class Warm:
    """A cache that holds one of everything, and what runs from it must give.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.kept, self.cache = folder / "kept", folder / "cache"
        self.paths = [folder / "relu.onnx", folder / "tanh.onnx"]
        for number, (path, op) in enumerate(
            zip(self.paths, (weft.ops.relu, weft.ops.tanh), strict=True)
        ):
            chance = np.random.default_rng(number)
            weight = weft.constant(chance.standard_normal((40, 40)).astype(np.float32))
            weft.trace(lambda x, w=weight, f=op: f(x @ w), "f32[8,40]", name=path.stem).save(path)
        self.image = np.random.default_rng(2).standard_normal((8, 40)).astype(np.float32)
        # What takes long and cannot be damaged is done once, before the fork.
        find_compiler()
        digest_self()
        with _cache_at(self.cache):
            found = _forked(self._fill)
            assert found == 1, f"filling the cache ended with {found}"
            self.cache.rename(self.kept)
        self.expected = [np.load(path.with_suffix(".npy")) for path in self.paths]
        self.limits = self._record(self.kept)

    def _record(self, folder: Path) -> bytes:
        (path,) = folder.glob("limits-*.json")
        found = Cache(folder).read(path.name)
        assert found is not None
        return found

    def _outputs(self) -> Iterator[np.ndarray]:
        for path, threads in zip(self.paths, (2, 1), strict=True):
            found = weft.load(path).compile(threads=threads)(self.image)
            assert isinstance(found, np.ndarray)
            yield found

    def _limits(self) -> Limits:
        return limits(target("host"), 1)

    def _fill(self) -> bool:
        for path, found in zip(self.paths, self._outputs(), strict=True):
            np.save(path.with_suffix(".npy"), found)
        Choices().keep(_CONTEXT, _CHOICES)
        self._limits()
        return False

    def _run(self) -> bool:
        """Whether all that is found was kept, not built again; raises if anything is wrong."""
        before = _stamps(self.cache)
        for found, expected in zip(self._outputs(), self.expected, strict=True):
            np.testing.assert_array_equal(found, expected)
        wanted = {each.layer: each.alternative for each in _CHOICES}
        known = Choices().known(_CONTEXT)
        assert known.items() <= wanted.items(), known
        measured = replace(self._limits(), gflops=0.0, levels=())
        assert measured.threads == 1
        # A database that was begun anew serves, too.
        Choices().keep(_CONTEXT, _CHOICES)
        assert Choices().known(_CONTEXT) == wanted
        after = _stamps(self.cache)
        return before.keys() == after.keys() and all(
            before[name] == after[name] for name in before if not name.startswith("tuning")
        )

    def attempt(self, seed: int) -> tuple[str, str]:
        """What was damaged, and what came of it."""
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.kept, self.cache)
        done = damage(self.cache, random.Random(seed))
        with _cache_at(self.cache):
            found = _forked(self._run)
            if found == 1:  # the next run must find all in order again
                found = 1 if _forked(self._run) == 0 else 70
        return done, _CODES.get(found, f"{WRONG} ({found})")


def _stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def _cache_at(folder: Path) -> patch.dict[str, str]:  # pyright: ignore
    return patch.dict(os.environ, {"WEFT_CACHE": str(folder)})


def _forked(work: Callable[[], bool]) -> int:
    """Exit code of a process of its own, or the signal that ended it, negative."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = 0 if work() else 1
        except BaseException:  # noqa: BLE001 (the parent is told by the exit code)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def campaign(count: int, seed: int, tell: Callable[[str], None]) -> Counter[str]:
    """Damages a warm cache again and again; how often each came of it."""
    found: Counter[str] = Counter()
    small = {
        "weft.runtime.limits._ROUND_SECONDS": 1e-5,
        "weft.runtime.limits._ROUNDS": 2,
        "weft.runtime.limits._LEAST_MEMORY": 1 << 16,
    }
    with tempfile.TemporaryDirectory(prefix="weft-damage-") as folder:
        patches = [patch(name, value) for name, value in small.items()]
        patches.append(patch("weft.runtime.limits.cache_sizes", lambda: (("L1", 8 << 10),)))
        for each in patches:
            each.start()
        try:
            warm = Warm(Path(folder))
            for number in range(seed, seed + count):
                done, result = warm.attempt(number)
                found[result] += 1
                if result not in _CODES.values():
                    tell(f"seed {number}: {done}: {result}")
        finally:
            for each in patches:
                each.stop()
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = campaign(arguments.count, arguments.seed, partial(print, flush=True))
    print(f"{arguments.count} damages: {', '.join(f'{found[each]} {each}' for each in found)}")
    return 0 if found.keys() <= set(_CODES.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
