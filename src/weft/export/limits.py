"""What a machine has room for: a toolkit that needs more is refused with the figures."""

from __future__ import annotations

from math import prod

from weft.errors import UserError
from weft.export.toolkit import Toolkit
from weft.plan.report import Place, Report, size


def check_room(toolkit: Toolkit, ram: int | None = None, flash: int | None = None) -> None:
    """Refuses what does not fit.

    Args:
        toolkit: what is to fit.
        ram: bytes for the arena, the stack, and inputs and outputs.
        flash: bytes for the weights; code comes on top, and only a compiler knows how much.
    """
    if ram is not None:
        _check_ram(toolkit, ram)
    if flash is not None and toolkit.report.weight_bytes > flash:
        raise UserError(
            f"the weights must fit into {flash:,} bytes of flash",
            got=f"{toolkit.report.weight_bytes:,} bytes, the largest {_largest(toolkit.report)}",
            fix="A network with fewer or smaller weights is needed",
        )


def _check_ram(toolkit: Toolkit, ram: int) -> None:
    report, files = toolkit.report, toolkit.files
    ports = sum(port.port.dtype.bytes * prod(port.port.shape) for port in files.interface.ports)
    needed = report.arena_bytes + files.stack_bytes + ports
    if needed <= ram:
        return
    busiest = max(report.rows, key=lambda row: row.live)
    raise UserError(
        f"arena, stack, inputs and outputs must fit into {ram:,} bytes of RAM",
        got=(
            f"{needed:,} bytes: arena {report.arena_bytes:,}, stack {files.stack_bytes:,}, "
            f"inputs and outputs {ports:,}"
        ),
        where=f"step {busiest.step}, {' + '.join(busiest.ops)}, needs {size(busiest.live)} at once",
        fix="Smaller inputs or fewer channels there would fit, or a machine with more RAM",
    )


def _largest(report: Report) -> str:
    weights: list[Place] = [
        place for row in report.rows for place in row.reads if place.region == "weights"
    ]
    most = max(weights, key=lambda place: place.bytes)
    return f"{most.value} {most.type}"
