"""The targets: one TOML file for each, and the machine that Weft runs on."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

from weft.errors import InternalError, UserError, nearest_or_all
from weft.plugins import Kind, Table, Unusable
from weft.targets.target import Target

TARGETS: tuple[str, ...] = (
    "generic",
    "x86-sse2",
    "x86-avx2",
    "x86-avx512",
    "aarch64-neon",
    "cortex-m4",
)
_CPUINFO = Path("/proc/cpuinfo")


_FLAVOURS = ("c89", "c99", "gnu")


@cache
def _read(name: str) -> Target:
    try:
        return read(name, files("weft.targets").joinpath("data", f"{name}.toml"))
    except Unusable as error:
        raise InternalError(f"target {name}: {error}") from error


def read(name: str, file: Traversable) -> Target:
    """The target that a TOML file describes.

    Raises:
        Unusable: it describes none.
    """
    try:
        row = tomllib.loads(file.read_text(encoding="utf-8"))
        made = Target(
            name,
            int(row["vector_bytes"]),
            int(row["registers"]),
            str(row["flavour"]),
            tuple(str(flag) for flag in row["flags"]),
            str(row["doc"]),
            tuple(int(size) for size in row.get("caches", ())),
            bool(row.get("fused", True)),
            int(row.get("held", 0)),
            tuple(str(each) for each in row.get("features", ())),
        )
    except KeyError as error:
        raise Unusable(f"{file.name} lacks {error.args[0]}") from error
    except (OSError, TypeError, ValueError) as error:  # broken TOML is a ValueError
        raise Unusable(f"{file.name}: {error}") from error
    unknown = row.keys() - {each.name for each in fields(Target)}
    if unknown:
        raise Unusable(f"{file.name} has {', '.join(sorted(unknown))}, which mean nothing")
    return made


def _accept(name: str, part: object) -> Target:
    """A target from the file that stands for it, or from itself."""
    made = part if isinstance(part, Target) else None
    if isinstance(part, Traversable):
        made = read(name, part)
    if made is None:
        what = type(part).__name__
        raise Unusable(f"it must be a path to a TOML file or a Target, but is {what}")
    if made.name != name:
        raise Unusable(f"the entry point must have the target's name, which is {made.name}")
    if made.flavour not in _FLAVOURS:
        raise Unusable(f"its flavour must be {', '.join(_FLAVOURS)}, but is {made.flavour!r}")
    bits = made.vector_bytes
    if bits < 0 or bits & (bits - 1):
        raise Unusable(f"its vector_bytes must be 0 or a power of two, but are {bits}")
    return made


ALL: Table[Target] = Table(
    Kind.TARGETS, {name: _read(name) for name in TARGETS}, _accept, frozenset({"host"})
)
"""Every target by name, those of plugins too."""


def target(name: str) -> Target:
    """The target of a name; ``host`` is this machine.

    Raises:
        UserError: there is no such target; names the nearest.
    """
    if name == "host":
        return host()
    made = ALL.get(name)
    if made is None:
        raise UserError(
            "target must be one that Weft knows",
            got=name,
            fix=ALL.why_missing(name) or nearest_or_all(name, (*ALL, "host")),
        )
    return made


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


_FEATURES: MappingProxyType[str, str] = MappingProxyType(
    {"avx512_vnni": "-mavx512vnni", "avx512_bf16": "-mavx512bf16"}
)
"""Names in ``/proc/cpuinfo``, with what tells the compiler."""


def features() -> tuple[str, ...]:
    """The features of this machine that instructions ask for."""
    return tuple(name for name in _FEATURES if name in _cpu_flags())


_X86_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-avx512", frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())),
    ("x86-avx2", frozenset("avx2 fma bmi2".split())),
)


SIMD: MappingProxyType[str, str] = MappingProxyType(
    {
        "sse2": "x86-sse2",
        "avx2": "x86-avx2",
        "avx512": "x86-avx512",
        "neon": "aarch64-neon",
    }
)
"""Targets by the names of their vector instructions."""


def _levels() -> tuple[str, ...]:
    """Targets with vectors whose instructions this machine has, the widest first."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        flags = _cpu_flags()
        return (*(name for name, wanted in _X86_LEVELS if wanted <= flags), "x86-sse2")
    return ("aarch64-neon",) if machine in ("aarch64", "arm64") else ()


def host(simd: str = "") -> Target:
    """The machine that Weft runs on.

    Args:
        simd: use these vector instructions and no others: a key of ``SIMD``.

    Raises:
        UserError: the machine has not got them.
    """
    levels = _levels()
    if simd:
        names = [name for name, level in SIMD.items() if level in levels]
        if SIMD.get(simd) not in levels:
            raise UserError(
                "vector instructions must be of this machine",
                got=simd,
                fix=f"Use one of {', '.join(names)}." if names else "Leave them out.",
            )
        return _read(SIMD[simd])
    if not levels:
        return replace(_read("generic"), name="host")
    # On Arm the compiler knows the machine without flags.
    flags = () if levels[0] == "aarch64-neon" else _read(levels[0]).flags
    has = features() if levels[0] == "x86-avx512" else ()
    flags = (*flags, *(_FEATURES[name] for name in has))
    return replace(_read(levels[0]), name="host", flags=flags, features=has)


def runs_here(wanted: Target) -> bool:
    """Whether this machine has the vector instructions of a target."""
    families = {"x86": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
    family = families.get(wanted.name.partition("-")[0])
    other = family is not None and platform.machine().lower() not in family
    return not (other or (family is not None and wanted.vector_bytes > host().vector_bytes))
