"""What the system tells of the machine that Weft runs on: its core, its features, its caches."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from weft.targets.target import Target

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What cannot be a cache of a core but comes from machines that hide theirs.
_CREDIBLE = range(4 << 10, (1 << 30) + 1)

_ASK_FOR_TILES = (158, 0x1023, 18)
"""The system call ``arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`` of x86-64."""

_ALIASES: Mapping[str, str] = {"amd64": "x86_64", "arm64": "aarch64"}

_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "avx512_vnni": "-mavx512vnni",
        "avx512_bf16": "-mavx512bf16",
        "amx_bf16": "-mamx-tile -mamx-bf16",
        "bf16": "-march=armv8.2-a+bf16",
    }
)
"""Names in ``/proc/cpuinfo``, with what tells the compiler."""

# By vendor and family; where the family has several, by ranges of models. From the lists of
# processors in the vendors' manuals: AMD's processor programming references, Intel's SDM
# volume 4 (table of DisplayFamily_DisplayModel values), Arm's technical reference manuals
# (MIDR_EL1).
_X86: Mapping[tuple[str, int], tuple[tuple[tuple[range, ...], str], ...]] = MappingProxyType(
    {
        ("AuthenticAMD", 0x17): (((range(0x30),), "zen"), ((range(0x30, 0x100),), "zen2")),
        ("AuthenticAMD", 0x19): (
            ((range(0x10, 0x20), range(0x60, 0x80), range(0xA0, 0xB0)), "zen4"),
            ((range(0x100),), "zen3"),
        ),
        ("AuthenticAMD", 0x1A): (((range(0x100),), "zen5"),),
        ("GenuineIntel", 6): tuple(
            (tuple(range(model, model + 1) for model in models), core)
            for core, models in {
                "haswell": (0x3C, 0x3F, 0x45, 0x46),
                "broadwell": (0x3D, 0x47, 0x4F, 0x56),
                "skylake": (0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6),
                "skylake-x": (0x55,),
                "ice-lake": (0x6A, 0x6C, 0x7D, 0x7E),
                "tiger-lake": (0x8C, 0x8D),
                "golden-cove": (0x8F, 0x97, 0x9A, 0xB7, 0xBA, 0xBF, 0xCF),
            }.items()
        ),
    }
)
# The cores of a vendor by an instruction set that each was the first to have, the newest first: for
# models that are not listed above, of newer processors or as virtual machines report them.
_NEWEST: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "AuthenticAMD": {
            "avx512_vp2intersect": "zen5",
            "avx512f": "zen4",
            "vaes": "zen3",
            "clwb": "zen2",
            "avx2": "zen",
        },
        "GenuineIntel": {
            "avx512_bf16": "golden-cove",
            "avx512_vbmi2": "ice-lake",
            "avx512f": "skylake-x",
            "avx2": "haswell",
        },
    }
)
_ARM: Mapping[int, str] = MappingProxyType(
    {
        0xD03: "cortex-a53", 0xD05: "cortex-a55", 0xD07: "cortex-a57", 0xD08: "cortex-a72",
        0xD0B: "cortex-a76", 0xD0C: "neoverse-n1", 0xD40: "neoverse-v1", 0xD49: "neoverse-n2",
        0xD4F: "neoverse-v2",
    }
)  # fmt: skip


def architecture() -> str:
    """The machine as ``uname -m`` names it, one name for each."""
    name = platform.machine().lower()
    return _ALIASES.get(name, name)


@cache
def cpuinfo() -> Mapping[str, str]:
    """What ``/proc/cpuinfo`` says of the first processor; nothing where there is none."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return MappingProxyType({key.strip(): value.strip() for key, _, value in pairs})


def cpu_flags() -> frozenset[str]:
    """Names of the instructions that the processor has, as ``/proc/cpuinfo`` names them.

    Those of AMX are among them only if the system lets this process use tiles.
    """
    found = cpuinfo()
    names = frozenset((found.get("flags") or found.get("Features") or "").split())
    tiles = {name for name in names if name.startswith("amx_")}
    return names - tiles if tiles and not may_use_tiles() else names


@cache
def may_use_tiles() -> bool:
    """Whether Linux lets this process use AMX's tiles, which it must be asked for."""
    try:
        return ctypes.CDLL(None).syscall(*_ASK_FOR_TILES) == 0
    except (OSError, AttributeError, TypeError):  # no C library that has the function
        return False


def features() -> tuple[str, ...]:
    """The features of this machine that instructions ask for."""
    return tuple(name for name in _FEATURES if name in cpu_flags())


def feature_flags() -> tuple[str, ...]:
    """What tells a compiler of ``features``."""
    return tuple(flag for name in features() for flag in _FEATURES[name].split())


def core() -> str:
    """The kind of core, ``zen4`` or ``cortex-a72``; nothing if it is none of those known.

    An unknown model of Intel or AMD counts as the newest known core whose instructions it has.
    """
    found = cpuinfo()
    try:
        if found.get("CPU implementer") == "0x41":
            return _ARM.get(int(found["CPU part"], 16), "")
        family, model = int(found["cpu family"]), int(found["model"])
    except (KeyError, ValueError):
        return ""
    vendor = found.get("vendor_id", "")
    rows = _X86.get((vendor, family), ())
    known = (name for ranges, name in rows if any(model in each for each in ranges))
    flags = cpu_flags()
    newest = (name for flag, name in _NEWEST.get(vendor, {}).items() if flag in flags)
    return next(chain(known, newest), "")


def cache_sizes() -> tuple[tuple[str, int], ...]:
    """Names and bytes of the data caches of a core, the nearest first; none if nobody says."""
    found: dict[str, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = (
                (folder / name).read_text().strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and match:
            found[f"L{level}"] = int(match[1]) * _UNITS[match[2]]
    return tuple(sorted(found.items()))


def completed(target: Target) -> Target:
    """A target with the core, the features and the cache sizes of this machine.

    Caches that the system does not tell of, or that no core has, stay as they are; so do all
    of them where the sizes do not grow.
    """
    sizes = {name: size for name, size in cache_sizes() if size in _CREDIBLE}
    memories = tuple(
        replace(each, bytes=sizes.get(each.name, each.bytes)) if each.kind == "cache" else each
        for each in target.memories
    )
    told = [each.bytes for each in memories if each.kind == "cache"]
    return replace(
        target,
        core=core(),
        features=tuple(dict.fromkeys((*target.features, *features()))),
        memories=memories if told == sorted(told) else target.memories,
    )
