"""Targets that differ from others in their caches."""

from __future__ import annotations

from dataclasses import replace

from weft.targets.target import Memory, Target


def cached(target: Target, caches: tuple[int, ...], name: str = "") -> Target:
    """The target with caches of so many bytes for each core, and memory beyond."""
    own = (Memory(f"L{n}", bytes=size, bytes_per_cycle=32) for n, size in enumerate(caches, 1))
    far = Memory("DRAM", kind="ram", bytes_per_cycle=9, reach="shared")
    return replace(target, name=name or target.name, memories=(*own, far) if caches else ())


def with_one_cache(target: Target, size: int) -> Target:
    """The target with one cache of so many bytes, and its own memory beyond."""
    *_, last = target.memories
    return replace(target, memories=(Memory("L1", bytes=size, bytes_per_cycle=64.0), last))
