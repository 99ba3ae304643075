"""The table of generators: Weft's own, then those of plugins."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import UserError, nearest
from weft.kernels import nest
from weft.kernels.attention import choice as attention_choice
from weft.kernels.attention import paired_choice as paired_attention
from weft.kernels.bytes.dual import choice as byte_dual_choice
from weft.kernels.bytes.dual import depthwise as byte_depth
from weft.kernels.bytes.dual import planes as byte_planes
from weft.kernels.bytes.dual import winograd as byte_winograd
from weft.kernels.bytes.helium import choice as byte_helium_choice
from weft.kernels.bytes.helium import depthwise as byte_depth_helium
from weft.kernels.bytes.helium import pool as byte_pool
from weft.kernels.bytes.vectors import columns as byte_columns
from weft.kernels.bytes.vectors import points_choice as byte_points_choice
from weft.kernels.bytes.vectors import row_tiles_choice as byte_rows_choice
from weft.kernels.elementwise import complex_maps, interleaved, rows
from weft.kernels.elementwise import maps as elementwise
from weft.kernels.generator import Generator
from weft.kernels.integer import depthwise, tensorized_choice
from weft.kernels.products import (
    amx_choice,
    gates,
    packed,
    pairs_choice,
    rows_in_place,
    separable,
    strassen_choice,
    stretches_choice,
    tiled_choice,
)
from weft.kernels.winograd import choice as winograd_choice
from weft.plugins import Kind, Table, Unusable


def _accept(name: str, part: object) -> Generator:
    if not isinstance(part, Generator):
        raise Unusable(
            f"it must be a Generator of weft.kernels.generator, but is {type(part).__name__}"
        )
    if part.name != name:
        raise Unusable(f"the entry point must have the generator's name, which is {part.name}")
    return part


GENERATORS: Table[Generator] = Table(
    Kind.GENERATORS,
    {
        each.name: each
        for each in (
            winograd_choice.GENERATOR,
            attention_choice.GENERATOR,
            paired_attention.GENERATOR,
            interleaved.GENERATOR,
            complex_maps.GENERATOR,
            elementwise.GENERATOR,
            separable.GENERATOR,
            packed.GENERATOR,
            rows_in_place.GENERATOR,
            gates.GENERATOR,
            depthwise.GENERATOR,
            byte_helium_choice.GENERATOR,
            byte_pool.GENERATOR,
            byte_depth_helium.GENERATOR,
            byte_winograd.GENERATOR,
            byte_planes.GENERATOR,
            byte_depth.GENERATOR,
            byte_dual_choice.GENERATOR,
            byte_columns.GENERATOR,
            byte_points_choice.GENERATOR,
            byte_rows_choice.GENERATOR,
            tensorized_choice.GENERATOR,
            amx_choice.GENERATOR,
            pairs_choice.GENERATOR,
            strassen_choice.GENERATOR,
            stretches_choice.GENERATOR,
            tiled_choice.GENERATOR,
            rows.GENERATOR,
            nest.GENERATOR,
        )
    },
    _accept,
)
"""Best first, where costs are equal or unknown."""


def checked_libraries(names: Sequence[str]) -> tuple[str, ...]:
    """Names of generators whose libraries can be used, each once.

    Raises:
        UserError: there is no such generator, or its library is not installed.
    """
    names = (names,) if isinstance(names, str) else names
    for name in names:
        generator = GENERATORS.get(name)
        if generator is None or generator.library is None:
            known = [each.name for each in GENERATORS.values() if each.library]
            fix = GENERATORS.why_missing(name) or nearest(name, known, 1)
            raise UserError(
                "a library must be one that an installed plugin calls: "
                f"{', '.join(known) or 'there is none'}",
                got=name,
                fix=fix or "`weft plugin list` lists the plugins.",
            )
        generator.library()
    return tuple(sorted(set(names)))
