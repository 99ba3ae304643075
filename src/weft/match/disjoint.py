"""Sets without common members that weigh the most together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.deferred import installed
from weft.match.search_state import Deadline

# How often the clock is looked at.
_SETS_PER_LOOK = 256

MOST_MEMBERS = 1_000_000
"""Members of all sets together; a model of more takes too much memory and time to make."""


def heaviest(
    sizes: Sequence[int],
    members: Callable[[int], set[str]],
    weights: Sequence[int],
    deadline: Deadline,
) -> tuple[list[int], str]:
    """Numbers of disjoint sets of the largest weight, by CP-SAT, and what is not known of it.

    The solver begins with the sets that are found by taking the heaviest first, so there is
    always an answer.

    Args:
        sizes: how many members each set has.
        members: those of a set, by its number.
        weights: of the sets.
        deadline: when it stops.
    """
    first, whole = _heaviest_first(members, weights, deadline)
    late = f"nothing was weighed within {deadline.seconds:g} s: the heaviest were taken first"
    if not whole:
        return first, late
    if sum(sizes) > MOST_MEMBERS:
        return first, (
            f"matches have {sum(sizes):,} nodes in all, too many to weigh against each other: "
            "the heaviest were taken first"
        )
    if len(first) == len(sizes):
        return first, ""
    if not installed("ortools"):
        return first, (
            "the heaviest were taken first; to weigh all sets of matches against each other, "
            "install OR-tools: pip install 'weft[solver]'"
        )
    return _by_solver(members, weights, first, deadline) or (first, late)


def _by_solver(
    members: Callable[[int], set[str]],
    weights: Sequence[int],
    first: Sequence[int],
    deadline: Deadline,
) -> tuple[list[int], str] | None:
    """The numbers that CP-SAT finds, beginning with the first ones; nothing if time runs out."""
    # OR-tools takes 0.6 s to import, which nothing else that uses queries should pay.
    from ortools.sat.python import cp_model  # noqa: PLC0415

    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in weights]
    sharing: dict[str, list[cp_model.IntVar]] = {}
    begin = set(first)
    for number, variable in enumerate(taken):
        if number % _SETS_PER_LOOK == 0 and not deadline.left:
            return None
        model.add_hint(variable, number in begin)
        for name in members(number):
            sharing.setdefault(name, []).append(variable)
    for variables in sharing.values():
        model.add_at_most_one(variables)
    model.maximize(sum(w * v for w, v in zip(weights, taken, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = deadline.left
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    chosen = [number for number, variable in enumerate(taken) if solver.boolean_value(variable)]
    if status == cp_model.OPTIMAL:
        return chosen, ""
    return chosen, (
        f"stopped after {deadline.seconds:g} s: weight {solver.objective_value:g}, no set has more "
        f"than {solver.best_objective_bound:g}"
    )


def _heaviest_first(
    members: Callable[[int], set[str]], weights: Sequence[int], deadline: Deadline
) -> tuple[list[int], bool]:
    """Sets taken one by one, the heaviest that is left first, and whether all were looked at."""
    taken: set[str] = set()
    chosen: list[int] = []
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    for place, number in enumerate(order, 1):
        own = members(number)
        if taken.isdisjoint(own):
            taken |= own
            chosen.append(number)
        if place % _SETS_PER_LOOK == 0 and not deadline.left:
            return sorted(chosen), False
    return sorted(chosen), True
