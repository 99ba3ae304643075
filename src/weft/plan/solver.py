"""Placement in memory by constraint programming."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from weft.deferred import installed
from weft.plan.interval import Interval

ADVICE = "OR-tools may come closer: pip install 'weft[solver]'"


def is_installed() -> bool:
    """Whether OR-tools, which nothing but this needs, is there."""
    return installed("ortools")


def solver_name() -> str:
    """OR-tools and its version, on which placements depend."""
    return f"ortools {version('ortools')}"


def improve(
    intervals: Sequence[Interval],
    sizes: Sequence[int],
    hint: Sequence[int],
    bound: int,
    alignment: int,
    seconds: float,
) -> list[int] | None:
    """Offsets that need less memory than the hint's, if the solver finds any.

    One worker, a fixed seed and a limit in units of work instead of time make the result
    the same on every machine.

    Args:
        intervals: what is placed.
        sizes: their sizes, multiples of the alignment.
        hint: offsets to start from.
        bound: stop when this size is reached.
        alignment: of the offsets.
        seconds: limit, in the solver's deterministic seconds.
    """
    # OR-tools takes 0.6 s to import, which nothing else that uses plans should pay.
    from ortools.sat.python import cp_model  # noqa: PLC0415

    height = max(offset + size for offset, size in zip(hint, sizes, strict=True)) // alignment
    model = cp_model.CpModel()
    top = model.new_int_var(bound // alignment, height - 1, "top")
    starts: list[cp_model.IntVar] = []
    across: list[cp_model.IntervalVar] = []
    upward: list[cp_model.IntervalVar] = []
    for number, (each, size) in enumerate(zip(intervals, sizes, strict=True)):
        units = size // alignment
        start = model.new_int_var(0, height - 1 - units, f"start{number}")
        model.add(start + units <= top)
        model.add_hint(start, min(hint[number] // alignment, height - 1 - units))
        starts.append(start)
        upward.append(model.new_fixed_size_interval_var(start, units, f"memory{number}"))
        across.append(
            model.new_fixed_size_interval_var(
                each.first, each.last - each.first + 1, f"time{number}"
            )
        )
    model.add_no_overlap_2d(across, upward)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [solver.value(start) * alignment for start in starts]
