"""Register tiles of pairs of bfloat16, and their cost: that of ``tiled`` with half the steps."""

from __future__ import annotations

from functools import partial

from weft.kernels import tiled, tiled_choice
from weft.kernels.alternatives import Alternative, Sums
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.pairs import paired
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiled import TileForm, usual_form
from weft.plan.implementation import Implementation


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The forms of register tiles, by an instruction for pairs."""
    parts = contraction_of(task)
    found = parts if isinstance(parts, Refusal) else paired(parts)
    if isinstance(found, Refusal):
        return found
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


def name_of(parts: Contraction, form: TileForm) -> str:
    """What an alternative is called: ``vdpbf16ps-14x2-ahead``."""
    assert parts.pairs is not None
    row = parts.pairs.rows[tiled.lane_count(parts)]
    return f"{row.name}-{form.name.removeprefix('tiled-')}"


def write(parts: Contraction, form: TileForm) -> Implementation | None:
    """The kernel."""
    return tiled.write(parts, form, name_of(parts, form))


GENERATOR = Generator(
    "pairs",
    "Register tiles of positions and vectors of output channels for layers of bfloat16: an "
    "instruction of the target multiplies pairs of input channels and adds (AVX-512 BF16).",
    (
        "one sum of products of bf16, read as f32, with constant weights that can be packed",
        "an even number of input channels, side by side in the input",
        "output channels fastest in the output, in whole vectors, halves or quarters of them",
        "the target has the instruction",
    ),
    propose,
    any_threads=True,
)
