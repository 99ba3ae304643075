"""What a toolkit has for the board that it is made for, and for one that QEMU emulates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from weft.runtime.emulators import MACHINES, Machine
from weft.targets.boards import processor
from weft.targets.target import HOLDS, Target
from weft.templates import filled

_HERE = files("weft.runtime.emulators")


def _board(machine: Target | None) -> Machine | None:
    """The emulated board of a processor without an operating system."""
    found = MACHINES.get(processor(machine)) if machine is not None else None
    return found if found is not None and found.memories and found.compiler else None


def qemu_facts(machine: Target | None) -> dict[str, Any]:
    """How a program for a target is built for QEMU and run; nothing where QEMU has no board."""
    board = _board(machine)
    if board is None or machine is None:
        return {}
    (compiler,) = board.compiler
    return {
        "core": core_name(processor(machine)),
        "compiler": compiler,
        "archiver": compiler.removesuffix("gcc") + "ar",
        "emulator": board.emulator[0],
        "board": board.emulator[board.emulator.index("-M") + 1],
        "command": " ".join([*board.emulator, "-kernel"]),
        "link": " ".join([*board.flags, "-T qemu/board.ld qemu/startup.c"]),
    }


def qemu_files(machine: Target | None) -> Iterator[tuple[str, str]]:
    """Names and texts of the startup code and the linker script of QEMU's board."""
    board = _board(machine)
    if board is not None:
        script = filled(_HERE.joinpath("board.ld").read_text(encoding="utf-8"), board.memories)
        yield "qemu/board.ld", script
        yield "qemu/startup.c", _HERE.joinpath("startup.c").read_text(encoding="utf-8")


def core_name(name: str) -> str:
    """A processor as Arm and CMSIS-Packs call it: ``Cortex-M0+`` for ``cortex-m0plus``."""
    family, _, model = name.partition("-")
    if family != "cortex":
        return name
    return f"Cortex-{model.upper().replace('PLUS', '+')}"


def cmsis_core(machine: Target | None) -> str:
    """The processor if it is of Arm's M profile, for which there are CMSIS-Packs."""
    name = core_name(processor(machine)) if machine is not None else ""
    return name if name.startswith("Cortex-M") else ""


def place_facts(machine: Target | None) -> list[dict[str, str]]:
    """The memories of a board with what may be in them."""
    return [
        {
            "name": each.name,
            "bytes": f"{each.bytes:,}",
            "speed": f"{each.bytes_per_cycle:g}" if each.bytes_per_cycle else "",
            "holds": ", ".join(what for what in HOLDS if each.may_hold(what)),
        }
        for each in (machine.memories if machine is not None else ())
        if each.kind != "cache" and each.bytes
    ]
