"""Targets that are boards: their records say how much memory there is."""

from __future__ import annotations

from weft.errors import UserError
from weft.targets.find import TARGETS, target
from weft.targets.target import Target


def flash_bytes(record: Target) -> int:
    """Bytes of the memories that keep code and constants; 0 where the record has no sizes."""
    return sum(each.bytes for each in record.memories if each.kind == "rom")


def ram_bytes(record: Target) -> int:
    """Bytes of the memories for data; 0 where the record has no sizes."""
    return sum(each.bytes for each in record.memories if each.kind == "ram")


def boards() -> tuple[str, ...]:
    """Names of the built-in boards."""
    return tuple(name for name in TARGETS if flash_bytes(target(name)))


def board(name: str) -> Target:
    """The board of a name.

    Raises:
        UserError: there is no such target, or its record has no memory sizes.
    """
    record = target(name)
    if not (flash_bytes(record) and ram_bytes(record)):
        raise UserError(
            "a board states the bytes of its memories",
            got=f"{name}, a processor",
            fix=f"Use --target {name} with --ram and --flash, or one of {', '.join(boards())}.",
        )
    return record
