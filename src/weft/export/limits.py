"""What a machine has room for: a toolkit that needs more is refused with the figures."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from weft.errors import UserError
from weft.export.toolkit import Toolkit
from weft.plan.report import MemoryPlace, Report, size

_SMALLER = "Use a network with fewer or smaller weights"
_NAME_COMPILER = (
    "Name the compiler and its flags (--compiler) to measure it; -Os makes code smaller"
)


def check_room(
    toolkit: Toolkit,
    ram: int | None,
    flash: int | None,
    remedy: Callable[[], str] = str,
    larger: Callable[[], str] = str,
) -> None:
    """Refuses what does not fit.

    Args:
        toolkit: what is to fit.
        ram: bytes for the arena, the stack, and inputs and outputs.
        flash: bytes for code and constants.
        remedy: what to do where there is too little RAM.
        larger: names a board with room for it, where flash is short; nothing if none has.
    """
    if ram is not None:
        _check_ram(toolkit, ram, remedy)
    if flash is not None and toolkit.flash_bytes > flash:
        weights = toolkit.report.weight_bytes
        raise UserError(
            f"code and constants must fit into {flash:,} bytes of flash",
            got=(
                f"{toolkit.flash_bytes:,} bytes, {said(toolkit.build.measured)}, "
                f"of which weights {weights:,}, the largest {_largest(toolkit.report)}"
            ),
            fix=". ".join(filter(None, [_for_flash(toolkit, flash), larger()])),
        )


def _for_flash(toolkit: Toolkit, flash: int) -> str:
    estimated = toolkit.report.weight_bytes <= flash and toolkit.build.flash is None
    return _NAME_COMPILER if estimated else _SMALLER


def said(compiler: str) -> str:
    """Whether a figure is a compiler's, or an estimate."""
    return f"measured: {compiler}" if compiler else "an estimate"


def ram_needed(toolkit: Toolkit) -> tuple[int, int]:
    """Bytes of RAM that it needs, and those of its inputs, outputs and state alone."""
    ports = (port.port for port in toolkit.files.interface.ports)
    data = sum(port.dtype.bytes * prod(port.shape) for port in ports)
    data += toolkit.report.state_bytes
    return toolkit.report.arena_bytes + toolkit.files.stack_bytes + data, data


def _check_ram(toolkit: Toolkit, ram: int, remedy: Callable[[], str]) -> None:
    report, files = toolkit.report, toolkit.files
    needed, ports = ram_needed(toolkit)
    if needed <= ram:
        return
    word = ", state" if report.state_bytes else ""
    busiest = max(report.rows, key=lambda row: row.live)
    raise UserError(
        f"arena, stack, inputs{word} and outputs must fit into {ram:,} bytes of RAM",
        got=(
            f"{needed:,} bytes: arena {report.arena_bytes:,}, stack {files.stack_bytes:,} "
            f"({said(files.stack.compiler)}), inputs{word} and outputs {ports:,}"
        ),
        where=f"step {busiest.step}, {' + '.join(busiest.ops)}, needs {size(busiest.live)} at once",
        fix=remedy(),
    )


def _largest(report: Report) -> str:
    weights: list[MemoryPlace] = [
        place for row in report.rows for place in row.reads if place.region == "weights"
    ]
    most = max(weights, key=lambda place: place.bytes)
    return f"{most.value} {most.type}"
