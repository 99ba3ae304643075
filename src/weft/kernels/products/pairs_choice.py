"""Register tiles of pairs of bfloat16, and their cost: that of ``tiled`` with half the steps."""

from __future__ import annotations

from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products import pair_runs, tiled, tiled_choice
from weft.kernels.products.pair_runs import row_runs
from weft.kernels.products.pairs import paired
from weft.kernels.products.tile_form import Order, TileForm, lane_count, usual_form
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.plan.implementation import Implementation


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The forms of register tiles, by an instruction for pairs."""
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    found = paired(parts)
    if isinstance(found, Refusal):
        return _of_runs(parts) or found
    usual = usual_form(found)
    costs = {form: tiled_choice.cycles(found, form) for form in (usual, *tiled_choice.forms(found))}
    # As of other register tiles, of the usual ones only the products count.
    costs[usual] = min(min(costs.values()), tiled_choice.products(found, usual))
    return tuple(
        Alternative(
            name_of(found, form),
            cost,
            Sums("pairs"),
            partial(write, found, form),
            partial(tiled.fits, found, form),
        )
        for form, cost in sorted(costs.items(), key=lambda pair: pair[1])
    )


def _of_runs(parts: Contraction) -> tuple[Alternative, ...]:
    """Pairs along all that a window reads of a row."""
    runs = row_runs(parts)
    if isinstance(runs, Refusal):
        return ()
    row = runs.contraction()
    costs = {
        form: pair_runs.cost(runs, row, form)
        for form in (usual_form(row), *tiled_choice.forms(row))
        if form.order is Order.OUTERMOST and not form.ahead
    }
    return tuple(
        Alternative(
            name_of(row, form, "rows-"),
            cost,
            Sums("pair-runs"),
            partial(pair_runs.write, runs, row, form, name_of(row, form, "rows-")),
            always,
        )
        for form, cost in sorted(costs.items(), key=lambda pair: pair[1])
    )


def name_of(parts: Contraction, form: TileForm, kind: str = "") -> str:
    """What an alternative is called: ``vdpbf16ps-14x2-ahead``."""
    assert parts.pairs is not None
    row = parts.pairs.rows[lane_count(parts)]
    return f"{row.name}-{kind}{form.name.removeprefix('tiled-')}"


def write(parts: Contraction, form: TileForm) -> Implementation | None:
    """The kernel."""
    return tiled.write(parts, form, name_of(parts, form))


GENERATOR = Generator(
    "pairs",
    "Register tiles of positions and vectors of output channels for layers of bfloat16: an "
    "instruction of the target multiplies pairs of input channels and adds (AVX-512 BF16, "
    "Armv8.6-A), or fours of two positions (Armv8.6-A).",
    (
        "one sum of products of bf16, read as f32, with constant weights that can be packed",
        "an even number of input channels, side by side in the input; of convolutions over other "
        "numbers, all that a window reads of a row, side by side",
        "output channels fastest in the output, in whole vectors, halves or quarters of them",
        "the target has the instruction",
    ),
    propose,
    any_threads=True,
)
