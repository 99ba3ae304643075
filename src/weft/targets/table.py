"""The targets: one TOML file for each, and the machine that Weft runs on."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from weft.errors import UserError
from weft.targets.target import Target

TARGETS: tuple[str, ...] = ("generic", "x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon")
_CPUINFO = Path("/proc/cpuinfo")


@cache
def _read(name: str) -> Target:
    text = files("weft.targets").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    row = tomllib.loads(text)
    return Target(
        name,
        int(row["vector_bytes"]),
        int(row["registers"]),
        str(row["flavour"]),
        tuple(str(flag) for flag in row["flags"]),
        str(row["doc"]),
        tuple(int(size) for size in row.get("caches", ())),
    )


def target(name: str) -> Target:
    """The target of a name; ``host`` is this machine.

    Raises:
        UserError: there is no such target; names the nearest.
    """
    if name == "host":
        return host()
    if name not in TARGETS:
        near = get_close_matches(name, (*TARGETS, "host"), 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(TARGETS)}."
        raise UserError("target must be one that Weft knows", got=name, fix=hint)
    return _read(name)


@cache
def _cpu_flags() -> frozenset[str]:
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


_X86_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-avx512", frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())),
    ("x86-avx2", frozenset("avx2 fma bmi2".split())),
)


def host() -> Target:
    """The machine that Weft runs on."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        flags = _cpu_flags()
        name = next((name for name, wanted in _X86_LEVELS if wanted <= flags), "x86-sse2")
        return replace(_read(name), name="host")
    if machine in ("aarch64", "arm64"):
        return replace(_read("aarch64-neon"), name="host", flags=())
    return replace(_read("generic"), name="host")


ALL: MappingProxyType[str, str] = MappingProxyType({name: _read(name).doc for name in TARGETS})
"""Name and description of every target."""
