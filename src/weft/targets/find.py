"""The targets: one TOML file for each, and the machine that Weft runs on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from weft.errors import InternalError, UserError, nearest_or_all
from weft.plugins import Kind, Lazy, Table, Unusable
from weft.targets import reading, system
from weft.targets.system import features
from weft.targets.target import Target

__all__ = ["ALL", "SIMD", "TARGETS", "features", "host", "runs_here", "target"]

_DATA = files("weft.targets").joinpath("data")
TARGETS: tuple[str, ...] = tuple(
    sorted(
        file.name.removesuffix(".toml") for file in _DATA.iterdir() if file.name.endswith(".toml")
    )
)
"""Names of the built-in targets: those of the files in ``data``."""


@cache
def _read(name: str) -> Target:
    try:
        return reading.read(name, _DATA.joinpath(f"{name}.toml"), _builtin)
    except Unusable as error:
        raise InternalError(f"target {name}: {error}") from error


def _builtin(name: str) -> Target | None:
    return _read(name) if name in TARGETS else None


def _accept(name: str, part: object) -> Target:
    """A target from the file that stands for it, or from itself."""
    made = part if isinstance(part, Target) else None
    if isinstance(part, Traversable):
        made = reading.read(name, part, ALL.get, ALL.why_missing)
    if made is None:
        what = type(part).__name__
        raise Unusable(f"it must be a path to a TOML file or a Target, but is {what}")
    if made.name != name:
        raise Unusable(f"the entry point must have the target's name, which is {made.name}")
    wrong = reading.problem(made)
    if wrong:
        raise Unusable(f"its {wrong}")
    return made


ALL: Table[Target] = Table(Kind.TARGETS, Lazy(TARGETS, _read), _accept, frozenset({"host"}))
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
            "unknown target",
            got=name,
            fix=ALL.why_missing(name) or nearest_or_all(name, (*ALL, "host")),
        )
    return made


# --- this machine ---------------------------------------------------------------------------

SIMD: MappingProxyType[str, str] = MappingProxyType(
    {
        "none": "generic",
        "sse2": "x86-sse2",
        "avx2": "x86-avx2",
        "avx512": "x86-avx512",
        "neon": "aarch64-neon",
    }
)
"""Targets by the names of their vector instructions; ``none`` is plain C."""


def _levels() -> tuple[str, ...]:
    """Targets with vectors whose instructions this machine has, the widest first."""
    machine = system.architecture()
    if machine == "x86_64":
        wide = ("x86-avx512", "x86-avx2")
        return (*(name for name in wide if runs_here(_read(name))), "x86-sse2")
    return ("aarch64-neon",) if machine == "aarch64" else ()


def runs_here(target: Target) -> bool:
    """Whether this machine has the instructions of a target."""
    if target.architecture not in ("", system.architecture()):
        return False
    # Only on x86 the system names features as records do.
    return target.architecture != "x86_64" or {*target.features} <= system.cpu_flags() | {"sse2"}


def host(simd: str = "") -> Target:
    """The machine that Weft runs on, with what the system tells of it.

    Args:
        simd: use these vector instructions and no others: a key of ``SIMD``.

    Raises:
        UserError: the machine has not got them.
    """
    levels = (*_levels(), "generic")
    if simd:
        names = [name for name, level in SIMD.items() if level in levels]
        if SIMD.get(simd) not in levels:
            raise UserError(
                "vector instructions must be of this machine",
                got=simd,
                fix=f"Use one of {', '.join(names)}.",
            )
        return _read(SIMD[simd])
    if levels[0] == "generic":
        return replace(_read("generic"), name="host", core=system.core())
    # On Arm the compiler knows the machine without flags, but for its newer instructions.
    flags = () if levels[0] == "aarch64-neon" else _read(levels[0]).flags
    if levels[0] in ("x86-avx512", "aarch64-neon"):
        flags += system.feature_flags()
    found = system.completed(replace(_read(levels[0]), name="host", flags=flags))
    own = ALL.get(found.core)
    if own is None:
        return found
    return _executed_by(found, own)


def _executed_by(machine: Target, core: Target) -> Target:
    """The machine at the rates of its core's record; features and sizes remain the system's."""
    if core.vector_bytes != machine.vector_bytes:
        # The system hides the core's wider vectors; what instructions take is true without.
        instructions = core.costs.instructions
        return replace(machine, costs=replace(machine.costs, instructions=instructions))
    known = {each.name: each for each in core.memories}
    memories = tuple(
        replace(
            each,
            bytes_per_cycle=known[each.name].bytes_per_cycle or each.bytes_per_cycle,
            streams=known[each.name].streams,
        )
        if each.name in known
        else each
        for each in machine.memories
    )
    return replace(
        machine, vectors=core.vectors, issue=core.issue, memories=memories, costs=core.costs
    )
