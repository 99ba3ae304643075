"""Targets that are boards: their records say how much memory there is."""

from __future__ import annotations

from weft.errors import UserError
from weft.targets.find import TARGETS, target
from weft.targets.target import Target


def flash_bytes(record: Target) -> int:
    """Bytes of the memories that keep code and constants; 0 where the record has no sizes."""
    return sum(each.bytes for each in record.memories if each.kind == "rom")


def ram_bytes(record: Target) -> int:
    """Bytes of the memories for an arena; 0 where the record has no sizes."""
    return sum(
        each.bytes for each in record.memories if each.kind == "ram" and each.may_hold("arena")
    )


def boards() -> tuple[str, ...]:
    """Names of the built-in boards."""
    return tuple(name for name in TARGETS if ram_bytes(target(name)))


def board(name: str) -> Target:
    """The board of a name.

    Raises:
        UserError: there is no such target, or its record has no memory sizes.
    """
    record = target(name)
    if not ram_bytes(record):
        raise UserError(
            "a board states the bytes of its memories",
            got=f"{name}, a processor",
            fix=f"Use --target {name} with --ram and --flash, or one of {', '.join(boards())}.",
        )
    return record


def processor(record: Target) -> str:
    """The target whose code a board runs: the first that has its flags and no memory sizes."""
    if not ram_bytes(record):
        return record.name
    plain = [target(name) for name in TARGETS if not ram_bytes(target(name))]
    same = (each.name for each in plain if each.flags == record.flags)
    return next(same, record.name)
